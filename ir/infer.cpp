// Result types of structure, elementwise and tile ops. Ops that change the shape do not infer a
// layout: in machine form the pass that assigns layouts sets it, and the verifier ignores it.
#include "ir/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel.h"

namespace tegula::ir {
namespace {

/// Returns the type to which scalar operands broadcast: that of the first operand that is not a
/// scalar, or of the first operand.
Type shape_leader(std::span<const Type> operands) {
  for (Type t : operands)
    if (!t.is_scalar()) return t;
  return operands.front();
}

std::string shapes_disagree(std::span<const Type> operands) {
  const Type leader = shape_leader(operands);
  for (Type t : operands) {
    if (t.is_scalar()) continue;
    if (t.kind() != leader.kind() || !std::ranges::equal(t.shape(), leader.shape()))
      return fmt::format("shapes differ: {} and {}", leader.str(), t.str());
    if (t.is_tile() && t.layout() != leader.layout())
      return fmt::format("layouts differ: {} and {}", leader.str(), t.str());
  }
  return "";
}

std::string elements_disagree(std::span<const Type> operands) {
  for (Type t : operands)
    if (t.elem() != operands.front().elem())
      return fmt::format("element types differ: {} and {}", operands.front().str(), t.str());
  return "";
}

bool is_data(Type t) { return t.is_scalar() || t.is_tile() || t.is_vec(); }

std::string not_data(std::span<const Type> operands) {
  for (Type t : operands)
    if (!is_data(t)) return fmt::format("a {} is not a number, tile or vector", t.str());
  return "";
}

}  // namespace

Inferred infer_none(const InferArgs&) { return {}; }

Inferred infer_same(const InferArgs& a) {
  for (const auto& check :
       {not_data(a.operands), elements_disagree(a.operands), shapes_disagree(a.operands)})
    if (!check.empty()) return Inferred::fail(check);
  return one_result(shape_leader(a.operands));
}

Inferred infer_tied(const InferArgs& a) { return {{a.operands.begin(), a.operands.end()}, ""}; }

Inferred infer_float(const InferArgs& a) {
  if (!is_data(a.operands[0]) || a.operands[0].is_pointer() || !is_float(a.operands[0].dtype()))
    return Inferred::fail("the operand must be floating point");
  return one_result(a.operands[0]);
}

Inferred infer_with_gradient(const InferArgs& a) {
  for (Type t : a.operands)
    if (!is_data(t) || t.is_pointer() || !is_float(t.dtype()))
      return Inferred::fail("the operands must be floating point");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  if (a.operands[0].is_scalar() && !shape_leader(a.operands).is_scalar())
    return Inferred::fail("the value is a scalar, and x or the slope is not");
  return one_result(a.operands[0]);
}

Inferred infer_cmp(const InferArgs& a) {
  Inferred inferred = infer_same(a);
  if (!inferred.error.empty()) return inferred;
  return one_result(inferred.types[0].with_elem({DType::i1, false}));
}

Inferred infer_select(const InferArgs& a) {
  if (a.operands[0].elem() != Elem{DType::i1, false})
    return Inferred::fail("the condition must be i1");
  if (const std::string e = elements_disagree(a.operands.subspan(1)); !e.empty())
    return Inferred::fail(e);
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  return one_result(shape_leader(a.operands).with_elem(a.operands[1].elem()));
}

Inferred infer_addptr(const InferArgs& a) {
  if (!a.operands[0].is_pointer()) return Inferred::fail("the first operand must be a pointer");
  if (a.operands[1].is_pointer() || !is_integer(a.operands[1].dtype()))
    return Inferred::fail("the offset must be an integer");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  return one_result(shape_leader(a.operands).with_elem(a.operands[0].elem()));
}

Inferred infer_i1(const InferArgs&) { return one_result(Type::scalar(DType::i1)); }
Inferred infer_i32(const InferArgs&) { return one_result(Type::scalar(DType::i32)); }
Inferred infer_i64(const InferArgs&) { return one_result(Type::scalar(DType::i64)); }

Inferred infer_for(const InferArgs& a) {
  for (int i = 0; i < 3; ++i)
    if (a.operands[i] != a.operands[0] || !a.operands[0].is_scalar() ||
        !is_integer(a.operands[0].dtype()))
      return Inferred::fail("bounds and step must be integers of one type");
  return {{a.operands.begin() + 3, a.operands.end()}, ""};
}

Inferred infer_while(const InferArgs& a) { return infer_tied(a); }

Inferred infer_view_ptr(const InferArgs& a) {
  if (!a.operands[0].is_view()) return Inferred::fail("the operand must be a view");
  return one_result(Type::pointer(a.operands[0].dtype()));
}

Inferred infer_expand_dims(const InferArgs& a) {
  const Type t = a.operands[0];
  const std::int64_t axis = a.attrs.i(AttrName::axis);
  if (!t.is_tile() || axis < 0 || axis > t.rank()) return Inferred::fail("axis is out of range");
  Ints shape(t.shape().begin(), t.shape().end());
  shape.insert(shape.begin() + axis, 1);
  return one_result(Type::tile(t.elem(), shape));
}

Inferred infer_permute(const InferArgs& a) {
  const Type t = a.operands[0];
  const auto order = a.attrs.ints(AttrName::order);
  Ints sorted(order.begin(), order.end());
  std::ranges::sort(sorted);
  Ints shape;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<std::int64_t>(i))
      return Inferred::fail("order is not a permutation");
  if (!t.is_tile() || static_cast<std::int64_t>(order.size()) != t.rank())
    return Inferred::fail("order must name every dimension of the tile once");
  for (std::int64_t d : order) shape.push_back(t.shape()[static_cast<std::size_t>(d)]);
  return one_result(Type::tile(t.elem(), shape));
}

Inferred infer_load(const InferArgs& a) {
  const Type p = a.operands[0];
  if (!p.is_pointer()) return Inferred::fail("the first operand must be pointers");
  const Type result = p.with_elem({p.dtype(), false});
  if (a.operands.size() > 1 && a.operands[1].elem() != Elem{DType::i1, false})
    return Inferred::fail("the mask must be i1");
  if (a.operands.size() > 2 && a.operands[2].elem() != result.elem())
    return Inferred::fail("the fill value must have the pointee's type");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  return one_result(result);
}

Inferred infer_atomic(const InferArgs& a) {
  if (!a.operands[0].is_pointer() || a.operands[1].elem() != Elem{a.operands[0].dtype(), false})
    return Inferred::fail("needs pointers and values of the pointee's type");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  return one_result(shape_leader(a.operands.first(2)).with_elem(a.operands[1].elem()));
}

Inferred infer_cas(const InferArgs& a) {
  if (!a.operands[0].is_pointer()) return Inferred::fail("the first operand must be pointers");
  const Elem pointee{a.operands[0].dtype(), false};
  if (a.operands[1].elem() != pointee || a.operands[2].elem() != pointee)
    return Inferred::fail("needs expected and desired values of the pointee's type");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  return one_result(shape_leader(a.operands.first(3)).with_elem(pointee));
}

Inferred infer_wait(const InferArgs& a) {
  const Type pointer = a.operands[0];
  if (!pointer.is_scalar() || !pointer.is_pointer() || !is_integer(pointer.dtype()) ||
      size_bits(pointer.dtype()) < 32)
    return Inferred::fail("the address must be a pointer to an integer of 32 or 64 bits");
  if (a.operands[1] != Type::scalar(pointer.dtype()))
    return Inferred::fail("the value must have the pointee's type");
  return {};
}

Inferred infer_arrival(const InferArgs& a) {
  const Type counter = a.operands[0];
  if (!counter.is_scalar() || !counter.is_pointer() || counter.dtype() != DType::u32)
    return Inferred::fail("the counter must be a pointer to u32");
  if (a.operands[1] != Type::scalar(DType::i32)) return Inferred::fail("the count must be i32");
  return one_result(Type::scalar(DType::i1));
}

namespace {
std::optional<Type> without_axis(Type t, std::int64_t axis) {
  if (!t.is_tile() || axis < 0 || axis >= t.rank()) return std::nullopt;
  Ints shape(t.shape().begin(), t.shape().end());
  shape.erase(shape.begin() + axis);
  if (shape.empty()) return Type::of(t.elem());
  return Type::tile(t.elem(), shape);
}
}  // namespace

Inferred infer_reduce(const InferArgs& a) {
  const auto t = without_axis(a.operands[0], a.attrs.i(AttrName::axis));
  if (!t) return Inferred::fail("axis is out of range");
  return one_result(*t);
}

Inferred infer_arg_reduce(const InferArgs& a) {
  const auto t = without_axis(a.operands[0], a.attrs.i(AttrName::axis));
  if (!t) return Inferred::fail("axis is out of range");
  return {{*t, t->with_dtype(DType::i32)}, ""};
}

Inferred infer_reduce_with(const InferArgs& a) {
  Inferred r;
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  for (Type operand : a.operands) {
    const auto t = without_axis(operand, a.attrs.i(AttrName::axis));
    if (!t) return Inferred::fail("axis is out of range");
    r.types.push_back(*t);
  }
  return r;
}

Inferred infer_scan_with(const InferArgs& a) {
  const bool is_exclusive = a.attrs.i(AttrName::exclusive) != 0;
  if (is_exclusive && a.operands.size() % 2 != 0)
    return Inferred::fail("an exclusive one has an identity for each tile");
  const auto tiles = a.operands.first(a.operands.size() / (is_exclusive ? 2 : 1));
  if (const std::string e = shapes_disagree(tiles); !e.empty()) return Inferred::fail(e);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (!without_axis(tiles[i], a.attrs.i(AttrName::axis)))
      return Inferred::fail("axis is out of range");
    if (is_exclusive && a.operands[tiles.size() + i] != Type::of(tiles[i].elem()))
      return Inferred::fail("an identity is a scalar of its tile's type");
  }
  return {{tiles.begin(), tiles.end()}, ""};
}

Inferred infer_sort(const InferArgs& a) {
  const Type t = a.operands[0];
  const auto axis = static_cast<std::size_t>(a.attrs.i(AttrName::axis));
  if (!without_axis(t, a.attrs.i(AttrName::axis))) return Inferred::fail("axis is out of range");
  if (const std::string e = shapes_disagree(a.operands); !e.empty()) return Inferred::fail(e);
  if (a.operands.size() > 1 && a.operands[1].dtype() != DType::i1)
    return Inferred::fail("presence is an i1 tile of the operand's shape");
  Ints shape(t.shape().begin(), t.shape().end());
  const std::int64_t count = a.attrs.i(AttrName::count);
  if (count < 0 || count > shape[axis]) return Inferred::fail("count is out of range");
  if (count != 0) shape[axis] = count;
  const Type sorted = Type::tile(t.elem(), shape);
  return {{sorted, sorted.with_dtype(DType::i32)}, ""};
}

Inferred infer_key_ranks(const InferArgs& a) {
  const Type t = a.operands[0];
  const std::int64_t bins = a.attrs.i(AttrName::count);
  if (!t.is_tile() || t.rank() != 1 || t.dtype() != DType::i32)
    return Inferred::fail("keys are a line of i32");
  if (bins < 1) return Inferred::fail("needs a bin");
  return {{t, Type::tile({DType::i32, false}, std::span(&bins, 1))}, ""};
}

Inferred infer_dot(const InferArgs& in) {
  const Type a = in.operands[0], b = in.operands[1], c = in.operands[2];
  for (Type t : {a, b, c})
    if (!t.is_tile() || t.rank() != c.rank() || t.rank() < 2 || t.rank() > 3)
      return Inferred::fail("operands must be two-dimensional tiles, or three-dimensional ones");
  if (a.dtype() != b.dtype())
    return Inferred::fail(fmt::format("a is {}, b is {}", name(a.dtype()), name(b.dtype())));
  const auto row = static_cast<std::size_t>(c.rank() - 2);
  if (row == 1 && (a.shape()[0] != c.shape()[0] || b.shape()[0] != c.shape()[0]))
    return Inferred::fail(
        fmt::format("batches differ ({}, {} and {})", a.shape()[0], b.shape()[0], c.shape()[0]));
  const std::int64_t m = a.shape()[row], k = a.shape()[row + 1], n = b.shape()[row + 1];
  if (k != b.shape()[row])
    return Inferred::fail(fmt::format("contraction sizes differ ({} vs {})", k, b.shape()[row]));
  if (c.shape()[row] != m || c.shape()[row + 1] != n)
    return Inferred::fail(fmt::format("the accumulator is {}x{}, the product is {}x{}",
                                      c.shape()[row], c.shape()[row + 1], m, n));
  return one_result(c);
}

}  // namespace tegula::ir
