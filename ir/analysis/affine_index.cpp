#include "ir/analysis/affine_index.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/walk_depth.h"

namespace tegula::ir {
namespace {

/// Larger factors are those of hashes, whose products wrap.
constexpr std::int64_t kMaxFactor = std::int64_t{1} << 30;

/// Adds b to `sum`, or subtracts it. Scalars that equal ops compute are one symbol.
void accumulate(const Kernel& k, std::optional<ScalarSum>& sum, const ScalarSum& b,
                std::int64_t sign) {
  if (sum) sum = add(*sum, ScalarSum::number(b.constant), sign);
  for (const auto& [symbol, factor] : b) {
    if (!sum) return;
    const auto* term = std::ranges::find_if(
        *sum, [&](const ScalarSum::Term& t) { return is_same(k, t.symbol, symbol); });
    const Value known = term == sum->end() ? symbol : term->symbol;
    sum = add(*sum, ScalarSum::symbol(known, factor), sign);
  }
}

ScalarSum expanded_scalar(const Kernel& k, Value v, int depth) {
  if (const auto c = constant_value(k, v)) return ScalarSum::number(*c);
  const ScalarSum itself = ScalarSum::symbol(v);
  const OpId def = k[v].def;
  if (!def || depth > kMaxWalkDepth) return itself;
  const OpData& d = k[def];
  const auto of = [&](std::size_t i) { return expanded_scalar(k, d.operands[i], depth + 1); };
  using enum Opcode;
  if (d.opcode == ViewPtr) return ScalarSum::symbol(d.operands[0]);
  if (d.opcode == ViewDim) {
    const Type view = k.type(d.operands[0]);
    const auto extent = view.shape()[static_cast<std::size_t>(d.attrs.i(AttrName::axis))];
    return extent == kDynamic ? itself : ScalarSum::number(extent);
  }
  if (d.opcode == Cast)
    return is_integer(k.type(d.operands[0]).dtype()) &&
                   holds_all_of(k.type(v).dtype(), k.type(d.operands[0]).dtype())
               ? of(0)
               : itself;
  if (!k.type(v).is_pointer() && size_bits(k.type(v).dtype()) < 32) return itself;
  std::optional<ScalarSum> sum;
  if (d.is(Add, Sub, AddPtr)) {
    sum = of(0);
    accumulate(k, sum, of(1), d.opcode == Sub ? -1 : 1);
  } else if (d.opcode == Neg) {
    sum = add(ScalarSum(), of(0), -1);
  } else if (d.opcode == Mul) {
    for (std::size_t i = 0; i < 2 && !sum; ++i)
      if (const auto c = constant_value(k, d.operands[i]); c && std::abs(*c) <= kMaxFactor)
        sum = add(ScalarSum(), of(1 - i), *c);
  }
  return sum.value_or(itself);
}

bool has_affine_type(Type t) {
  return t.is_pointer() || t.dtype() == DType::i32 || t.dtype() == DType::i64;
}

Ints sum_of(Ints a, const Ints& b, std::int64_t sign) {
  a.resize(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < b.size(); ++i) a[i] += sign * b[i];
  return a;
}

std::optional<AffineIndex> sum_of(const AffineIndex& a, const AffineIndex& b, std::int64_t sign) {
  const auto start = add(a.start, b.start, sign);
  return start ? std::optional(AffineIndex{sum_of(a.factor, b.factor, sign), *start})
               : std::nullopt;
}

}  // namespace

ScalarSum expanded(const Kernel& k, const ScalarSum& sum) {
  std::optional<ScalarSum> all = ScalarSum::number(sum.constant);
  for (const auto& [symbol, factor] : sum) {
    const auto scaled = add(ScalarSum(), expanded_scalar(k, symbol, 0), factor);
    if (!scaled) return sum;
    accumulate(k, all, *scaled, 1);
  }
  return all.value_or(sum);
}

std::optional<ScalarSum> difference(const Kernel& k, const ScalarSum& a, const ScalarSum& b) {
  std::optional<ScalarSum> all = a;
  accumulate(k, all, b, -1);
  return all;
}

std::int64_t divisor_of(const Kernel& k, const ScalarSum& sum) {
  std::int64_t d = std::abs(sum.constant);
  for (const auto& [symbol, factor] : sum)
    d = std::gcd(d, factor * std::max<std::int64_t>(1, divisor_of(k, symbol)));
  return d;
}

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

std::optional<AffineIndex> difference(const Kernel& k, const AffineIndex& a, const AffineIndex& b) {
  const auto start = difference(k, a.start, b.start);
  return start ? std::optional(AffineIndex{sum_of(a.factor, b.factor, -1), *start}) : std::nullopt;
}

Value first_of(Builder& b, const AffineIndex& index, DType dtype,
               const std::function<Value(Value)>& get) {
  const Type type = Type::scalar(dtype);
  const bool has_sum = std::ranges::any_of(index.start, [](const auto& t) { return t.factor > 0; });
  Value v =
      index.start.constant != 0 || !has_sum ? b.constant(type, index.start.constant) : Value();
  for (const std::int64_t sign : {1, -1}) {
    for (const auto& [symbol, factor] : index.start) {
      if (factor * sign < 0) continue;
      Value term = get(symbol);
      if (factor != sign) term = b.mul(term, b.constant(type, factor * sign));
      v = !v ? term : sign > 0 ? b.add(v, term) : b.sub(v, term);
    }
  }
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
  if (!(type.is_scalar() || type.is_tile()) || !has_affine_type(type)) return std::nullopt;
  const OpId def = k_[v].def;
  const Ints none(type.is_tile() ? type.shape().size() : 0, 0);
  if (def && k_[def].opcode == Const)
    return AffineIndex{none, ScalarSum::number(k_[def].attrs.i(AttrName::value))};
  if (!type.is_tile()) return AffineIndex{none, ScalarSum::symbol(v)};
  if (!def) return std::nullopt;
  const OpData& d = k_[def];
  if (d.opcode == Arange) return AffineIndex{{1}, ScalarSum::number(d.attrs.i(AttrName::start))};
  if (d.is(Add, Sub, AddPtr)) return sum(d);
  if (d.is(Splat, ExpandDims, Broadcast)) return reshaped(d);
  if (!d.is(Neg, ConvertLayout)) return std::nullopt;
  const auto& x = of(d.operands[0]);
  return x && d.opcode == Neg ? sum_of({}, *x, -1) : x;
}

std::optional<AffineIndex> AffineIndices::sum(const OpData& d) {
  const auto x = of(d.operands[0]), y = of(d.operands[1]);
  return x && y ? sum_of(*x, *y, d.opcode == Opcode::Sub ? -1 : 1) : std::nullopt;
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
