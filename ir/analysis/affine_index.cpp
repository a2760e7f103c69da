#include "ir/analysis/affine_index.h"

#include <algorithm>

namespace tegula::ir {
namespace {

/// Sums of more scalars are not recognized.
constexpr std::size_t kMaxScalars = 16;

AffineIndex negated(AffineIndex x) {
  for (std::int64_t& f : x.factor) f = -f;
  x.start = -x.start;
  std::swap(x.plus, x.minus);
  return x;
}

bool is_integer(Type t) {
  return !t.is_pointer() && (t.dtype() == DType::i32 || t.dtype() == DType::i64);
}

}  // namespace

std::optional<std::size_t> AffineIndex::single_dim() const {
  std::optional<std::size_t> dim;
  for (std::size_t i = 0; i < factor.size(); ++i) {
    if (factor[i] == 0) continue;
    if (dim || factor[i] != 1) return std::nullopt;
    dim = i;
  }
  return dim;
}

bool AffineIndex::is_uniform() const {
  return std::ranges::all_of(factor, [](std::int64_t f) { return f == 0; });
}

Value first_of(Builder& b, const AffineIndex& at, DType dtype,
               const std::function<Value(Value)>& get) {
  Value v = at.start != 0 || at.plus.empty() ? b.constant(Type::scalar(dtype), at.start) : Value();
  for (Value term : at.plus) v = v ? b.add(v, get(term)) : get(term);
  for (Value term : at.minus) v = b.sub(v, get(term));
  return v;
}

const std::optional<AffineIndex>& AffineIndices::of(Value v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  std::optional<AffineIndex> found = find(v);
  return known_[v] = std::move(found);
}

std::optional<AffineIndex> AffineIndices::find(Value v) {
  using enum Opcode;
  const Type type = k_.type(v);
  if (!(type.is_scalar() || type.is_tile()) || !is_integer(type)) return std::nullopt;
  const OpId def = k_[v].def;
  const Ints none(type.is_tile() ? type.shape().size() : 0, 0);
  if (def && k_[def].opcode == Const)
    return AffineIndex{none, k_[def].attrs.i(AttrName::value), {}, {}};
  if (!type.is_tile()) return AffineIndex{none, 0, {v}, {}};
  if (!def) return std::nullopt;
  const OpData& d = k_[def];
  if (d.opcode == Arange) return AffineIndex{{1}, d.attrs.i(AttrName::start), {}, {}};
  if (d.is(Add, Sub)) return sum(d);
  if (d.is(Splat, ExpandDims, Broadcast)) return reshaped(d);
  if (!d.is(Neg, ConvertLayout)) return std::nullopt;
  const auto& x = of(d.operands[0]);
  return x && d.opcode == Neg ? negated(*x) : x;
}

std::optional<AffineIndex> AffineIndices::sum(const OpData& d) {
  const auto x = of(d.operands[0]), y = of(d.operands[1]);
  if (!x || !y) return std::nullopt;
  const AffineIndex other = d.opcode == Opcode::Sub ? negated(*y) : *y;
  AffineIndex all = *x;
  all.factor.resize(k_.type(d.results[0]).shape().size());
  for (std::size_t i = 0; i < other.factor.size(); ++i) all.factor[i] += other.factor[i];
  all.start += other.start;
  all.plus.insert(all.plus.end(), other.plus.begin(), other.plus.end());
  all.minus.insert(all.minus.end(), other.minus.begin(), other.minus.end());
  if (all.plus.size() + all.minus.size() > kMaxScalars) return std::nullopt;
  return all;
}

std::optional<AffineIndex> AffineIndices::reshaped(const OpData& d) {
  const auto& of_operand = of(d.operands[0]);
  if (!of_operand) return std::nullopt;
  AffineIndex x = *of_operand;
  const auto shape = k_.type(d.results[0]).shape();
  if (d.opcode == Opcode::ExpandDims) {
    x.factor.insert(x.factor.begin() + d.attrs.i(AttrName::axis), 0);
  } else if (d.opcode == Opcode::Broadcast) {
    const auto before = k_.type(d.operands[0]).shape();
    if (before.size() != shape.size()) return std::nullopt;
    // The single element of a dimension of extent 1 has index 0.
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (before[i] == 1) x.factor[i] = 0;
  } else {
    x.factor.assign(shape.size(), 0);
  }
  return x;
}

}  // namespace tegula::ir
