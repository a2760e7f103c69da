#pragma once
// Exact addresses of threads in the first iteration of all loops. They are computed when ranges
// show a possible overlap of two accesses, before it is reported as a fault.
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/check/shared_state.h"
#include "ir/eval/cell.h"

namespace tegula::codegen {

class ExactAddresses {
 public:
  explicit ExactAddresses(const ir::Kernel& simt) : k_(simt) {}

  /// Returns true if the two accesses overlap. Returns false if that is unknown, or if both advance
  /// along a ring, in which case their slots may differ.
  bool do_touch(const SmemAccess& a, const SmemAccess& b);

 private:
  using Registers = std::vector<ir::Cell>;
  struct Bytes {
    std::vector<ByteRange> spans;
    bool is_carried = false;  ///< the addresses depend on a loop carry
  };
  using Pair = std::array<std::uint32_t, 6>;  ///< op, part and group of both accesses
  bool find_touch(const SmemAccess& a, const SmemAccess& b);
  std::optional<Bytes> bytes_of(const SmemAccess& p);
  const Registers* of(ir::Value v);
  std::optional<Registers> compute(ir::Value v);
  std::optional<Registers> first_of(ir::Value v, const ir::OpData& d);
  std::optional<Registers> elementwise(const ir::OpData& d, ir::Type type);
  std::optional<Registers> gathered(const ir::OpData& d);

  const ir::Kernel& k_;
  std::map<Pair, bool> touching_;
  std::int64_t thread_ = 0;
  bool is_carried_ = false;
  std::unordered_map<ir::Value, std::optional<Registers>>
      known_;  ///< registers of the current thread
};

}  // namespace tegula::codegen
