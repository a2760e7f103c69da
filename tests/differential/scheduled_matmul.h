#pragma once
// A matmul of small tiles by a given plan, in the simulator: its simt form can be changed before it
// runs, so that bugs that the lowering could have are planted in it.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/check/simt_check.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/make_recipe.h"
#include "support/text.h"
#include "tegula/tegula.h"
#include "tests/compiled.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::test {

/// A matmul in tiles of 64 x 96, steps of 32, groups of up to 8 rows of tiles.
struct ProblemOfTiles {
  std::int64_t rows, columns, steps;  ///< counts of tiles
};

class PlannedProduct {
 public:
  PlannedProduct(ProblemOfTiles p, const ir::Plan& plan)
      : C_(Tensor::zeros({64 * p.rows, 96 * p.columns}, DType::bf16, Device::sim())) {
    const std::int64_t depth = 32 * p.steps;
    A_ = Tensor::integers({C_.size(0), depth}, DType::bf16, -3, 4, 1, Device::sim());
    B_ = Tensor::integers({depth, C_.size(1)}, DType::bf16, -3, 4, 2, Device::sim());
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.plan = plan;
    const std::string file = std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/matmul.tir";
    k_ = optimized(ir::parse(read_file(file), file), request);
    recipe_ = runtime::make_recipe(k_.tile, k_.simt);
  }

  ir::Kernel& simt() { return k_.simt; }

  /// Runs by so many CTAs, interleaved; returns how the kernel is found wrong.
  std::string run(int ctas = 4) {
    const runtime::LaunchArg args[] = {{&A_}, {&B_}, {&C_}};
    std::vector<codegen::TensorMap> maps;
    sim::SimOptions options;
    options.max_steps = 2'000'000;
    const auto report =
        sim::simulate(k_.simt, {ctas, 1, 1}, runtime::sim_args(recipe_, args, maps), options);
    bytes_ = report.counters.tma_bytes;
    if (!report.clean()) return std::string(sim::name(report.findings.front().kind));
    return difference();
  }
  std::int64_t bytes_copied() const { return bytes_; }

  /// The machine form's result, and the form itself for `look`.
  std::string interpret_machine_form(const std::function<void(const ir::Kernel&)>& look) {
    ir::Kernel machine = ir::clone(k_.tile);
    ir::PassContext context;
    context.plan = k_.plan;
    for (const ir::Pass& pass : ir::ir_passes()) {
      if (pass.name == "check_channels") break;
      pass.run(machine, context);
      machine.info.form = pass.leaves;
    }
    look(machine);
    const runtime::LaunchArg args[] = {{&A_}, {&B_}, {&C_}};
    const auto report = ir::evaluate(machine, runtime::eval_args(k_.tile, args));
    return report.clean() ? difference() : report.str();
  }

 private:
  std::string difference() const {
    const auto want = product(A_, B_), got = C_.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      if (got[i] != rounded(want[i], DType::bf16)) return "wrong result";
    return "";
  }

  Tensor A_, B_, C_;
  runtime::Compilation k_;
  runtime::LaunchRecipe recipe_;
  std::int64_t bytes_ = 0;
};

// ---- planted bugs
struct Bug {
  const char* name;
  void (*plant)(ir::Kernel&);
  const char* statically = "";  ///< what the check of the simt form finds, too; nothing if empty
};

/// At least one.
inline std::vector<ir::OpId> all_of(
    const ir::Kernel& k, ir::Opcode opcode,
    const std::function<bool(const ir::OpData&)>& wanted = [](const ir::OpData&) { return true; }) {
  std::vector<ir::OpId> found;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode == opcode && wanted(k[op])) found.push_back(op);
  });
  EXPECT_FALSE(found.empty()) << "no " << ir::info(opcode).mnemonic << " to plant the bug in";
  return found;
}

/// The faults that the check finds in a kernel before it runs.
inline std::string found_statically(const ir::Kernel& simt) {
  const auto faults = codegen::find_simt_faults(simt);
  return faults.empty() ? "" : std::string(sim::name(faults.front().kind));
}

/// The kernel is right without a bug, and with each is found wrong: by the simulator, and before it
/// runs where the fault selects it.
inline void expect_caught(ProblemOfTiles problem, const ir::Plan& plan, std::span<const Bug> bugs,
                          int ctas = 4) {
  for (const Bug& bug : bugs) {
    SCOPED_TRACE(bug.name);
    PlannedProduct product(problem, plan);
    EXPECT_EQ(product.run(ctas), "") << "without the bug";
    EXPECT_EQ(found_statically(product.simt()), "") << "without the bug";
    const std::string text = ir::print(product.simt());
    bug.plant(product.simt());
    EXPECT_NE(ir::print(product.simt()), text) << "the bug changes nothing";
    ir::verify_or_throw(product.simt(), "planting a bug");
    const std::string before = found_statically(product.simt()), how = product.run(ctas);
    std::printf("%-50s %-20s %s\n", bug.name, how.empty() ? "NOT CAUGHT" : how.c_str(),
                before.empty() ? "-" : before.c_str());
    EXPECT_NE(how, "");
    EXPECT_EQ(before, bug.statically);
  }
}

}  // namespace tegula::test
