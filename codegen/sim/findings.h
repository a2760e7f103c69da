#pragma once
// Collects the findings and counters of one CTA. Equal findings (kind and both ops) are counted,
// not repeated.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/sim/program.h"
#include "codegen/sim/simulator.h"

namespace tegula::sim {

/// A fault at an op of the program. `other` is the op on the other side, if any.
struct Fault {
  Detector kind;
  ir::OpId op;
  ir::OpId other;
  int warp = -1;
  int lane = -1;
  std::uint64_t address = 0;
};

class Findings {
 public:
  Findings(const DecodedKernel& program, const SimOptions& options, std::array<int, 3> cta)
      : program_(program), options_(options), cta_(cta) {}

  bool wants(Detector d) const { return options_.detectors.has(d); }
  void add(const Fault& fault, std::string text);
  /// Counts a fault that was already reported, in which case its text need not be formatted.
  bool is_repetition(const Fault& fault);
  std::vector<Finding> take() { return std::move(list_); }

 private:
  const DecodedKernel& program_;
  const SimOptions& options_;
  std::array<int, 3> cta_;
  std::vector<Finding> list_;
  std::map<std::tuple<Detector, std::uint32_t, std::uint32_t>, std::size_t> known_;
};

/// Mnemonic of an op, or "kernel start" for none.
std::string_view op_name(const ir::Kernel& kernel, ir::OpId op);
/// Returns " at file:line", or nothing for an unknown position.
std::string position_text(const Loc& loc);

}  // namespace tegula::sim
