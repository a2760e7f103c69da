#pragma once
// Runs passes in order: checks that their forms match, verifies the kernel after each pass,
// measures times, reports changes, and turns any failure into a reproducer that `tegula opt`
// replays.
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

/// The reason why an optimisation was or was not applied, as data.
struct Remark {
  enum class Kind : std::uint8_t { Applied, Missed, Analysis };
  std::string pass;
  Loc loc;
  Kind kind = Kind::Analysis;
  std::string reason;
  std::vector<std::pair<std::string, std::string>> values;

  /// Returns "k.cpp:12: missed: the reason rows=3", with the pass if the line is not known.
  std::string str() const;
};

/// The schedule from which pipeline_wgmma expanded a loop. It names ops by the labels in their
/// attributes, or else by the labels that the kernel had before the pass.
struct ExpandedLoop {
  LoopSchedule steps;
  std::optional<Token> token;  ///< token of the consumers
};

/// Inputs of a pass besides the kernel.
struct PassContext {
  /// Set by the caller; otherwise the pass `plan` chooses one.
  std::optional<Plan> plan;
  /// Fields that the pass `plan` must not choose, because they are requested.
  PlanRequest planned;
  /// The generated code checks the assumptions of the kernel (for the simulator).
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

/// A pass first analyses the kernel without changing it, then rewrites it. Returns true if it
/// changed the kernel.
using PassFn = bool (*)(Kernel&, PassContext&);

struct Pass {
  std::string_view name;
  Form takes, leaves;
  PassFn run;
  std::string_view doc;
};

/// Returns the passes of ir/passes/passes.def, in their order.
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
