// Lowering of tiles that are functions of column - row.
#include "ir/analysis/toeplitz_tiles.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "codegen/lower/lowering.h"
#include "codegen/lower/pointers.h"
#include "codegen/lower/shuffle.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr int kLanes = WarpToeplitz::kLanes;

/// Returns the contribution of the lanes, or of the warps, to an index.
ThreadOffset part_of(const ThreadOffset& fn, HwDim in) {
  ThreadOffset part = fn;
  std::erase_if(part.bits, [&](const ThreadBit& b) { return b.in != in; });
  std::erase_if(part.digits, [&](const ThreadDigit& d) { return d.in != in; });
  return part;
}

}  // namespace

// ---- values of diagonals ------------------------------------------------------------------------
namespace {

class ToeplitzValues {
 public:
  ToeplitzValues(Lowering& l, const WarpToeplitz& here)
      : l_(l), here_(here), toeplitz_(l.from), count_(here.registers()) {}

  /// Returns the registers of a lane, whose diagonals are kLanes apart.
  Value of(Value v) {
    if (l_.from.type(v).is_scalar()) return l_.get(v);
    Value& made = made_[v];
    if (!made) {
      const Value value = evaluated(v);
      made_[v] = value;
      return value;
    }
    return made;
  }

 private:
  Value evaluated(Value v) {
    const OpData& d = l_.from[l_.from[v].def];
    switch (toeplitz_.of(v)) {
      case ToeplitzKind::distance:
        return distance(v);
      case ToeplitzKind::ramp:
        return ramps(*toeplitz_.ramps(v));
      case ToeplitzKind::uniform:
        return uniform(v, d);
      default:
        break;
    }
    if (d.opcode == Opcode::ConvertLayout) return of(d.operands[0]);
    const bool loads = d.opcode == Opcode::Load;
    std::vector<Value> operands;
    for (Value x : d.operands) {
      const Value value = of(x);
      operands.push_back(loads && !l_.type(value).is_vec() ? l_.splat(value, count_) : value);
    }
    const Type type = Type::vec(l_.from.type(v).elem(), count_);
    const OpId made = loads ? l_.b.create(Opcode::LdGlobal, operands, std::span(&type, 1),
                                          access_attrs(d.attrs, 1))
                            : l_.b.create(d.opcode, operands, std::span(&type, 1), d.attrs);
    return l_.to[made].results[0];
  }

  Value first(Value v) {
    const auto get = [&](Value scalar) { return l_.get(scalar); };
    return first_of(l_.b, *toeplitz_.index(v), l_.from.type(v).dtype(), get);
  }

  Value uniform(Value v, const OpData& d) {
    const Type type = Type::vec(l_.from.type(v).elem(), count_);
    if (toeplitz_.index(v)) return l_.splat(first(v), count_);
    if (d.opcode == Opcode::Splat) return l_.splat(l_.get(d.operands[0]), count_);
    return l_.to[l_.b.create(Opcode::Const, {}, std::span(&type, 1), d.attrs)].results[0];
  }

  Value distance(Value v) {
    const Value difference = column_less_row(l_.from.type(v).dtype()), begin = first(v);
    return toeplitz_.index(v)->factor[1] > 0 ? l_.b.add(difference, begin)
                                             : l_.b.sub(l_.splat(begin, count_), difference);
  }

  Value ramps(const RampSum& sum) {
    const Value begin = l_.b.add(l_.get(sum.column), l_.get(sum.row));
    return l_.b.op(Opcode::Fma, {column_less_row(DType::f32), l_.get(sum.step), begin});
  }

  /// Lanes past the last diagonal recompute it, so that they read no other elements.
  Value column_less_row(DType dtype) {
    if (!at_) {
      std::vector<std::int64_t> apart;
      for (std::int64_t r = 0; r < count_; ++r) apart.push_back(r * kLanes);
      at_ = l_.b.add(l_.constants(DType::i32, apart), l_.coordinate(HwDim::Lane));
      if (here_.count % kLanes != 0)
        at_ = l_.b.op(Opcode::Min, {at_, l_.b.constant(l_.type(at_), here_.count - 1)});
      Value begin = l_.thread_value(part_of(here_.columns.thread, HwDim::Warp));
      if (const Value rows = l_.thread_value(part_of(here_.rows.thread, HwDim::Warp)))
        begin = l_.b.sub(begin ? begin : l_.b.i32(0), rows);
      // Register 0 of lane 0 is on diagonal 0, so the first diagonal is not after it.
      const Value first = l_.b.i32(-here_.first);
      at_ = begin ? l_.b.add(at_, l_.b.sub(begin, first)) : l_.b.sub(at_, first);
    }
    return dtype == DType::i32 ? at_ : l_.b.cast(at_, dtype);
  }

  Lowering& l_;
  const WarpToeplitz& here_;
  ToeplitzAnalysis toeplitz_;
  std::int64_t count_;
  std::unordered_map<Value, Value> made_;
  Value at_;
};

// ---- exchange between lanes ---------------------------------------------------------------------
/// Registers of a thread, grouped by the diagonals of lane 0: registers on one diagonal are equal.
struct HeldToeplitz {
  explicit HeldToeplitz(const WarpToeplitz& here) {
    for (std::size_t r = 0; r < here.columns.registers.size(); ++r) {
      const std::int64_t diagonal = here.of_register(static_cast<int>(r));
      const auto it = std::ranges::find(each, diagonal);
      of_register.push_back(it - each.begin());
      if (it == each.end()) each.push_back(diagonal);
    }
  }
  std::vector<std::int64_t> each, of_register;
};

/// Returns the offset from lane 0's diagonal to this lane's diagonal of the same register, counted
/// from the first diagonal of the warp.
Value lane_offset(Lowering& l, const WarpToeplitz& here) {
  Value offset = l.b.i32(-here.first);
  if (const Value columns = l.thread_value(part_of(here.columns.thread, HwDim::Lane)))
    offset = l.b.add(offset, columns);
  if (const Value rows = l.thread_value(part_of(here.rows.thread, HwDim::Lane)))
    offset = l.b.sub(offset, rows);
  return offset;
}

/// Exchanges values through the warp's shared memory at `base`. Only the warp's lanes synchronize;
/// the first time because they read the previous iteration's values.
Value through_memory(Lowering& l, const WarpToeplitz& here, Value values, Value base) {
  const Elem elem = l.type(values).elem();
  const int bytes = size_bytes(elem.dtype);
  std::vector<std::int64_t> written, read;
  for (std::int64_t r = 0; r < here.registers(); ++r) written.push_back(r * kLanes * bytes);
  const Value own_slot = l.b.add(base, l.b.mul(l.coordinate(HwDim::Lane), l.b.i32(bytes)));
  l.b.effect(Opcode::WarpSync, {});
  l.b.effect(Opcode::StShared, {l.b.add(l.constants(DType::i32, written), own_slot), values},
             {{AttrName::width, 1}});
  l.b.effect(Opcode::WarpSync, {});
  const HeldToeplitz held(here);
  for (std::int64_t diagonal : held.each) read.push_back(diagonal * bytes);
  const Value first = l.b.add(base, l.b.mul(lane_offset(l, here), l.b.i32(bytes)));
  const Value each =
      l.b.op(Opcode::LdShared, {l.b.add(l.constants(DType::i32, read), first)},
             Type::vec(elem, static_cast<std::int64_t>(read.size())), {{AttrName::width, 1}});
  return l.regs(each, held.of_register);
}

/// Exchanges values by shuffles. For one register, the lanes need at most kLanes contiguous
/// diagonals. Each lane holds one of these, in one register or, if they start after it, in the
/// next.
Value by_shuffles(Lowering& l, const WarpToeplitz& here, Value values) {
  const HeldToeplitz held(here);
  std::map<std::int64_t, std::vector<std::size_t>> by_lane;
  for (std::size_t i = 0; i < held.each.size(); ++i)
    by_lane[(held.each[i] - here.first) % kLanes].push_back(i);
  const Value offset = lane_offset(l, here);
  std::vector<Value> parts;
  std::vector<std::int64_t> place(held.each.size()), of_register;
  std::int64_t next = 0;
  for (const auto& [lane, diagonals] : by_lane) {
    std::vector<std::int64_t> low, high;
    std::int64_t begin = 0;
    for (std::size_t i : diagonals) {
      const std::int64_t position = held.each[i] + here.lane_first - here.first;
      low.push_back(position / kLanes);
      high.push_back(position / kLanes + 1);
      begin = position % kLanes;
      place[i] = next++;
    }
    Value given = l.regs(values, low);
    if (begin + here.lane_count > kLanes)
      given = l.b.select(l.b.cmp("lt", l.coordinate(HwDim::Lane), l.b.i32(begin)),
                         l.regs(values, high), given);
    const std::int64_t diagonal = held.each[diagonals.front()];
    const Value from = l.b.op(
        Opcode::And, {l.b.add(offset, l.b.i32(diagonal & (kLanes - 1))), l.b.i32(kLanes - 1)});
    parts.push_back(shuffle(l, given, from, "idx"));
  }
  for (std::int64_t i : held.of_register) of_register.push_back(place[static_cast<std::size_t>(i)]);
  return l.regs(l.concat(parts), of_register);
}

}  // namespace

void Lowering::lower_toeplitz(OpId op, const WarpToeplitz& here) {
  const Value v = from[op].results[0];
  context.remark(Remark::Kind::Applied, from[op].loc, "computed once per diagonal",
                 {{"tile", from.type(v).str()},
                  {"elements of a thread", std::to_string(here.columns.registers.size())},
                  {"computed", std::to_string(here.registers())},
                  {"exchanged by", toeplitz_->has_memory() ? "shared memory" : "shuffles"}});
  const Value values = as_vec(ToeplitzValues(*this, here).of(v));
  if (!toeplitz_->has_memory()) return set(v, by_shuffles(*this, here, values));
  const Value warp = b.op(Opcode::WarpId, std::initializer_list<Value>{});
  const Value base =
      b.add(shared_address(toeplitz_offset_), b.mul(warp, b.i32(toeplitz_->bytes_per_warp())));
  set(v, through_memory(*this, here, values, base));
}

/// Reserves shared memory that each warp uses only for this exchange.
void Lowering::reserve_toeplitz() {
  toeplitz_.emplace(from, /*has_memory=*/true);
  const std::int64_t bytes = toeplitz_->bytes_per_warp() * groups_ * warps();
  if (bytes == 0) return;
  constexpr std::int64_t kLeftToOthers = 8 * 1024;
  if (scratch_offset_ + bytes + kLeftToOthers > from.info.target->shared_bytes_per_cta) {
    toeplitz_.emplace(from, /*has_memory=*/false);
    return;
  }
  toeplitz_offset_ = scratch_offset_;
  scratch_offset_ = scratch_end_ = scratch_offset_ + bytes;
}

}  // namespace tegula::codegen
