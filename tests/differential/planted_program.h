#pragma once
// A program of memory_programs.h whose compilation a test makes go wrong.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "codegen/sim/simulator.h"
#include "ir/pipeline.h"
#include "runtime/jit.h"
#include "tests/differential/memory_programs.h"

namespace tegula::test {

class PlantedProgram {
 public:
  explicit PlantedProgram(MakeProgram make) : make_(make), program_(make(Device::sim())) {
    compiled_ = program_.call(Stream(Device::sim()));
  }

  const std::string& name() const { return program_.name; }
  /// As it was traced.
  const ir::Kernel& tile() const { return compiled_->tile; }

  /// Edits a kernel before and after each pass.
  using Edit = std::function<void(std::string_view pass, ir::Kernel&, bool is_behind)>;

  ir::Kernel compile(const Edit& edit) const {
    ir::Kernel k = clone(tile());
    k.info.target = compiled_->artefact().target;
    ir::PassContext context;
    context.plan = compiled_->plan;
    context.keep_checks = true;
    for (const ir::Pass& pass : runtime::optimize_passes()) {
      edit(pass.name, k, false);
      pass.run(k, context);
      k.info.form = pass.leaves;
      edit(pass.name, k, true);
    }
    return k;
  }

  /// The fault that some order of the warps shows: a finding's name, or that values are wrong;
  /// empty where none of twelve does.
  std::string how_caught(const ir::Kernel& simt) const {
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      if (const std::string how = how_caught(simt, seed); !how.empty()) return how;
    return "";
  }

 private:
  std::string how_caught(const ir::Kernel& simt, std::uint64_t seed) const {
    const MemoryProgram p = make_(Device::sim());
    std::vector<runtime::LaunchArg> args;
    for (std::size_t i = 0; i < p.args.size(); ++i)
      args.push_back({&p.args[i], p.is_pointer[i]
                                      ? reinterpret_cast<std::uint64_t>(p.args[i].data())
                                      : std::uint64_t{0}});
    for (const std::uint64_t bits : p.scalars) args.push_back({nullptr, bits});
    std::vector<codegen::TensorMap> maps;
    sim::SimOptions options;
    options.seed = seed;
    options.loop_limit = 20'000;
    for (const Tensor& t : p.args) {
      const auto r = t.byte_range();
      options.ranges.push_back(
          {reinterpret_cast<const void*>(r.begin), reinterpret_cast<const void*>(r.end)});
    }
    for (int call = 0; call < p.calls; ++call) {
      const auto report =
          sim::simulate(simt, {p.programs, 1, 1},
                        runtime::sim_args(compiled_->artefact().recipe, args, maps), options);
      if (!report.findings.empty()) return std::string(sim::name(report.findings[0].kind));
    }
    bool is_right = p.args[p.result].to_doubles() == p.want;
    for (const auto& [result, want] : p.more_results)
      is_right = is_right && p.args[result].to_doubles() == want;
    return is_right ? "" : "wrong values";
  }

  MakeProgram make_;
  MemoryProgram program_;
  std::shared_ptr<const runtime::CompiledKernel> compiled_;
};

}  // namespace tegula::test
