#pragma once
// Runs passes in order: checks the chain of forms, verifies after each, times, reports changes, and
// turns any failure into a reproducer that `tegula opt` replays.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/kernel.h"
#include "ir/plan.h"
#include "ir/plan_request.h"
#include "ir/schedule/schedule.h"
#include "tegula/error.h"

namespace tegula::ir {

/// Why an optimisation was or was not applied, as data.
struct Remark {
  enum class Kind : std::uint8_t { Applied, Missed, Analysis };
  std::string pass;
  Loc loc;
  Kind kind = Kind::Analysis;
  std::string reason;
  std::vector<std::pair<std::string, std::string>> values;

  /// "k.cpp:12: missed: the reason rows=3", or the pass where no line is known.
  std::string str() const;
};

/// What pipeline_wgmma has expanded a loop from, by the labels that ops have as attributes, else by
/// those of the kernel in front of the pass.
struct ExpandedLoop {
  LoopSchedule steps;
  std::optional<Token> token;  ///< of the consumers
};

/// Inputs of a pass besides the kernel.
struct PassContext {
  /// Set by whoever compiles; the pass `plan` makes one where it is missing.
  std::optional<Plan> plan;
  /// Fields of the plan so made that are given, not chosen.
  PlanRequest planned;
  /// The assumptions of the kernel are checked by the code that is made (for the simulator).
  bool keep_checks = false;
  std::vector<Remark> remarks;
  std::vector<ExpandedLoop> expanded;
  std::string_view pass;  ///< the pass that runs

  void remark(Remark::Kind kind, Loc loc, std::string reason,
              std::vector<std::pair<std::string, std::string>> values = {}) {
    remarks.push_back({std::string(pass), loc, kind, std::move(reason), std::move(values)});
  }
};

/// A kernel needs more shared memory than one CTA may use.
class SharedMemoryError : public CompileError {
 public:
  SharedMemoryError(const Kernel& kernel, std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
};

/// A pass plans reading only, then rewrites. Returns whether it changed the kernel.
using PassFn = bool (*)(Kernel&, PassContext&);

struct Pass {
  std::string_view name;
  Form takes, leaves;
  PassFn run;
  std::string_view doc;
};

/// The passes of ir/passes/passes.def, in their order.
std::span<const Pass> ir_passes();
const Pass* find_pass(std::span<const Pass> passes, std::string_view name);

struct PassTiming {
  std::string_view name;
  double ms = 0;
  bool changed = false;
};

struct PipelineOptions {
  bool verify = true;
  /// Called after each pass with its index and whether it changed the kernel.
  std::function<void(int, const Pass&, const Kernel&, bool)> after_pass;
};

std::vector<PassTiming> run_pipeline(Kernel& kernel, std::span<const Pass> passes,
                                     PassContext& context, const PipelineOptions& options = {});

}  // namespace tegula::ir
