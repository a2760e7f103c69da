// The pass runner.
#include "ir/pipeline.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "ir/opt_command.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tegula/error.h"

namespace tegula::ir {

#define PASS(name, takes, leaves, doc) bool name(Kernel&, PassContext&);
#include "ir/passes/passes.def"
#undef PASS

std::span<const Pass> ir_passes() {
  static constexpr std::array kPasses{
#define PASS(name, takes, leaves, doc) Pass{#name, Form::takes, Form::leaves, &name, doc},
#include "ir/passes/passes.def"
#undef PASS
  };
  return kPasses;
}

const Pass* find_pass(std::span<const Pass> passes, std::string_view name) {
  for (const Pass& p : passes)
    if (p.name == name) return &p;
  return nullptr;
}

std::string Remark::str() const {
  static constexpr std::array<std::string_view, 3> kKinds{"applied", "missed", "note"};
  std::string out =
      fmt::format("{}: {}: {}", loc.known() ? fmt::format("{}:{}", loc.file, loc.line) : pass,
                  kKinds[static_cast<std::size_t>(kind)], reason);
  for (const auto& [key, value] : values) out += fmt::format(" {}={}", key, value);
  return out;
}

namespace {

void run_one(Kernel& kernel, const Pass& pass, PassContext& context, const PipelineOptions& options,
             PassTiming& timing) {
  if (kernel.info.form != pass.takes)
    throw InternalError(fmt::format("pass {} takes {} form, the kernel is in {} form", pass.name,
                                    name(pass.takes), name(kernel.info.form)));
  const auto start = std::chrono::steady_clock::now();
  timing.changed = pass.run(kernel, context);
  kernel.info.form = pass.leaves;
  timing.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options.verify) verify_or_throw(kernel, pass.name);
}

/// Returns the text with which a person repeats pass number `failed`: a command, and the kernel
/// that the passes before it make of `kernel`.
std::string replay(Kernel kernel, PassContext context, std::span<const Pass> passes,
                   std::size_t failed) {
  for (const Pass& pass : passes.first(failed)) {
    pass.run(kernel, context);
    kernel.info.form = pass.leaves;
  }
  return opt_comment(opt_command(context), passes[failed].name) + print(kernel);
}

}  // namespace

std::vector<PassTiming> run_pipeline(Kernel& kernel, std::span<const Pass> passes,
                                     PassContext& context, const PipelineOptions& options) {
  std::vector<PassTiming> timings;
  // Copied only if passes are verified: the copies cost a fraction of the verification.
  std::optional<std::pair<Kernel, PassContext>> before;
  if (options.verify) before.emplace(clone(kernel), context);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    context.pass = pass.name;
    PassTiming& timing = timings.emplace_back(PassTiming{pass.name});
    try {
      run_one(kernel, pass, context, options, timing);
    } catch (const CompileError&) {
      throw;
    } catch (const std::exception& e) {
      throw InternalError(
          fmt::format("pass {}: {}", pass.name, e.what()),
          before ? replay(std::move(before->first), std::move(before->second), passes, i) : "");
    }
    if (options.after_pass) options.after_pass(static_cast<int>(i), pass, kernel, timing.changed);
  }
  return timings;
}

}  // namespace tegula::ir
