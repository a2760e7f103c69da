#include "codegen/lower/diagonals.h"

#include <algorithm>
#include <ranges>

#include "codegen/lower/lowering.h"
#include "codegen/lower/pointers.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr int kLanes = 32;
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
  const auto of_lane = [&](int lane) {
    return d.columns.thread({.lane = lane}) - d.rows.thread({.lane = lane});
  };
  const auto of_register = [&](int r) { return d.columns.constant(r) - d.rows.constant(r); };
  const auto [lane_low, lane_high] =
      std::ranges::minmax(std::views::iota(0, kLanes) | std::views::transform(of_lane));
  const auto [low, high] = std::ranges::minmax(std::views::iota(0, layout.registers()) |
                                               std::views::transform(of_register));
  d.first = lane_low + low;
  d.count = lane_high + high - d.first + 1;
  return d;
}

DiagonalTiles::DiagonalTiles(const Kernel& k) {
  std::vector<OpId> ops;
  walk(k, k.body(), [&](OpId op) {
    ops.push_back(op);
    for (Value v : k[op].operands) users_[v].push_back(op);
  });
  Diagonals diagonals(k);
  for (OpId op : ops | std::views::reverse)
    if (k[op].results.size() == 1 && k.type(k[op].results[0]).is_tile()) find(k, op, diagonals);
}

/// Users come before what they use.
void DiagonalTiles::find(const Kernel& k, OpId op, Diagonals& diagonals) {
  const Value v = k[op].results[0];
  const auto users = users_.find(v);
  if (users == users_.end()) return;
  const auto computes_it = [&](OpId user) { return is_within(user) || at(user); };
  if (std::ranges::all_of(users->second, computes_it)) {
    within_.insert(op);
    return;
  }
  const Type type = k.type(v);
  const bool fits_words =
      !type.is_pointer() && (size_bits(type.dtype()) == 16 || size_bits(type.dtype()) == 32);
  if (!fits_words || !diagonals.is_costly(v)) return;
  const auto here = WarpDiagonals::of(layout_of(type));
  if (here && kWorthwhile * here->registers() <= layout_of(type).registers())
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

void DiagonalTiles::forget() {
  roots_.clear();
  within_.clear();
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

  /// Lanes behind the last diagonal compute that one again: nothing else may be read.
  Value column_less_row(DType dtype) {
    if (!at_) {
      std::vector<std::int64_t> apart;
      for (std::int64_t r = 0; r < count_; ++r) apart.push_back(r * kLanes);
      at_ = l_.b.add(l_.constants(DType::i32, apart), l_.splat(l_.coordinate(In::Lane), count_));
      if (here_.count % kLanes != 0)
        at_ = l_.b.op(Opcode::Min, {at_, l_.b.constant(l_.type(at_), here_.count - 1)});
      Value begin = l_.b.i32(here_.first);
      if (const Value columns = l_.thread_value(part_of(here_.columns.thread, In::Warp)))
        begin = l_.b.add(begin, columns);
      if (const Value rows = l_.thread_value(part_of(here_.rows.thread, In::Warp)))
        begin = l_.b.sub(begin, rows);
      at_ = l_.b.add(at_, begin);
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

/// A thread's registers of the tile, by the lanes' results from `base` on: registers on one
/// diagonal are read once.
Value read_diagonals(Lowering& l, const WarpDiagonals& here, Value base, Elem elem) {
  std::vector<std::int64_t> at, wanted, place;
  for (std::size_t r = 0; r < here.columns.registers.size(); ++r) {
    const int reg = static_cast<int>(r);
    at.push_back(here.columns.constant(reg) - here.rows.constant(reg));
  }
  for (std::int64_t diagonal : at) {
    const auto it = std::ranges::find(wanted, diagonal);
    place.push_back(it - wanted.begin());
    if (it == wanted.end()) wanted.push_back(diagonal);
  }
  const int bytes = size_bytes(elem.dtype);
  Value lane = l.b.i32(-here.first * bytes);
  if (const Value columns = l.thread_value(part_of(here.columns.thread, In::Lane)))
    lane = l.b.add(lane, l.b.mul(columns, l.b.i32(bytes)));
  if (const Value rows = l.thread_value(part_of(here.rows.thread, In::Lane)))
    lane = l.b.sub(lane, l.b.mul(rows, l.b.i32(bytes)));
  std::vector<std::int64_t> offsets;
  for (std::int64_t diagonal : wanted) offsets.push_back(diagonal * bytes);
  const auto count = static_cast<std::int64_t>(wanted.size());
  const Value addresses = l.b.add(l.constants(DType::i32, offsets), l.b.add(base, lane));
  const Value read =
      l.b.op(Opcode::LdShared, {addresses}, Type::vec(elem, count), {{AttrName::width, 1}});
  return l.regs(read, place);
}

}  // namespace

void Lowering::lower_by_diagonals(OpId op, const WarpDiagonals& here) {
  const Value v = from[op].results[0];
  const Elem elem = from.type(v).elem();
  const std::int64_t count = here.registers();
  context.remark(Remark::Kind::Applied, from[op].loc, "computed once a diagonal",
                 {{"tile", from.type(v).str()},
                  {"elements of a thread", std::to_string(here.columns.registers.size())},
                  {"computed", std::to_string(count)}});
  const Value values = as_vec(DiagonalValues(*this, here).of(v));
  const Value warp = b.op(Opcode::WarpId, std::initializer_list<Value>{});
  const Value base =
      b.add(shared_address(diagonals_offset_), b.mul(warp, b.i32(diagonals_->bytes_per_warp())));
  std::vector<std::int64_t> offsets;
  for (std::int64_t r = 0; r < count; ++r) offsets.push_back(r * kLanes * size_bytes(elem.dtype));
  const Value mine = b.add(base, b.mul(coordinate(In::Lane), b.i32(size_bytes(elem.dtype))));
  // Only the lanes of a warp meet: before, they read what the last step wrote.
  b.effect(Opcode::WarpSync, {});
  b.effect(Opcode::StShared, {b.add(constants(DType::i32, offsets), mine), values},
           {{AttrName::width, 1}});
  b.effect(Opcode::WarpSync, {});
  set(v, read_diagonals(*this, here, base, elem));
}

/// Shared memory that warps keep for this alone; without room, tiles are computed element by
/// element.
void Lowering::reserve_diagonals() {
  diagonals_.emplace(from);
  const std::int64_t bytes = diagonals_->bytes_per_warp() * groups_ * warps();
  if (bytes == 0) return;
  constexpr std::int64_t kLeftToOthers = 8 * 1024;
  if (scratch_offset_ + bytes + kLeftToOthers > shared_limit(from.info.target))
    return diagonals_->forget();
  diagonals_offset_ = scratch_offset_;
  scratch_offset_ = scratch_end_ = scratch_offset_ + bytes;
}

}  // namespace tegula::codegen
