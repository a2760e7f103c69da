#include "codegen/lower/diagonals.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "codegen/lower/lowering.h"
#include "codegen/lower/pointers.h"
#include "codegen/lower/shuffle.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Of a thread's registers of a tile, as many for each that is computed are worth an exchange.
constexpr std::int64_t kWorthwhile = 2;

/// What the lanes, or warps, contribute to an index.
ThreadFn part_of(const ThreadFn& fn, In in) {
  ThreadFn part = fn;
  std::erase_if(part.bits, [&](const ThreadBit& b) { return b.in != in; });
  std::erase_if(part.digits, [&](const ThreadDigit& d) { return d.in != in; });
  return part;
}

}  // namespace

// ---- which ones ---------------------------------------------------------------------------------
std::optional<WarpDiagonals> WarpDiagonals::of(const LinearLayout& layout) {
  WarpDiagonals d{index_fn(layout, 0), index_fn(layout, 1)};
  // What pads a tile lies on diagonals that no element lies on.
  if (!layout.is_exact() || layout.in_bits(In::Block) > 0) return std::nullopt;
  for (const IndexFn* fn : {&d.rows, &d.columns})
    if (!fn->is_additive || !fn->thread.is_disjoint()) return std::nullopt;
  std::vector<std::int64_t> lanes, registers;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes.push_back(d.columns.thread({.lane = lane}) - d.rows.thread({.lane = lane}));
  for (int r = 0; r < layout.registers(); ++r) registers.push_back(d.of_register(r));
  const auto of_lanes = std::ranges::minmax(lanes), of_registers = std::ranges::minmax(registers);
  d.first = of_lanes.min + of_registers.min;
  d.count = of_lanes.max + of_registers.max - d.first + 1;
  d.lane_first = of_lanes.min;
  d.lane_count = of_lanes.max - of_lanes.min + 1;
  return d;
}

bool WarpDiagonals::is_for_shuffles() const { return lane_count <= kLanes; }

DiagonalTiles::DiagonalTiles(const Kernel& k, bool has_memory) : has_memory_(has_memory) {
  std::vector<OpId> ops;
  walk(k, k.body(), [&](OpId op) { ops.push_back(op); });
  const Uses uses(k);
  Diagonals diagonals(k);
  for (OpId op : std::views::reverse(ops))
    if (k[op].results.size() == 1 && k.type(k[op].results[0]).is_tile())
      find(k, op, uses, diagonals);
}

/// Users come before what they use.
void DiagonalTiles::find(const Kernel& k, OpId op, const Uses& uses, Diagonals& diagonals) {
  const Value v = k[op].results[0];
  if (uses.count(v) == 0) return;
  const auto computes_it = [&](const Uses::Use& use) { return is_within(use.op) || at(use.op); };
  if (std::ranges::all_of(uses.of(v), computes_it)) {
    within_.insert(op);
    return;
  }
  const Type type = k.type(v);
  const bool fits_words =
      !type.is_pointer() && (size_bits(type.dtype()) == 16 || size_bits(type.dtype()) == 32);
  if (!fits_words || !diagonals.is_costly(v)) return;
  const auto here = WarpDiagonals::of(layout_of(type));
  if (here && kWorthwhile * here->registers() <= layout_of(type).registers() &&
      (has_memory_ || here->is_for_shuffles()))
    roots_.emplace(op, *here);
}

const WarpDiagonals* DiagonalTiles::at(OpId op) const {
  const auto it = roots_.find(op);
  return it == roots_.end() ? nullptr : &it->second;
}

std::int64_t DiagonalTiles::bytes_per_warp() const {
  std::int64_t most = 0;
  for (const auto& [op, here] : roots_) most = std::max(most, here.registers());
  return most * kLanes * size_bytes(DType::f32);
}

// ---- their values -------------------------------------------------------------------------------
namespace {

class DiagonalValues {
 public:
  DiagonalValues(Lowering& l, const WarpDiagonals& here)
      : l_(l), here_(here), diagonals_(l.from), count_(here.registers()) {}

  /// Registers of a lane: diagonals that many lanes apart.
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
    switch (diagonals_.of(v)) {
      case OnDiagonals::distance:
        return distance(v);
      case OnDiagonals::ramps:
        return ramps(*diagonals_.ramps(v));
      case OnDiagonals::uniform:
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
    return first_of(l_.b, *diagonals_.index(v), l_.from.type(v).dtype(), get);
  }

  Value uniform(Value v, const OpData& d) {
    const Type type = Type::vec(l_.from.type(v).elem(), count_);
    if (diagonals_.index(v)) return l_.splat(first(v), count_);
    if (d.opcode == Opcode::Splat) return l_.splat(l_.get(d.operands[0]), count_);
    return l_.to[l_.b.create(Opcode::Const, {}, std::span(&type, 1), d.attrs)].results[0];
  }

  Value distance(Value v) {
    const Value at = column_less_row(l_.from.type(v).dtype()), begin = first(v);
    return diagonals_.index(v)->factor[1] > 0 ? l_.b.add(at, begin)
                                              : l_.b.sub(l_.splat(begin, count_), at);
  }

  Value ramps(const RampSum& sum) {
    const Value begin = l_.b.add(l_.get(sum.column), l_.get(sum.row));
    return l_.b.op(Opcode::Fma, {column_less_row(DType::f32), l_.get(sum.step), begin});
  }

  /// Lanes behind the last diagonal compute that one again: nothing else may be read.
  Value column_less_row(DType dtype) {
    if (!at_) {
      std::vector<std::int64_t> apart;
      for (std::int64_t r = 0; r < count_; ++r) apart.push_back(r * kLanes);
      at_ = l_.b.add(l_.constants(DType::i32, apart), l_.coordinate(In::Lane));
      if (here_.count % kLanes != 0)
        at_ = l_.b.op(Opcode::Min, {at_, l_.b.constant(l_.type(at_), here_.count - 1)});
      Value begin = l_.thread_value(part_of(here_.columns.thread, In::Warp));
      if (const Value rows = l_.thread_value(part_of(here_.rows.thread, In::Warp)))
        begin = l_.b.sub(begin ? begin : l_.b.i32(0), rows);
      // Register 0 of lane 0 lies on diagonal 0: the first one is not behind that.
      const Value first = l_.b.i32(-here_.first);
      at_ = begin ? l_.b.add(at_, l_.b.sub(begin, first)) : l_.b.sub(at_, first);
    }
    return dtype == DType::i32 ? at_ : l_.b.cast(at_, dtype);
  }

  Lowering& l_;
  const WarpDiagonals& here_;
  Diagonals diagonals_;
  std::int64_t count_;
  std::unordered_map<Value, Value> made_;
  Value at_;
};

// ---- from lane to lane --------------------------------------------------------------------------
/// What a thread holds, by diagonals of lane 0's: registers on one diagonal are the same.
struct HeldDiagonals {
  explicit HeldDiagonals(const WarpDiagonals& here) {
    for (std::size_t r = 0; r < here.columns.registers.size(); ++r) {
      const std::int64_t diagonal = here.of_register(static_cast<int>(r));
      const auto it = std::ranges::find(each, diagonal);
      of_register.push_back(it - each.begin());
      if (it == each.end()) each.push_back(diagonal);
    }
  }
  std::vector<std::int64_t> each, of_register;
};

/// What a lane adds to the diagonal of one of lane 0's registers to get that of its own, counted
/// from the warp's first one on.
Value lane_offset(Lowering& l, const WarpDiagonals& here) {
  Value offset = l.b.i32(-here.first);
  if (const Value columns = l.thread_value(part_of(here.columns.thread, In::Lane)))
    offset = l.b.add(offset, columns);
  if (const Value rows = l.thread_value(part_of(here.rows.thread, In::Lane)))
    offset = l.b.sub(offset, rows);
  return offset;
}

/// Through memory from `base` on, which is the warp's. Only its lanes meet: before, they read what
/// the last step wrote.
Value through_memory(Lowering& l, const WarpDiagonals& here, Value values, Value base) {
  const Elem elem = l.type(values).elem();
  const int bytes = size_bytes(elem.dtype);
  std::vector<std::int64_t> written, read;
  for (std::int64_t r = 0; r < here.registers(); ++r) written.push_back(r * kLanes * bytes);
  const Value mine = l.b.add(base, l.b.mul(l.coordinate(In::Lane), l.b.i32(bytes)));
  l.b.effect(Opcode::WarpSync, {});
  l.b.effect(Opcode::StShared, {l.b.add(l.constants(DType::i32, written), mine), values},
             {{AttrName::width, 1}});
  l.b.effect(Opcode::WarpSync, {});
  const HeldDiagonals held(here);
  for (std::int64_t diagonal : held.each) read.push_back(diagonal * bytes);
  const Value first = l.b.add(base, l.b.mul(lane_offset(l, here), l.b.i32(bytes)));
  const Value each =
      l.b.op(Opcode::LdShared, {l.b.add(l.constants(DType::i32, read), first)},
             Type::vec(elem, static_cast<std::int64_t>(read.size())), {{AttrName::width, 1}});
  return l.regs(each, held.of_register);
}

/// What the lanes need of one register are neighbouring diagonals, no more than there are lanes. A
/// lane has one of these, in one register or, where they begin behind it, in the next.
Value by_shuffles(Lowering& l, const WarpDiagonals& here, Value values) {
  const HeldDiagonals held(here);
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
      const std::int64_t at = held.each[i] + here.lane_first - here.first;
      low.push_back(at / kLanes);
      high.push_back(at / kLanes + 1);
      begin = at % kLanes;
      place[i] = next++;
    }
    Value given = l.regs(values, low);
    if (begin + here.lane_count > kLanes)
      given = l.b.select(l.b.cmp("lt", l.coordinate(In::Lane), l.b.i32(begin)),
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

void Lowering::lower_by_diagonals(OpId op, const WarpDiagonals& here) {
  const Value v = from[op].results[0];
  context.remark(Remark::Kind::Applied, from[op].loc, "computed once a diagonal",
                 {{"tile", from.type(v).str()},
                  {"elements of a thread", std::to_string(here.columns.registers.size())},
                  {"computed", std::to_string(here.registers())},
                  {"exchanged by", diagonals_->has_memory() ? "shared memory" : "shuffles"}});
  const Value values = as_vec(DiagonalValues(*this, here).of(v));
  if (!diagonals_->has_memory()) return set(v, by_shuffles(*this, here, values));
  const Value warp = b.op(Opcode::WarpId, std::initializer_list<Value>{});
  const Value base =
      b.add(shared_address(diagonals_offset_), b.mul(warp, b.i32(diagonals_->bytes_per_warp())));
  set(v, through_memory(*this, here, values, base));
}

/// Shared memory that warps keep for this alone.
void Lowering::reserve_diagonals() {
  diagonals_.emplace(from, /*has_memory=*/true);
  const std::int64_t bytes = diagonals_->bytes_per_warp() * groups_ * warps();
  if (bytes == 0) return;
  constexpr std::int64_t kLeftToOthers = 8 * 1024;
  if (scratch_offset_ + bytes + kLeftToOthers > from.info.target->shared_bytes_per_cta) {
    diagonals_.emplace(from, /*has_memory=*/false);
    return;
  }
  diagonals_offset_ = scratch_offset_;
  scratch_offset_ = scratch_end_ = scratch_offset_ + bytes;
}

}  // namespace tegula::codegen
