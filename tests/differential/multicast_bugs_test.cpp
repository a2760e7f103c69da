// Operands that the programs of a cluster bring for each other, in the simulator: what is copied,
// and bugs that the lowering could have, planted in its code. Each must be caught, by a finding or
// by a wrong result.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/jit_steps.h"
#include "support/text.h"
#include "tegula/tegula.h"
#include "tests/differential/exact_products.h"

namespace tegula::ir {
namespace {

/// Tiles of 64 x 96, steps of 32, groups of up to 8 rows of tiles.
constexpr std::int64_t kBytesOfA = 64 * 32 * 2, kBytesOfB = 32 * 96 * 2;

struct Problem {
  std::int64_t rows, columns, steps;  ///< of tiles
};
/// Three rows of tiles: every second column begins with a tile whose neighbour lies in another one.
/// Nine tiles: the last is alone.
constexpr Problem kOdd{3, 3, 5};

class SharedProduct {
 public:
  explicit SharedProduct(Problem p, bool shares = true)
      : C_(Tensor::zeros({64 * p.rows, 96 * p.columns}, DType::bf16, Device::sim())) {
    const std::int64_t depth = 32 * p.steps;
    A_ = Tensor::integers({C_.size(0), depth}, DType::bf16, -3, 4, 1, Device::sim());
    B_ = Tensor::integers({depth, C_.size(1)}, DType::bf16, -3, 4, 2, Device::sim());
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.plan = Plan{.warps = 4,
                        .stages = 3,
                        .warps_m = 4,
                        .warps_n = 1,
                        .stage_stores = false,
                        .wgmma = true,
                        .copy_warps = 1,
                        .persistent = true,
                        .multicast = shares};
    runtime::key(k_, request);
    const std::string file = std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/matmul.tir";
    k_.tile = parse(read_file(file), file);
    runtime::optimize(k_, request);
    k_.recipe = runtime::LaunchRecipe::make(k_.tile, k_.simt);
  }

  Kernel& simt() { return k_.simt; }

  /// Four CTAs, which take turns; how the kernel is found wrong.
  std::string run() {
    const runtime::LaunchArg args[] = {{&A_}, {&B_}, {&C_}};
    std::vector<codegen::TensorMap> maps;
    sim::SimOptions options;
    options.max_steps = 2'000'000;
    const auto report = sim::simulate(k_.simt, {4, 1, 1}, k_.recipe.sim_args(args, maps), options);
    bytes_ = report.counters.tma_bytes;
    if (!report.clean()) return std::string(sim::name(report.findings.front().kind));
    return difference();
  }
  std::int64_t bytes_copied() const { return bytes_; }

  std::string interpret_machine_form() {
    Kernel machine = clone(k_.tile);
    PassContext context;
    context.plan = k_.plan;
    for (const Pass& pass : ir_passes()) {
      if (pass.name == "check_channels") break;
      pass.run(machine, context);
      machine.info.form = pass.leaves;
    }
    EXPECT_EQ(machine.info.cluster, 2);
    const runtime::LaunchArg args[] = {{&A_}, {&B_}, {&C_}};
    const auto report = evaluate(machine, runtime::eval_args(k_.tile, args));
    return report.clean() ? difference() : report.str();
  }

 private:
  std::string difference() const {
    const auto want = test::product(A_, B_), got = C_.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      if (got[i] != test::rounded(want[i], DType::bf16)) return "wrong result";
    return "";
  }

  Tensor A_, B_, C_;
  runtime::CompiledKernel k_;
  std::int64_t bytes_ = 0;
};

/// `shared` of the clusters' pairs of tiles lie in one column.
void expect_bytes(Problem p, std::int64_t shared) {
  SCOPED_TRACE(testing::Message() << p.rows << "x" << p.columns << " tiles, steps " << p.steps);
  SharedProduct with(p), without(p, false);
  EXPECT_EQ(with.run(), "");
  EXPECT_EQ(without.run(), "");
  const std::int64_t all = p.rows * p.columns * p.steps * (kBytesOfA + kBytesOfB);
  EXPECT_EQ(without.bytes_copied(), all);
  EXPECT_EQ(with.bytes_copied(), all - shared * p.steps * kBytesOfB);
}

TEST(SharedProducts, AreCopiedOnce) {
  expect_bytes({4, 3, 4}, 6);
  expect_bytes({2, 1, 1}, 1);
  expect_bytes({5, 2, 3}, 4);
  expect_bytes({9, 3, 2}, 12);  // a group of 8 rows and one of one
  expect_bytes({1, 4, 2}, 0);
  expect_bytes({1, 1, 2}, 0);
  expect_bytes(kOdd, 3);
}

/// In machine form each program still brings its own boxes: the interpreter finds the same result.
TEST(SharedProducts, MachineFormMeansTheSame) {
  SharedProduct product({4, 3, 4});
  EXPECT_EQ(product.interpret_machine_form(), "");
}

// ---- planted bugs
// -------------------------------------------------------------------------------------------------
using Wanted = std::function<bool(const OpData&)>;

std::vector<OpId> all_of(
    const Kernel& k, Opcode opcode, const Wanted& wanted = [](const OpData&) { return true; }) {
  std::vector<OpId> found;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == opcode && wanted(k[op])) found.push_back(op);
  });
  EXPECT_FALSE(found.empty()) << "no " << info(opcode).mnemonic << " to plant the bug in";
  return found;
}

bool goes_to_both(const OpData& d) { return d.attrs.i(AttrName::programs) == 2; }

/// Branches that copy a half to both CTAs, where their condition holds.
std::vector<OpId> shared_branches(const Kernel& k) {
  std::vector<OpId> found;
  for (const OpId load : all_of(k, Opcode::TmaLoad, goes_to_both))
    found.push_back(k[k[load].parent].owner);
  return found;
}

void set_operand(Kernel& k, OpId op, std::size_t operand, std::int64_t value, DType type) {
  Builder b(k);
  b.before(op);
  const Value c = b.constant(Type::scalar(type), value);
  k[op].operands[operand] = c;
}

struct Bug {
  const char* name;
  void (*plant)(Kernel&);
};

const Bug kBugs[] = {
    {"each tells its own copying warp alone",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MapShared)) {
         Builder b(k);
         b.before(op);
         const Value rank = b.op(Opcode::CtaRank, std::initializer_list<Value>{});
         k[op].operands[1] = rank;
       }
     }},
    {"each tells the first copying warp alone",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MapShared)) set_operand(k, op, 1, 0, DType::i32);
     }},
    {"releases counted as those of one CTA",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MbarInit,
                                   [](const OpData& d) { return d.attrs.i(AttrName::count) == 8; }))
         k[op].attrs.set(AttrName::count, std::int64_t{4});
     }},
    {"copied before the other CTA has begun",
     [](Kernel& k) {
       const OpId arrive = all_of(k, Opcode::ClusterArrive).front(),
                  wait = all_of(k, Opcode::ClusterWait).front();
       Builder b(k);
       b.before(arrive);
       b.effect(Opcode::BarSync, {b.i32(0)}, {{AttrName::count, 160}});
       k.erase(arrive);
       k.erase(wait);
     }},
    {"exit while the other CTA may still arrive",
     [](Kernel& k) {
       k.erase(all_of(k, Opcode::ClusterArrive).back());
       k.erase(all_of(k, Opcode::ClusterWait).back());
     }},
    {"a half for its own CTA alone",
     [](Kernel& k) {
       k[all_of(k, Opcode::TmaLoad, goes_to_both).front()].attrs.erase(AttrName::programs);
     }},
    {"both bring the first half",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::TmaLoad, goes_to_both))
         for (const std::size_t operand : {1U, 4U}) {
           const OpId sum = k[k[op].operands[operand]].def;
           const Value base = k[sum].operands[0];
           k[op].operands[operand] = base;
         }
     }},
    {"announced are the bytes of the own copies",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MbarExpectTx))
         k[op].attrs.set(AttrName::bytes, kBytesOfA + kBytesOfB / 2);
     }},
    {"tiles of two columns taken for neighbours",
     [](Kernel& k) {
       for (const OpId branch : shared_branches(k)) {
         const Value in_step = k[k[k[branch].operands[0]].def].operands[0];
         k[branch].operands[0] = in_step;
       }
     }},
    {"the last tile taken for one of two",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::Cast, [&](const OpData& d) {
              return k.type(d.operands[0]) == Type::scalar(DType::i1);
            })) {
         bool is_for_release = false;
         for (const OpId by : all_of(k, Opcode::And))
           is_for_release |=
               k[by].operands[1] == k[op].results[0] || k[by].operands[0] == k[op].results[0];
         if (is_for_release) set_operand(k, op, 0, 1, DType::i1);
       }
     }},
};

TEST(SharedProducts, EveryPlantedBugIsCaught) {
  for (const Bug& bug : kBugs) {
    SCOPED_TRACE(bug.name);
    SharedProduct product(kOdd);
    EXPECT_EQ(product.run(), "") << "without the bug";
    const std::string text = print(product.simt());
    bug.plant(product.simt());
    EXPECT_NE(print(product.simt()), text) << "the bug changes nothing";
    verify_or_throw(product.simt(), "planting a bug");
    const std::string how = product.run();
    std::printf("%-50s %s\n", bug.name, how.empty() ? "NOT CAUGHT" : how.c_str());
    EXPECT_NE(how, "");
  }
}

}  // namespace
}  // namespace tegula::ir
