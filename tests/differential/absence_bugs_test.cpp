// Thirty mistakes that a compiler of absence, memory order and threads could make, planted after
// the pass that would make them. The simulator must show each: by a finding, or by a result that
// differs from the interpreter's.
#include <gtest/gtest.h>

#include <functional>

#include "ir/builder.h"
#include "tests/differential/nth_op.h"
#include "tests/differential/text_program.h"

namespace tegula::absence_bugs_test {
namespace {

using namespace ir;

// ---- programs -----------------------------------------------------------------------------------
using test::TextProgram;

/// Folds of ragged rows of negative numbers, to which 1000 is added.
const TextProgram kFolds{
    R"(kernel @folds tile target(sm_90a) (%x: view<?x?xi32, in> [arg = 0], %m: view<?xi32, out> [arg = 1], %s: view<?xi32, out> [arg = 2], %a: view<?xi32, out> [arg = 3], %c: view<?x?xi32, out> [arg = 4]) {
  %zero = const [value = 0] : i32
  %less = const [value = -1000] : i32
  %more = const [value = 2000] : i32
  %t = load_view %x, %zero, %zero [axes = [0, 1]] : tile<4x100xi32>
  %u = add %t, %less
  %m0 = reduce %u [axis = 1, kind = "max"] : tile<4xi32>
  store_view %m, %m0, %zero [axes = [0]]
  %v = add %u, %more
  %s0 = reduce %v [axis = 1, kind = "sum"] : tile<4xi32>
  store_view %s, %s0, %zero [axes = [0]]
  %w = mul %u, %u
  %top, %at = arg_reduce %u [axis = 1, kind = "max"] : tile<4xi32>, tile<4xi32>
  store_view %a, %at, %zero [axes = [0]]
  %c0 = scan %v [axis = 1, kind = "sum", reverse = 1, exclusive = 0] : tile<4x100xi32>
  store_view %c, %c0, %zero, %zero [axes = [0, 1]]
})",
    {{3, 70}, {4}, {4}, {4}, {4, 100}}};

/// A matmul whose k ends inside of both operands, which would be 1 there if they were not absent.
const TextProgram kProduct{
    R"(kernel @product tile target(sm_90a) (%a: view<?x?xf32, in> [arg = 0], %b: view<?x?xf32, in> [arg = 1], %c: view<?x?xf32, out> [arg = 2]) {
  %zero = const [value = 0] : i32
  %one = const [value = 1.0] : f32
  %acc = const [value = 0.0] : tile<8x8xf32>
  %x = load_view %a, %zero, %zero [axes = [0, 1]] : tile<8x16xf32>
  %y = load_view %b, %zero, %zero [axes = [0, 1]] : tile<16x8xf32>
  %p = add %x, %one
  %q = add %y, %one
  %d = dot %p, %q, %acc : tile<8x8xf32>
  store_view %c, %d, %zero, %zero [axes = [0, 1]]
})",
    {{6, 13}, {13, 8}, {8, 8}}};

/// Absent elements move through a reshape, a choice of elements and a branch.
const TextProgram kMoved{
    R"(kernel @moved tile target(sm_90a) (%x: view<?x?xi32, in> [arg = 0], %y: view<?xi32, out> [arg = 1], %z: view<?x?xi32, out> [arg = 2], %u: view<?x?xi32, out> [arg = 3]) {
  %zero = const [value = 0] : i32
  %seven = const [value = -7] : i32
  %ones = const [value = 1] : tile<8x16xi32>
  %t = load_view %x, %zero, %zero [axes = [0, 1]] : tile<8x16xi32>
  %r = reshape %t : tile<128xi32>
  store_view %y, %r, %zero [axes = [0]]
  %flip = mul %t, %t
  %odd = and %flip, %ones
  %wide = fill_absent %odd, %zero : tile<8x16xi32>
  %c = cmp %wide, %zero [pred = "eq"] : tile<8x16xi1>
  %w = select %c, %ones, %t : tile<8x16xi32>
  store_view %z, %w, %zero, %zero [axes = [0, 1]]
  %first = load_view %x, %zero, %zero [axes = []] : i32
  %big = cmp %first, %seven [pred = "lt"] : i1
  %v = if %big : tile<8x16xi32> {
    yield %t
  } {
    yield %ones
  }
  store_view %u, %v, %zero, %zero [axes = [0, 1]]
})",
    {{5, 11}, {128}, {8, 16}, {8, 16}}};

/// Variables of loops: kept, begun with less, of a loop without a step.
const TextProgram kCarried{
    R"(kernel @carried tile target(sm_90a) (%x: view<?xi32, in> [arg = 0], %y: view<?xi32, out> [arg = 1], %z: view<?xi32, out> [arg = 2], %u: view<?xi32, out> [arg = 3]) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %ten = const [value = 10] : i32
  %ones = const [value = 1] : tile<16xi32>
  %first = load_view %x, %zero [axes = [0]] : tile<16xi32>
  %kept = for %zero, %ten, %one, %ones : tile<16xi32> { (%i: i32, %p: tile<16xi32>)
    %t = load_view %x, %i [axes = [0]] : tile<16xi32>
    %n = mul %t, %ten
    yield %n
  }
  store_view %y, %kept, %zero [axes = [0]]
  %last = for %zero, %one, %one, %first : tile<16xi32> { (%j: i32, %q: tile<16xi32>)
    %m = add %ones, %ones
    yield %m
  }
  store_view %z, %last, %zero [axes = [0]]
  %none = for %zero, %zero, %one, %ones : tile<16xi32> { (%k: i32, %r: tile<16xi32>)
    %o = add %r, %first
    yield %o
  }
  store_view %u, %none, %zero [axes = [0]]
})",
    {{12}, {16}, {16}, {16}}};

/// Another thread's element is read again, in a loop too.
const TextProgram kOrder{
    R"(kernel @order tile target(sm_90a) (%x: view<?xi32, in> [arg = 0], %s: view<?xi32, inout> [arg = 1], %y: view<?xi32, out> [arg = 2]) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %three = const [value = 3] : i32
  %t = load_view %x, %zero [axes = [0]] : tile<512xi32>
  store_view %s, %t, %zero [axes = [0]]
  for %zero, %three, %one { (%i: i32)
    %a = load_view %s, %one [axes = [0]] : tile<512xi32>
    store_view %s, %a, %zero [axes = [0]]
    yield
  }
  %b = load_view %s, %three [axes = [0]] : tile<512xi32>
  store_view %y, %b, %zero [axes = [0]]
})",
    {{512}, {520}, {512}}};

/// A choice inside of branches inside of a loop: its mask is handed out of both branches, and the
/// loop's body is looked at again.
const TextProgram kNested{
    R"(kernel @nested tile target(sm_90a) (%x: view<?x?xi32, in> [arg = 0], %y: view<?x?xi32, in> [arg = 1], %z: view<?x?x?xi32, out> [arg = 2]) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %two = const [value = 2] : i32
  %low = const [value = -20] : i32
  %ones = const [value = 1] : tile<2x8xi32>
  %n = load_view %x, %zero, %zero [axes = []] : i32
  for %zero, %two, %one { (%i: i32)
    %first = cmp %i, %n [pred = "eq"] : i1
    %outer = if %first : tile<2x8xi32> {
      yield %ones
    } {
      %more = cmp %n, %two [pred = "lt"] : i1
      %inner = if %more : tile<2x8xi32> {
        %at = mul %i, %two
        %a = load_view %x, %zero, %at [axes = [0, 1]] : tile<2x8xi32>
        %small = cmp %a, %low [pred = "lt"] : tile<2x8xi1>
        %b = load_view %y, %at, %zero [axes = [0, 1]] : tile<2x8xi32>
        %chosen = select %small, %ones, %b : tile<2x8xi32>
        yield %chosen
      } {
        yield %ones
      }
      yield %inner
    }
    store_view %z, %outer, %i, %zero, %zero [axes = [1, 2]]
    yield
  }
})",
    {{3, 5}, {2, 6}, {2, 2, 8}}};

// ---- edits --------------------------------------------------------------------------------------
using test::nth_op;

/// The parameter that holds a component of the first view along an axis.
Value first_view(const ir::Kernel& k, std::string_view component, int axis) {
  for (const Param& p : k.params())
    if (p.attrs.s(AttrName::component) == component && p.attrs.i(AttrName::arg) == 0 &&
        p.attrs.i(AttrName::axis) == axis)
      return p.value;
  throw std::runtime_error("no such parameter");
}
/// Replaces the op's result by one of its operands.
void becomes(ir::Kernel& k, OpId op, std::size_t operand) {
  const Value v = k[op].operands[operand];
  k.replace_all_uses(k[op].results[0], v);
}
/// The operand of a fold or matmul is replaced by the one before its masking select.
void unmask(ir::Kernel& k, OpId op, std::size_t operand) {
  const OpId select = k[k[op].operands[operand]].def;
  if (!select || k[select].opcode != Opcode::Select) throw std::runtime_error("no select");
  k[op].operands[operand] = k[select].operands[1];
}
void erase(ir::Kernel& k, OpId op) { k.erase(op); }
test::WantedOp yields(const ir::Kernel& k, DType d, bool is_tile) {
  return [&k, d, is_tile](const OpData& o) {
    const Type t = k.type(o.results[0]);
    return t.dtype() == d && t.is_tile() == is_tile;
  };
}
test::WantedOp of_kind(const char* kind) {
  return [kind](const OpData& d) { return d.attrs.s(AttrName::kind) == kind; };
}
OpId barrier(const ir::Kernel& k, int n) { return nth_op(k, Opcode::CtaBarrier, n); }
void move_behind(ir::Kernel& k, OpId op, int steps) {
  OpId to = op;
  for (int i = 0; i < steps && k[to].next; ++i) to = k[to].next;
  k.unlink(op);
  test::insert_after(k, to, op);
}
OpId loop(const ir::Kernel& k, int n) { return nth_op(k, Opcode::For, n); }
Value first_of(ir::Kernel& k, OpId loop) { return k[loop].operands[3]; }

struct Fault {
  const char* name;
  const TextProgram& program;
  const char* after;  ///< the pass that makes the mistake
  void (*plant)(ir::Kernel&);
};

constexpr const char* kMaterialize = "materialize_absence";
constexpr const char* kCarries = "carry_presence";
constexpr const char* kMemory = "memory_order";
constexpr const char* kLower = "lower_simt";

const Fault kFaults[] = {
    // ---- absence
    {"a maximum sees absent elements", kFolds, kMaterialize,
     [](ir::Kernel& k) { unmask(k, nth_op(k, Opcode::Reduce, 0, of_kind("max")), 0); }},
    {"a maximum's identity is 0", kFolds, kMaterialize,
     [](ir::Kernel& k) {
       const OpId fold = nth_op(k, Opcode::Reduce, 0, of_kind("max"));
       const OpId select = k[k[fold].operands[0]].def;
       Builder b(k);
       b.before(select);
       const Value zero = b.i32(0);
       k[select].operands[2] = zero;
     }},
    {"a sum sees absent elements", kFolds, kMaterialize,
     [](ir::Kernel& k) { unmask(k, nth_op(k, Opcode::Reduce, 0, of_kind("sum")), 0); }},
    {"an argmax sees absent elements", kFolds, kMaterialize,
     [](ir::Kernel& k) { unmask(k, nth_op(k, Opcode::ArgReduce, 0), 0); }},
    {"a scan counts absent elements", kFolds, kMaterialize,
     [](ir::Kernel& k) { unmask(k, nth_op(k, Opcode::Scan, 0), 0); }},
    {"a row more is there", kFolds, kMaterialize,
     [](ir::Kernel& k) {
       k[nth_op(k, Opcode::Cmp, 0, [](const OpData& d) {
         return d.attrs.s(AttrName::pred) == "lt";
       })].attrs.set(AttrName::pred, "le");
     }},
    {"a store forgets what its value lacks", kFolds, kMaterialize,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::StoreView, 0)].operands.resize(3); }},
    {"a product's left side is not 0 along k", kProduct, kMaterialize,
     [](ir::Kernel& k) {
       unmask(k, nth_op(k, Opcode::Dot, 0), 0);
       unmask(k, nth_op(k, Opcode::Dot, 0), 1);
     }},
    {"a product forgets the rows that its left side lacks", kProduct, kMaterialize,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::StoreView, 0)].operands.resize(4); }},
    {"a reshape loses the mask", kMoved, kMaterialize,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::Store, 0)].operands.resize(2); }},
    {"a choice takes the mask of one side", kMoved, kMaterialize,
     [](ir::Kernel& k) {
       becomes(k, nth_op(k, Opcode::Select, 0, yields(k, DType::i1, true)), 2);
     }},
    {"a choice takes the other side's mask", kMoved, kMaterialize,
     [](ir::Kernel& k) {
       const OpId select = nth_op(k, Opcode::Select, 0, yields(k, DType::i1, true));
       std::swap(k[select].operands[1], k[select].operands[2]);
     }},
    {"a branch takes what both sides lack", kMoved, kMaterialize,
     [](ir::Kernel& k) {
       becomes(k, nth_op(k, Opcode::Select, 1, yields(k, DType::i32, false)), 1);
     }},
    {"a variable does not keep its elements", kCarried, kCarries,
     [](ir::Kernel& k) {
       becomes(k, nth_op(k, Opcode::Select, 0, yields(k, DType::i32, true)), 1);
     }},
    {"a variable keeps all its elements", kCarried, kCarries,
     [](ir::Kernel& k) {
       becomes(k, nth_op(k, Opcode::Select, 0, yields(k, DType::i32, true)), 2);
     }},
    {"presence stays that of the first value", kCarried, kCarries,
     [](ir::Kernel& k) {
       const OpId yield = k.terminator(k[loop(k, 1)].regions[0]);
       k[yield].operands[1] = k[k[loop(k, 1)].regions[0]].args[2];
     }},
    {"a loop without a step gives all elements", kCarried, kCarries,
     [](ir::Kernel& k) { becomes(k, k[first_of(k, loop(k, 2))].def, 0); }},
    // ---- barriers
    {"no barrier in front of the loop's first read", kOrder, kMemory,
     [](ir::Kernel& k) { erase(k, barrier(k, 0)); }},
    {"no barrier in front of the overwrite", kOrder, kMemory,
     [](ir::Kernel& k) { erase(k, barrier(k, 1)); }},
    {"no barrier behind the loop", kOrder, kMemory, [](ir::Kernel& k) { erase(k, barrier(k, 2)); }},
    {"a barrier in front of the loop only", kOrder, kMemory,
     [](ir::Kernel& k) {
       const OpId at = barrier(k, 1);
       k.unlink(at);
       k.insert_before(loop(k, 0), at);
     }},
    {"a barrier behind the overwrite", kOrder, kMemory,
     [](ir::Kernel& k) { move_behind(k, barrier(k, 1), 1); }},
    // ---- lowering
    {"a store without its predicate", kFolds, kLower,
     [](ir::Kernel& k) {
       k[nth_op(k, Opcode::StGlobal, 0, [](const OpData& d) { return d.operands.size() > 2; })]
           .operands.resize(2);
     }},
    {"a load without its predicate", kMoved, kLower,
     [](ir::Kernel& k) { k[nth_op(k, Opcode::LdGlobal, 0)].operands.resize(1); }},
    {"a fold's shuffle that reads its own lane", kFolds, kLower,
     [](ir::Kernel& k) {
       const OpId shuffle = nth_op(k, Opcode::Shfl, 0);
       Builder b(k);
       b.before(shuffle);
       const Value zero = b.i32(0);
       k[shuffle].operands[1] = zero;
     }},
    {"no barrier between the warps of a fold", kFolds, kLower,
     [](ir::Kernel& k) { erase(k, nth_op(k, Opcode::BarSync, 1)); }},
    {"an address of shared memory that is a word off", kFolds, kLower,
     [](ir::Kernel& k) {
       const OpId load = nth_op(k, Opcode::LdShared, 0);
       Builder b(k);
       b.before(load);
       const Value at = b.add(k[load].operands[0], b.i32(4));
       k[load].operands[0] = at;
     }},
    {"registers of a store in another order", kOrder, kLower,
     [](ir::Kernel& k) {
       const OpId store = nth_op(k, Opcode::StGlobal, 0);
       const Value v = k[store].operands[1];
       Ints order;
       for (std::int64_t i = 0; i < k.type(v).count(); ++i)
         order.push_back(k.type(v).count() - 1 - i);
       if (order.size() < 2) throw std::runtime_error("one register");
       Builder b(k);
       b.before(store);
       const Value moved = b.op(Opcode::Regs, {v}, {{AttrName::indices, order}});
       k[store].operands[1] = moved;
     }},
    {"a stride of another axis", kMoved, kLower,
     [](ir::Kernel& k) {
       k.replace_all_uses(first_view(k, "stride", 0), first_view(k, "stride", 1));
     }},
    {"an extent of another axis", kFolds, kLower,
     [](ir::Kernel& k) { k.replace_all_uses(first_view(k, "dim", 1), first_view(k, "dim", 0)); }},
};
static_assert(std::size(kFaults) == 30);

TEST(AbsenceBugs, TwentyEightOfThirtyAreCaught) {
  EXPECT_GE(test::count_caught(kFaults, [](ir::Kernel& k, const Fault& f) { f.plant(k); }), 28);
}

/// Ops that compute a mask's presence preceded their operands, and `cpu` crashed.
TEST(AbsenceBugs, AMaskThatBranchesHandOut) {
  const ir::Kernel tile = parse(kNested.text);
  fuzz::Arguments want = test::arguments(kNested, tile);
  ASSERT_EQ(fuzz::interpret(tile, want), "");
  EXPECT_EQ(test::how_caught(tile, test::compiled_with(tile), kNested, want), "");
}

}  // namespace
}  // namespace tegula::absence_bugs_test
