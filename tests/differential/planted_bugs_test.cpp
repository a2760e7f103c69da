// Twenty bugs that a lowering could have, planted in the lowered code of library programs. Each
// must be caught: by a finding of the simulator, or by a result that differs from the
// interpreter's.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "codegen/check/simt_check.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/differential/nth_op.h"
#include "tests/fuzz/run_program.h"

namespace tegula::planted_bugs_test {
namespace {

using namespace ir;
using fuzz::Argument;
using fuzz::Arguments;

// ---- programs -----------------------------------------------------------------------------------
/// Maximum, first maximum and backward sums of rows of 100 of a matrix: folds across lanes and
/// warps, padded to 128.
constexpr const char* kRows =
    R"(kernel @rows tile (%x: view<?x?xf32, in, align=16, strides=?x1> [arg = 0], %m: view<?xf32, out, align=16, strides=1> [arg = 1], %a: view<?xi32, out, align=16, strides=1> [arg = 2], %s: view<?x?xf32, out, align=16, strides=?x1> [arg = 3]) {
  launch {
    %0 = view_dim %x [axis = 0] : i32
    %1 = const [value = 4] : i32
    %2 = const [value = 3] : i32
    %3 = add %0, %2 : i32
    %4 = div %3, %1 : i32
    %5 = const [value = 1] : i32
    yield %4, %5, %5
  }
  %6 = program_id [axis = 0] : i32
  %7 = const [value = 4] : i32
  %8 = mul %6, %7 : i32
  %9 = const [value = 0] : i32
  %10 = load_view %x, %8, %9 [axes = [0, 1]] : tile<4x100xf32>
  %11 = reduce %10 [axis = 1, kind = "max"] : tile<4xf32>
  %12, %13 = arg_reduce %10 [axis = 1, kind = "max"] : tile<4xf32>, tile<4xi32>
  %14 = scan %10 [axis = 1, kind = "sum", reverse = 1, exclusive = 0] : tile<4x100xf32>
  store_view %m, %11, %8 [axes = [0]]
  store_view %a, %13, %8 [axes = [0]]
  store_view %s, %14, %8, %9 [axes = [0, 1]]
})";

/// Four CTAs of a cluster have 16 rows each; their sum is scattered again.
constexpr const char* kShares =
    R"(kernel @shares tile cluster(4) (%x: view<?x?xf32, in, align=16, strides=?x1> [arg = 0], %z: view<?x?xf32, out, align=16, strides=?x1> [arg = 1]) {
  launch {
    %n = view_dim %z [axis = 1] : i32
    %63 = const [value = 63] : i32
    %up = add %n, %63
    %64 = const [value = 64] : i32
    %tiles = div %up, %64
    %4 = const [value = 4] : i32
    %all = mul %tiles, %4
    %1 = const [value = 1] : i32
    yield %all, %1, %1
  }
  %id = cluster_id : i32
  %width = const [value = 64] : i32
  %column = mul %id, %width
  %rank = cluster_rank : i32
  %16 = const [value = 16] : i32
  %row = mul %rank, %16
  %t = load_view %x, %row, %column [axes = [0, 1]] : tile<16x64xf32>
  %sum = cluster_reduce_scatter %t [axis = 0] : tile<4x64xf32>
  %height = const [value = 4] : i32
  %mine = mul %rank, %height
  store_view %z, %sum, %mine, %column [axes = [0, 1]]
})";

std::string library_program(const std::string& name) {
  std::ifstream in(std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/" + name + ".tir");
  EXPECT_TRUE(in) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Argument tensor(DType d, Ints dims, int low, int high) {
  Argument a{.dtype = d, .is_view = true, .dims = dims, .strides = Ints(dims.size()), .bytes = {}};
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0; step *= dims[i]) a.strides[i] = step;
  a.bytes.resize(static_cast<std::size_t>(step * size_bytes(d)));
  std::mt19937 random(static_cast<unsigned>(step));
  for (std::int64_t i = 0; i < step; ++i) {
    const auto n = low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
    a.put(i, is_float(d) ? Cell{.f = static_cast<double>(n)} : Cell{.i = n});
  }
  return a;
}

struct PlannedCall {
  ir::Kernel tile;
  Arguments args;
  Plan plan;
};

PlannedCall vector_add() {
  return {parse(library_program("vector_add")),
          {tensor(DType::f32, {2040}, -9, 9), tensor(DType::f32, {2040}, -9, 9),
           tensor(DType::f32, {2040}, 77, 77)},
          {.num_warps = 2}};
}
PlannedCall matmul() {
  return {parse(library_program("matmul")),
          {tensor(DType::bf16, {80, 144}, -4, 4), tensor(DType::bf16, {144, 112}, -4, 4),
           tensor(DType::bf16, {80, 112}, 77, 77)},
          {.num_warps = 2, .stages = 3, .warps_m = 1, .warps_n = 2}};
}
PlannedCall rows(std::int64_t columns, int low) {
  return {parse(kRows),
          {tensor(DType::f32, {6, columns}, low, -90), tensor(DType::f32, {6}, 77, 77),
           tensor(DType::i32, {6}, 77, 77), tensor(DType::f32, {6, columns}, 77, 77)},
          {.num_warps = 4}};
}
PlannedCall shares() {
  return {parse(kShares),
          {tensor(DType::f32, {64, 100}, -9, 9), tensor(DType::f32, {16, 100}, 77, 77)},
          {.num_warps = 4}};
}
// A maximum that few elements share shows where a fold leaves some out, one that half of them share
// shows wrong ties.
PlannedCall wide_rows() { return rows(108, -9999); }
PlannedCall short_rows() { return rows(92, -9999); }
PlannedCall tied_rows() { return rows(108, -91); }

// ---- edits --------------------------------------------------------------------------------------
using test::nth_op;

OpId loop(const ir::Kernel& k) { return nth_op(k, Opcode::For, 0); }
bool is_in_loop(const ir::Kernel& k, const OpData& d) {
  return k[d.parent].owner && k[k[d.parent].owner].opcode == Opcode::For;
}

Builder before(ir::Kernel& k, OpId op) {
  Builder b(k);
  b.before(op);
  return b;
}
void set_constant_operand(ir::Kernel& k, OpId op, std::size_t operand, std::int64_t value) {
  const Value c = before(k, op).i32(value);
  k[op].operands[operand] = c;
}
/// The operand's registers in another order: register i becomes order(i).
void reorder(ir::Kernel& k, OpId op, std::size_t operand,
             const std::function<std::int64_t(std::int64_t)>& order) {
  const Value v = k[op].operands[operand];
  Ints indices;
  for (std::int64_t i = 0; i < k.type(v).count(); ++i) indices.push_back(order(i));
  const Value moved = before(k, op).op(Opcode::Regs, {v}, {{AttrName::indices, indices}});
  k[op].operands[operand] = moved;
}
void erase_all(ir::Kernel& k, Opcode opcode) {
  std::vector<OpId> all;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == opcode) all.push_back(op);
  });
  EXPECT_FALSE(all.empty());
  for (OpId op : all) k.erase(op);
}
OpId definition(const ir::Kernel& k, Value v) { return k[v].def; }
Value param(const ir::Kernel& k, std::string_view part, std::int64_t arg) {
  for (const Param& p : k.params())
    if (p.attrs.s(AttrName::component) == part && p.attrs.i(AttrName::arg) == arg) return p.value;
  ADD_FAILURE() << "no parameter " << part << " of " << arg;
  return {};
}
test::WantedOp with_mode(const char* mode) {
  return [mode](const OpData& d) { return d.attrs.s(AttrName::mode) == mode; };
}

struct Bug {
  const char* name;
  PlannedCall (*program)();
  void (*plant)(ir::Kernel&);
  const char* statically = "";  ///< what the check of the simt form finds, too; nothing if empty
};

/// The comparison a memory op's predicate comes from.
OpId guard(const ir::Kernel& k, OpId access, std::size_t predicate) {
  OpId at = definition(k, k[access].operands[predicate]);
  for (int depth = 0; depth < 8 && at && k[at].opcode != Opcode::Cmp; ++depth)
    at = definition(k, k[at].operands[0]);
  EXPECT_TRUE(at && k[at].opcode == Opcode::Cmp);
  return at;
}

const Bug kBugs[] = {
    {"wrong mask of a reduction's shuffle", wide_rows,
     [](ir::Kernel& k) {
       set_constant_operand(k, nth_op(k, Opcode::Shfl, 0, with_mode("xor")), 1, 0);
     }},
    {"wrong distance of a scan's shuffle", wide_rows,
     [](ir::Kernel& k) {
       set_constant_operand(k, nth_op(k, Opcode::Shfl, 0, with_mode("down")), 1, 3);
     }},
    {"dropped barrier between warps' partial results", wide_rows,
     [](ir::Kernel& k) { k.erase(nth_op(k, Opcode::BarSync, 1)); }},
    {"dropped barrier of the ring", matmul,
     [](ir::Kernel& k) {
       k.erase(nth_op(k, Opcode::BarSync, 0, [&](const OpData& d) { return is_in_loop(k, d); }));
     }},
    {"off-by-one predicate of a load", vector_add,
     [](ir::Kernel& k) {
       k[guard(k, nth_op(k, Opcode::LdGlobal, 0), 1)].attrs.set(AttrName::pred, "le");
     }},
    {"lost predicate of a load", vector_add,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::LdGlobal, 0)].operands.resize(1); }},
    {"lost predicate of a store", vector_add,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::StGlobal, 0)].operands.resize(2); }},
    {"order of A's fragment registers", matmul,
     [](ir::Kernel& k) {
       reorder(k, nth_op(k, Opcode::Mma, 0), 0, [](std::int64_t i) {
         return i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i;
       });
     }},
    {"order of B's fragment registers", matmul,
     [](ir::Kernel& k) {
       reorder(k, nth_op(k, Opcode::Mma, 1), 1, [](std::int64_t i) { return i ^ 1; });
     }},
    {"swap_ab operands of mma", matmul,
     [](ir::Kernel& k) {
       const OpId mma = nth_op(k, Opcode::Mma, 0);
       const Value a = k[mma].operands[0], b = k[mma].operands[1];
       Ints for_a, for_b;
       for (std::int64_t i = 0; i < k.type(a).count(); ++i) for_a.push_back(i % k.type(b).count());
       for (std::int64_t i = 0; i < k.type(b).count(); ++i) for_b.push_back(i % k.type(a).count());
       Builder at = before(k, mma);
       const Value new_a = at.op(Opcode::Regs, {b}, {{AttrName::indices, for_a}}),
                   new_b = at.op(Opcode::Regs, {a}, {{AttrName::indices, for_b}});
       k[mma].operands[0] = new_a;
       k[mma].operands[1] = new_b;
     }},
    {"missing cp_async_wait", matmul, [](ir::Kernel& k) { erase_all(k, Opcode::CpAsyncWait); }},
    {"cp_async_wait that leaves a group too many", matmul,
     [](ir::Kernel& k) {
       const OpId wait = nth_op(k, Opcode::CpAsyncWait, 0);
       k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + 1);
     }},
    {"ring slot that does not advance", matmul,
     [](ir::Kernel& k) {
       const RegionId body = k[loop(k)].regions[0];
       k[k.terminator(body)].operands.back() = k[body].args.back();
     }},
    {"refill of the slot that is read", matmul,
     [](ir::Kernel& k) {
       const OpId select =
           nth_op(k, Opcode::Select, 0, [&](const OpData& d) { return is_in_loop(k, d); });
       k.replace_all_uses(k[select].results[0], k[k[loop(k)].regions[0]].args.back());
     }},
    {"wrong xor constant of a swizzle", matmul,
     [](ir::Kernel& k) {
       const OpId load = nth_op(k, Opcode::LdMatrix, 0);
       Builder b = before(k, load);
       const Value moved = b.op(Opcode::Xor, {k[load].operands[0], b.i32(16)});
       k[load].operands[0] = moved;
     }},
    {"ldmatrix without its transposition", matmul,
     [](ir::Kernel& k) {
       k[nth_op(k, Opcode::LdMatrix, 0, [](const OpData& d) {
         return d.attrs.i(AttrName::trans) == 1;
       })].attrs.set(AttrName::trans, AttrValue(std::int64_t{0}));
     }},
    {"wrong identity of a reduction", short_rows,
     [](ir::Kernel& k) {
       k[nth_op(k, Opcode::Const, 0, [](const OpData& d) {
         return std::isinf(d.attrs.f(AttrName::value));
       })].attrs.set(AttrName::value, AttrValue(0.0));
     }},
    {"missing select for padding", wide_rows,
     [](ir::Kernel& k) {
       const OpId select = nth_op(k, Opcode::Select, 1);
       k.replace_all_uses(k[select].results[0], k[select].operands[1]);
     }},
    {"swap_ab strides", matmul,
     [](ir::Kernel& k) { k.replace_all_uses(param(k, "stride", 0), param(k, "stride", 1)); }},
    {"tie of arg_reduce goes to the last", tied_rows,
     [](ir::Kernel& k) {
       // The first comparison of indices follows the first "eq" of two values.
       const OpId eq = nth_op(k, Opcode::Cmp, 0, [](const OpData& d) {
         return d.attrs.s(AttrName::pred) == "eq" && d.operands[0] != d.operands[1];
       });
       OpId at = eq;
       while (at && (k[at].opcode != Opcode::Cmp || k[at].attrs.s(AttrName::pred) != "lt"))
         at = k[at].next;
       ASSERT_TRUE(at);
       k[at].attrs.set(AttrName::pred, "gt");
     }},
};
static_assert(std::size(kBugs) == 20);

void erase_nth(ir::Kernel& k, int n, std::initializer_list<Opcode> opcodes) {
  for (const Opcode o : opcodes) k.erase(nth_op(k, o, n));
}

const Bug kClusterBugs[] = {
    {"no barrier of the cluster before it reads", shares,
     [](ir::Kernel& k) { erase_nth(k, 0, {Opcode::ClusterArrive, Opcode::ClusterWait}); },
     "shared-race"},
    {"no wait before it reads", shares,
     [](ir::Kernel& k) { erase_nth(k, 0, {Opcode::ClusterWait}); }, "shared-race"},
    {"no barrier of the cluster before exit", shares,
     [](ir::Kernel& k) { erase_nth(k, 1, {Opcode::ClusterArrive, Opcode::ClusterWait}); },
     "remote-exit"},
    {"no wait before exit", shares, [](ir::Kernel& k) { erase_nth(k, 1, {Opcode::ClusterWait}); },
     "remote-exit"},
    {"arrival before the reads", shares,
     [](ir::Kernel& k) {
       const OpId arrive = nth_op(k, Opcode::ClusterArrive, 1);
       k.unlink(arrive);
       k.insert_before(nth_op(k, Opcode::LdCluster, 3), arrive);
     },
     "remote-exit"},
    {"own memory in place of a neighbour's", shares,
     [](ir::Kernel& k) {
       const Value rank = k[nth_op(k, Opcode::CtaRank, 0)].results[0];
       k[nth_op(k, Opcode::MapShared, 1)].operands[1] = rank;
     }},
    {"the first part for everybody", shares,
     [](ir::Kernel& k) {
       const Value rank = k[nth_op(k, Opcode::CtaRank, 0)].results[0];
       const OpId bit =
           nth_op(k, Opcode::And, 0, [&](const OpData& d) { return d.operands[0] == rank; });
       set_constant_operand(k, bit, 0, 0);
     }},
};

// ---- running ------------------------------------------------------------------------------------
/// Returns how the kernel's fault is detected; "" if it is not.
std::string how_caught(const ir::Kernel& simt, const PlannedCall& p, const Arguments& want) {
  Arguments got = p.args;
  const auto grid = evaluate_launch(p.tile, fuzz::eval_args(got));
  const sim::Report report = fuzz::simulate(simt, grid, got, 1, 5'000'000);
  if (!report.clean()) return std::string(sim::name(report.findings.front().kind));
  return fuzz::difference(want, got);
}

/// Returns how the planted fault is detected; "" if it is not.
std::string caught_by(const Bug& bug) {
  SCOPED_TRACE(bug.name);
  const PlannedCall p = bug.program();
  Arguments want = p.args;
  EXPECT_EQ(fuzz::interpret(p.tile, want), "");
  ir::Kernel simt = fuzz::lowered(p.tile, p.plan);
  EXPECT_EQ(how_caught(simt, p, want), "") << "without the bug";
  const std::string text = print(simt);
  bug.plant(simt);
  EXPECT_NE(print(simt), text) << "the bug changes nothing";
  verify_or_throw(simt, "planting a bug");
  const std::string how = how_caught(simt, p, want);
  const auto before = codegen::find_simt_faults(simt);
  std::printf("%-50s %-20s %s\n", bug.name, how.empty() ? "NOT CAUGHT" : how.c_str(),
              before.empty() ? "-" : std::string(sim::name(before.front().kind)).c_str());
  EXPECT_EQ(before.empty() ? "" : sim::name(before.front().kind), bug.statically);
  return how;
}

TEST(PlantedBugs, AtLeastNineteenOfTwentyAreCaught) {
  int caught = 0;
  for (const Bug& bug : kBugs) caught += caught_by(bug).empty() ? 0 : 1;
  std::printf("planted bugs: %d of %zu caught\n", caught, std::size(kBugs));
  EXPECT_GE(caught, 19);
}

TEST(PlantedBugs, AllOfAClusterAreCaught) {
  for (const Bug& bug : kClusterBugs) EXPECT_NE(caught_by(bug), "") << bug.name;
}

}  // namespace
}  // namespace tegula::planted_bugs_test
