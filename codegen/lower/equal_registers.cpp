// Merges registers of a thread that are equal because a shift or a mask drops the bits in which
// they differ, such as the counter of neighboring random numbers or the block number of a scale.
// They, and the values computed from them, are computed once. Only values that originate from such
// a shift or mask are followed, so other code is unchanged.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "codegen/lower/lower_simt.h"
#include "ir/builder.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr int kAllZeros = 63;
constexpr int kDepth = 12;

std::optional<std::int64_t> integer_of(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  const Type t = k.type(v);
  if (!def || k[def].opcode != Opcode::Const || t.is_pointer() || !is_integer(t.dtype()))
    return std::nullopt;
  return k[def].attrs.i(AttrName::value);
}

bool is_integer_cast(const Kernel& k, const OpData& d) {
  return d.is(Opcode::Cast, Opcode::Bitcast) && d.attrs.all().empty() &&
         !k.type(d.operands[0]).is_pointer() && is_integer(k.type(d.operands[0]).dtype());
}

/// Returns the number of low bits of a scalar integer that are known to be 0.
int low_zeros(const Kernel& k, Value v, int depth = kDepth) {
  if (const auto c = integer_of(k, v))
    return *c == 0 ? kAllZeros : std::countr_zero(static_cast<std::uint64_t>(*c));
  const OpId def = k[v].def;
  if (!def || depth == 0 || !k.type(v).is_scalar()) return 0;
  const OpData& d = k[def];
  const auto of = [&](std::size_t i) { return low_zeros(k, d.operands[i], depth - 1); };
  using enum Opcode;
  if (d.opcode == Mul) return std::min(of(0) + of(1), kAllZeros);
  if (d.is(Add, Sub, Or)) return std::min(of(0), of(1));
  if (d.opcode == And) return std::max(of(0), of(1));
  if (is_integer_cast(k, d)) return of(0);
  const auto by = d.opcode == Shl ? integer_of(k, d.operands[1]) : std::nullopt;
  return by && *by >= 0 && *by < kAllZeros ? std::min(of(0) + static_cast<int>(*by), kAllZeros) : 0;
}

/// Registers that are a common number with `zeros` low zero bits, plus one offset each; possibly
/// after a conversion, which preserves the low bits and the equality of high bits.
struct OffsetRegisters {
  std::vector<std::int64_t> offsets;
  int zeros = 0;
  bool is_converted = false;
};

class SumReader {
 public:
  explicit SumReader(const Kernel& k) : k_(k) {}

  std::optional<OffsetRegisters> read(Value v, int depth = kDepth) const {
    const Type t = k_.type(v);
    const auto count = static_cast<std::size_t>(t.count());
    if (const auto c = integer_of(k_, v))
      return OffsetRegisters{std::vector<std::int64_t>(count, *c), kAllZeros};
    if (t.is_scalar()) return OffsetRegisters{{0}, low_zeros(k_, v)};
    const OpId def = k_[v].def;
    if (!def || depth == 0) return std::nullopt;
    const OpData& d = k_[def];
    if (d.opcode == Opcode::Concat) return constants(d);
    if (d.opcode == Opcode::Add) return sum(d, count, depth);
    if (!is_integer_cast(k_, d)) return std::nullopt;
    auto from = read(d.operands[0], depth - 1);
    if (!from) return from;
    from->zeros =
        std::min({from->zeros, size_bits(t.dtype()), size_bits(k_.type(d.operands[0]).dtype())});
    from->is_converted = true;
    return from;
  }

 private:
  std::optional<OffsetRegisters> constants(const OpData& d) const {
    OffsetRegisters out{{}, kAllZeros};
    for (Value v : d.operands) {
      const auto c = integer_of(k_, v);
      if (!c) return std::nullopt;
      out.offsets.insert(out.offsets.end(), static_cast<std::size_t>(k_.type(v).count()), *c);
    }
    return out;
  }

  std::optional<OffsetRegisters> sum(const OpData& d, std::size_t count, int depth) const {
    OffsetRegisters out{std::vector<std::int64_t>(count, 0), kAllZeros};
    for (Value v : d.operands) {
      const auto part = read(v, depth - 1);
      if (!part || part->is_converted) return std::nullopt;
      for (std::size_t i = 0; i < count; ++i)
        out.offsets[i] += part->offsets[part->offsets.size() == 1 ? 0 : i];
      out.zeros = std::min(out.zeros, part->zeros);
    }
    return out;
  }

  const Kernel& k_;
};

/// Numbers the distinct keys from 0, in order of first occurrence.
template <class Key>
struct Classes {
  std::vector<std::int64_t> of;     ///< the class of each register
  std::vector<std::int64_t> first;  ///< the first register of each class

  explicit Classes(const std::vector<Key>& keys) {
    std::map<Key, std::int64_t> numbers;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [found, is_new] =
          numbers.emplace(keys[i], static_cast<std::int64_t>(numbers.size()));
      if (is_new) first.push_back(static_cast<std::int64_t>(i));
      of.push_back(found->second);
    }
  }
  bool merges() const { return first.size() < of.size(); }
};

class EqualRegisters {
 public:
  explicit EqualRegisters(Kernel& k) : k_(k), sums_(k) {}

  bool run() {
    region(k_.body());
    return !replaced_.empty();
  }

 private:
  /// Register i of the value is register of[i] of `distinct`.
  struct Expansion {
    Value distinct;
    std::vector<std::int64_t> of;
  };

  void region(RegionId r) {
    for (OpId op : k_.ops(r)) {
      for (Value& v : k_[op].operands)
        if (const auto it = replaced_.find(v); it != replaced_.end()) v = it->second;
      for (RegionId inner : k_[op].regions) region(inner);
      const OpData& d = k_[op];
      if (d.results.size() != 1 || !k_.type(d.results[0]).is_vec() ||
          k_.type(d.results[0]).is_pointer() || k_.type(d.results[0]).count() < 2)
        continue;
      if (!begin(op) && info(d.opcode).is_elementwise()) follow(op);
    }
  }

  bool begin(OpId op) {
    const OpData& d = k_[op];
    if (!d.is(Opcode::Shr, Opcode::And) || expansions_.contains(d.operands[0])) return false;
    const auto by = integer_of(k_, d.operands[1]);
    if (!by || *by < 0 || k_.type(d.operands[0]) != k_.type(d.results[0])) return false;
    const auto sum = sums_.read(d.operands[0]);
    return sum && (d.opcode == Opcode::Shr ? shift(op, *sum, *by) : mask(op, *sum, *by));
  }

  /// Handles a right shift: its result depends only on the upper bits of the offsets.
  bool shift(OpId op, const OffsetRegisters& sum, std::int64_t by) {
    if (by > sum.zeros) return false;
    std::vector<std::int64_t> high;
    for (std::int64_t offset : sum.offsets) high.push_back(offset >> by);
    const Classes classes(high);
    if (!classes.merges()) return false;
    Builder b(k_, op);
    const OpData d = k_[op];
    const Value x = registers(b, d.operands[0], classes.first),
                by_each = registers(b, d.operands[1], classes.first);
    replace(b, op, b.op(Opcode::Shr, {x, by_each}, type_of(op, classes.first.size())), classes.of);
    return true;
  }

  /// Handles a mask of low bits, in which the common number is 0: the result is that of the
  /// offsets.
  bool mask(OpId op, const OffsetRegisters& sum, std::int64_t by) {
    if (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(by))) > sum.zeros) return false;
    std::vector<std::int64_t> low;
    for (std::int64_t offset : sum.offsets) low.push_back(offset & by);
    const Classes classes(low);
    Builder b(k_, op);
    std::vector<Value> distinct;
    for (std::int64_t i : classes.first)
      distinct.push_back(b.constant(type_of(op, 1), low[static_cast<std::size_t>(i)]));
    replace(b, op, distinct.size() == 1 ? distinct[0] : b.op(Opcode::Concat, distinct), classes.of);
    return true;
  }

  /// Handles an op on expansions, scalars and constants whose registers are not packed.
  void follow(OpId op) {
    const OpData d = k_[op];
    const auto count = static_cast<std::size_t>(k_.type(d.results[0]).count());
    std::vector<std::vector<std::int64_t>> keys(count);
    bool any = false;
    for (Value v : d.operands) {
      const Type t = k_.type(v);
      if (t.is_pointer() || is_packed(t)) return;
      const auto it = expansions_.find(v);
      if (it == expansions_.end()) {
        if (t.is_vec() && !is_constant(v)) return;
        continue;
      }
      any = true;
      for (std::size_t i = 0; i < count; ++i) keys[i].push_back(it->second.of[i]);
    }
    if (!any || is_packed(k_.type(d.results[0]))) return;
    const Classes classes(keys);
    if (!classes.merges()) return;
    Builder b(k_, op);
    std::vector<Value> operands;
    for (Value v : d.operands) operands.push_back(registers(b, v, classes.first));
    const Type type[] = {type_of(op, classes.first.size())};
    const OpId made = b.create(d.opcode, operands, type, d.attrs);
    replace(b, op, k_[made].results[0], classes.of);
  }

  bool is_constant(Value v) const { return k_[v].def && k_[k_[v].def].opcode == Opcode::Const; }
  static bool is_packed(Type t) { return t.dtype() != DType::i1 && size_bits(t.dtype()) < 32; }

  /// Returns the type of `count` registers; a single register is a scalar.
  Type type_of(OpId op, std::size_t count) const {
    const Elem e = k_.type(k_[op].results[0]).elem();
    return count == 1 ? Type::of(e) : Type::vec(e, static_cast<std::int64_t>(count));
  }

  /// Returns some registers of a value, or the value itself if all of its registers are the same.
  Value registers(Builder& b, Value v, const std::vector<std::int64_t>& which) {
    if (k_.type(v).is_scalar()) return v;
    if (is_constant(v)) {
      const Elem e = k_.type(v).elem();
      const auto count = static_cast<std::int64_t>(which.size());
      const Type type[] = {count == 1 ? Type::of(e) : Type::vec(e, count)};
      const AttrList attrs = k_[k_[v].def].attrs;
      return k_[b.create(Opcode::Const, {}, type, attrs)].results[0];
    }
    Value from = v;
    Ints indices(which.begin(), which.end());
    if (const auto it = expansions_.find(v); it != expansions_.end()) {
      from = it->second.distinct;
      for (std::int64_t& i : indices) i = it->second.of[static_cast<std::size_t>(i)];
      if (k_.type(from).is_scalar() && indices.size() == 1) return from;
      bool is_whole = k_.type(from).count() == static_cast<std::int64_t>(indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i)
        is_whole = is_whole && indices[i] == static_cast<std::int64_t>(i);
      if (is_whole) return from;
    }
    return b.op(Opcode::Regs, {from}, {{AttrName::indices, std::move(indices)}});
  }

  void replace(Builder& b, OpId op, Value distinct, const std::vector<std::int64_t>& of) {
    const Value all =
        b.op(Opcode::Regs, {distinct}, {{AttrName::indices, Ints(of.begin(), of.end())}});
    replaced_[k_[op].results[0]] = all;
    expansions_[all] = {distinct, of};
  }

  Kernel& k_;
  SumReader sums_;
  std::unordered_map<Value, Value> replaced_;
  std::unordered_map<Value, Expansion> expansions_;
};

}  // namespace

bool merge_equal_registers(Kernel& kernel, PassContext&) { return EqualRegisters(kernel).run(); }

}  // namespace tegula::codegen
