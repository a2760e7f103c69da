// Result types of the simt-form ops.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ir/infer.h"
#include "ir/kernel.h"

namespace tegula::ir {
namespace {

bool is_register(Type t) { return t.is_scalar() || t.is_vec(); }
Type pending_or_self(Type t) { return t.is(TypeKind::Pending) ? t.inner() : t; }

}  // namespace

Inferred infer_concat(const InferArgs& a) {
  std::int64_t count = 0;
  for (Type t : a.operands) {
    if (!is_register(t) || t.elem() != a.operands[0].elem())
      return Inferred::fail("operands must be registers of one type");
    count += t.count();
  }
  return one_result(Type::vec(a.operands[0].elem(), count));
}

Inferred infer_regs(const InferArgs& a) {
  Inferred all = infer_concat(a);
  if (!all.error.empty()) return all;
  const auto indices = a.attrs.ints(AttrName::indices);
  for (std::int64_t i : indices)
    if (i < 0 || i >= all.types[0].count())
      return Inferred::fail(fmt::format("register index {} is out of range", i));
  if (indices.empty()) return Inferred::fail("no register named");
  const Elem elem = a.operands[0].elem();
  return one_result(indices.size() == 1
                        ? Type::of(elem)
                        : Type::vec(elem, static_cast<std::int64_t>(indices.size())));
}

Inferred infer_shfl(const InferArgs& a) {
  if (!is_register(a.operands[0]) || a.operands[0].is_pointer() ||
      size_bits(a.operands[0].dtype()) != 32)
    return Inferred::fail("only 32-bit registers can be shuffled (repack others)");
  if (a.operands[1] != Type::scalar(DType::i32)) return Inferred::fail("the lane must be an i32");
  return one_result(a.operands[0]);
}

Inferred infer_vote(const InferArgs& a) {
  if (a.operands[0] != Type::scalar(DType::i1)) return Inferred::fail("the operand must be an i1");
  return one_result(Type::scalar(a.attrs.s(AttrName::kind) == "ballot" ? DType::u32 : DType::i1));
}

Inferred infer_atom_global(const InferArgs& a) {
  if (!is_register(a.operands[0]) || !a.operands[0].is_pointer())
    return Inferred::fail("the address must be pointers");
  if (a.operands[1].elem() != Elem{a.operands[0].dtype(), false} ||
      a.operands[1].count() != a.operands[0].count())
    return Inferred::fail("one value of the pointee's type per address");
  return one_result(a.operands[1]);
}

Inferred infer_ldmatrix(const InferArgs& a) {
  if (!is_register(a.operands[0]) || a.operands[0].elem() != Elem{DType::i32, false})
    return Inferred::fail("the row address must be i32");
  const std::int64_t count = a.operands[0].count() * a.attrs.i(AttrName::num, 4);
  return one_result(Type::vec({DType::i32, false}, count));
}

Inferred infer_mma(const InferArgs& a) {
  if (!is_register(a.operands[2])) return Inferred::fail("the accumulator must be registers");
  const auto tiles = a.attrs.ints(AttrName::tiles);
  if (tiles.size() == 3 && a.operands[2].count() != tiles[0] * tiles[1] * 4)
    return Inferred::fail(fmt::format("{} accumulator registers, tiles need {}",
                                      a.operands[2].count(), tiles[0] * tiles[1] * 4));
  return one_result(a.operands[2]);
}

Inferred infer_wgmma(const InferArgs& a) {
  const Type acc = pending_or_self(a.operands[0]);
  const auto shape = a.attrs.ints(AttrName::shape);
  if (!acc.is_vec()) return Inferred::fail("the accumulator must be registers");
  if (shape.size() != 3 || shape[0] != 64) return Inferred::fail("attr shape must be [64, n, k]");
  const auto tiles = std::max<std::int64_t>(1, std::ssize(a.attrs.ints(AttrName::rows_a)));
  if (acc.count() != tiles * shape[1] / 2 && acc.count() != tiles * shape[1] / 4)
    return Inferred::fail(
        fmt::format("{} accumulator registers do not fit n = {}", acc.count(), shape[1]));
  if (tiles > 1 && a.operands[1] != Type::scalar(DType::i64))
    return Inferred::fail("A of more than 64 rows must be an i64 descriptor");
  if (a.operands[2] != Type::scalar(DType::i64))
    return Inferred::fail("B must be an i64 descriptor");
  if (a.operands[3] != Type::scalar(DType::i1)) return Inferred::fail("scale_d must be an i1");
  return one_result(Type::pending(acc));
}

}  // namespace tegula::ir
