#include "codegen/sim/warp.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tegula::sim {

Warp::Warp(Cta& c, const DecodedKernel& program, int i, LaneMask lanes)
    : cta(c),
      index(i),
      alive(lanes),
      mask(lanes),
      program_(program),
      cells_(static_cast<Cell*>(
          std::calloc(std::size_t{program.register_count()} * kLanes + 1, sizeof(Cell)))),
      poison_(program.register_count(), 0),
      state_(program.slot_count()) {
  if (!cells_) throw std::bad_alloc();
  load_constants();
}

void Warp::load_constants() {
  const ir::Kernel& k = program_.kernel();
  for (const auto& [slot, id] : program_.constants()) {
    const SlotInfo& s = info(slot);
    if (s.pending) continue;  // number 0: no accumulator
    if (k[id].opcode == Opcode::Poison) {
      std::fill_n(poison(slot), s.regs, ~LaneMask{0});
      wrote_poison(slot, id);
      continue;
    }
    const ir::AttrList& attrs = k[id].attrs;
    const ir::AttrValue* value = attrs.find(AttrName::value);
    Cell c{0};
    if (!s.elem.pointer && is_float(s.elem.dtype))
      c.f = value && std::holds_alternative<std::int64_t>(*value)
                ? static_cast<double>(attrs.i(AttrName::value))
                : attrs.f(AttrName::value);
    else
      c.i = attrs.i(AttrName::value);
    if (!s.elem.pointer) c = ir::canonical(c, s.elem.dtype);
    std::fill_n(cells(slot), s.regs * kLanes, c);
  }
}

LaneMask Warp::poisoned_lanes(Slot s) const {
  if (!state_[s].has_poison) return 0;
  LaneMask m = 0;
  for (std::uint32_t r = 0; r < info(s).regs; ++r) m |= poison_[info(s).first + r];
  return m;
}

void Warp::wrote_clean(Slot s) {
  SlotState& state = state_[s];
  if (state.has_poison) std::fill_n(poison(s), info(s).regs, 0);
  state.has_poison = false;
  state.halves.clear();
  state.written = steps;
  state.a_fragment = 0;
}

void Warp::wrote_poison(Slot s, ir::OpId origin) {
  SlotState& state = state_[s];
  state.has_poison =
      std::any_of(poison(s), poison(s) + info(s).regs, [](LaneMask m) { return m != 0; });
  state.origin = origin;
  state.halves.clear();
  state.written = steps;
  state.a_fragment = 0;
}

void Warp::wrote_halves(Slot s, std::vector<PoisonedHalves> halves, ir::OpId origin) {
  for (std::uint32_t r = 0; r < info(s).regs; ++r) poison(s)[r] = halves[r][0] | halves[r][1];
  wrote_poison(s, origin);
  if (state_[s].has_poison) state_[s].halves = std::move(halves);
}

namespace {

void copy_cells(Cell* to, const Cell* from, std::uint32_t regs, LaneMask lanes) {
  if (lanes == ~LaneMask{0}) {
    std::memcpy(to, from, regs * kLanes * sizeof(Cell));
    return;
  }
  for (std::uint32_t r = 0; r < regs; ++r)
    for_lanes(lanes, [&](int lane) {
      to[r * kLanes + static_cast<std::uint32_t>(lane)] =
          from[r * kLanes + static_cast<std::uint32_t>(lane)];
    });
}

}  // namespace

void Warp::copy_state(SlotState& to, LaneMask* to_poison, const SlotState& from,
                      const LaneMask* from_poison, std::uint32_t regs, LaneMask lanes) {
  const bool keeps = to.has_poison && lanes != ~LaneMask{0};
  if (to.has_poison || from.has_poison)
    for (std::uint32_t r = 0; r < regs; ++r)
      to_poison[r] = (to_poison[r] & ~lanes) | (from_poison[r] & lanes);
  const ir::OpId origin = from.has_poison ? from.origin : to.origin;
  to = from;
  to.has_poison |= keeps;
  if (keeps) to.halves.clear();
  to.origin = origin;
}

void Warp::copy(Slot to, Slot from, LaneMask lanes) {
  if (to == from) return;
  copy_cells(cells(to), cells(from), info(to).regs, lanes);
  copy_state(state_[to], poison(to), state_[from], poison(from), info(to).regs, lanes);
}

void Warp::copy_together(std::span<const Slot> from, std::span<const Slot> to) {
  struct Saved {
    std::vector<Cell> cells;
    std::vector<LaneMask> poison;
    SlotState state;
  };
  std::vector<Saved> saved;
  for (const Slot s : from)
    saved.push_back({{cells(s), cells(s) + info(s).regs * kLanes},
                     {poison(s), poison(s) + info(s).regs},
                     state_[s]});
  for (std::size_t n = 0; n < to.size(); ++n) {
    copy_cells(cells(to[n]), saved[n].cells.data(), info(to[n]).regs, mask);
    copy_state(state_[to[n]], poison(to[n]), saved[n].state, saved[n].poison.data(),
               info(to[n]).regs, mask);
  }
}

LaneMask Warp::bits(Slot s, std::uint32_t reg) {
  const Cell* c = cells(s) + reg * kLanes;
  LaneMask m = 0;
  for (int lane = 0; lane < kLanes; ++lane) m |= static_cast<LaneMask>(c[lane].i & 1) << lane;
  return m;
}

}  // namespace tegula::sim
