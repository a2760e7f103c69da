// Thread identity and moves between registers and between lanes.
#include <fmt/format.h>
#include <bit>

#include "codegen/sim/cta.h"
#include "support/errors.h"

namespace tegula::sim {
namespace {

Step fill(Warp& w, const Instr& i, std::int64_t value) {
  std::fill_n(w.cells(i.out[0]), kLanes, Cell{value});
  w.wrote_clean(i.out[0]);
  return Step::Next;
}

}  // namespace

Step sim_Tid(Warp& w, const Instr& i) {
  for (int lane = 0; lane < kLanes; ++lane) w.cells(i.out[0])[lane].i = w.index * kLanes + lane;
  w.wrote_clean(i.out[0]);
  return Step::Next;
}

Step sim_LaneId(Warp& w, const Instr& i) {
  for (int lane = 0; lane < kLanes; ++lane) w.cells(i.out[0])[lane].i = lane;
  w.wrote_clean(i.out[0]);
  return Step::Next;
}

Step sim_WarpId(Warp& w, const Instr& i) { return fill(w, i, w.index); }

Step sim_CtaId(Warp& w, const Instr& i) {
  return fill(w, i, w.cta.id.at(static_cast<std::size_t>(i.op->attrs.i(AttrName::axis))));
}

Step sim_NumCtas(Warp& w, const Instr& i) {
  return fill(w, i, w.cta.launch.grid.at(static_cast<std::size_t>(i.op->attrs.i(AttrName::axis))));
}

Step sim_SmemBase(Warp& w, const Instr& i) { return fill(w, i, w.cta.shared.base()); }

// ---- renaming: not a machine instruction, so order relative to wgmma_fence is inherited ---------

namespace {

/// Location of register `n` in the concatenation of the operands.
std::pair<Slot, std::uint32_t> nth_register(const Warp& w, std::span<const Slot> operands,
                                            std::uint32_t n) {
  for (const Slot s : operands) {
    if (n < w.info(s).regs) return {s, n};
    n -= w.info(s).regs;
  }
  throw InternalError("sim: register index out of range");
}

void move_register(Warp& w, Slot to, std::uint32_t to_reg, Slot from, std::uint32_t from_reg) {
  std::copy_n(w.cells(from) + from_reg * kLanes, kLanes, w.cells(to) + to_reg * kLanes);
  w.poison(to)[to_reg] = w.poison(from)[from_reg];
}

void inherit(Warp& w, const Instr& i) {
  std::uint64_t written = 0;
  ir::OpId origin = i.id;
  std::uint32_t fragment = 0;
  for (const Slot s : i.in) {
    written = std::max(written, w.written(s));
    fragment = std::max(fragment, w.a_fragment_of(s));
    if (w.has_poison(s)) origin = w.poison_origin(s);
  }
  w.wrote_poison(i.out[0], origin);
  w.set_written(i.out[0], written);
  w.set_a_fragment(i.out[0], fragment);
}

}  // namespace

Step sim_Concat(Warp& w, const Instr& i) {
  std::uint32_t next = 0;
  for (const Slot s : i.in)
    for (std::uint32_t r = 0; r < w.info(s).regs; ++r) move_register(w, i.out[0], next++, s, r);
  inherit(w, i);
  return Step::Next;
}

Step sim_Regs(Warp& w, const Instr& i) {
  const auto indices = i.op->attrs.ints(AttrName::indices);
  for (std::uint32_t n = 0; n < indices.size(); ++n) {
    const auto [slot, reg] = nth_register(w, i.in, static_cast<std::uint32_t>(indices[n]));
    move_register(w, i.out[0], n, slot, reg);
  }
  inherit(w, i);
  return Step::Next;
}

namespace {

unsigned width_of(const Warp& w, Slot s) {
  return w.info(s).elem.pointer ? 64u : static_cast<unsigned>(size_bits(w.info(s).elem.dtype));
}

/// A pointer's registers hold its address, independently of its element type.
DType bits_type(const Warp& w, Slot s) {
  return w.info(s).elem.pointer ? DType::u64 : w.info(s).elem.dtype;
}

/// In 32-bit words the two halves are tracked separately; other groups of registers are poison as a
/// whole.
void repack_poison(Warp& w, const Instr& i) {
  const Slot in = i.in[0], out = i.out[0];
  if (!w.has_poison(in)) return w.wrote_clean(out);
  const unsigned from = width_of(w, in), to = width_of(w, out), wide = std::max(from, to);
  const std::uint32_t per_in = wide / from, per_out = wide / to;
  const auto half = [&](std::uint32_t n, unsigned width) {
    return wide == 32 ? n * width / 16 : 0;
  };
  std::vector<PoisonedHalves> words(w.info(in).regs / per_in);
  for (std::uint32_t r = 0; r < w.info(in).regs; ++r) {
    PoisonedHalves& word = words[r / per_in];
    if (from == 32 && wide == 32)
      word = {w.poisoned_half(in, r, 0), w.poisoned_half(in, r, 1)};
    else
      word[half(r % per_in, from)] |= w.poison(in)[r];
  }
  const ir::OpId origin = w.poison_origin(in);
  if (to == 32 && wide == 32) return w.wrote_halves(out, std::move(words), origin);
  for (std::uint32_t r = 0; r < w.info(out).regs; ++r)
    w.poison(out)[r] = words[r / per_out][half(r % per_out, to)];
  w.wrote_poison(out, origin);
}

}  // namespace

Step sim_Repack(Warp& w, const Instr& i) {
  const Slot in = i.in[0], out = i.out[0];
  const DType from = bits_type(w, in), to = bits_type(w, out);
  const unsigned in_bits = width_of(w, in), out_bits = width_of(w, out);
  const unsigned wide = std::max(in_bits, out_bits);
  const std::uint32_t per_in = wide / in_bits, per_out = wide / out_bits;
  const std::uint64_t out_mask =
      out_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << out_bits) - 1;
  for (std::uint32_t group = 0; group * per_in < w.info(in).regs; ++group) {
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint64_t bits = 0;
      for (std::uint32_t n = 0; n < per_in; ++n)
        bits |= ir::to_bits(w.cell(in, group * per_in + n, lane), from) << (n * in_bits);
      for (std::uint32_t n = 0; n < per_out; ++n)
        w.cell(out, group * per_out + n, lane) =
            ir::from_bits((bits >> (n * out_bits)) & out_mask, to);
    }
  }
  repack_poison(w, i);
  w.set_written(out, w.written(in));
  w.set_a_fragment(out, w.a_fragment_of(in));
  return Step::Next;
}

// ---- between lanes ------------------------------------------------------------------------------

namespace {

/// Lane that a shuffle reads; up and down past the warp's end return the lane itself.
int shuffle_source(std::string_view mode, int lane, std::int64_t amount) {
  if (mode == "idx") return static_cast<int>(amount & 31);
  if (mode == "xor") return static_cast<int>((lane ^ amount) & 31);
  const std::int64_t from = mode == "up" ? lane - amount : lane + amount;
  return from < 0 || from >= kLanes ? lane : static_cast<int>(from);
}

}  // namespace

Step sim_Shfl(Warp& w, const Instr& i) {
  const Slot value = i.in[0], out = i.out[0];
  const std::string_view mode = i.op->attrs.s(AttrName::mode, "idx");
  w.cta.must_be_defined(w, i, i.in[1], "the lane");
  std::array<int, kLanes> source{};
  for_lanes(w.mask, [&](int lane) {
    const int from = shuffle_source(mode, lane, w.cells(i.in[1])[lane].i);
    source[static_cast<std::size_t>(lane)] = from;
    if (!((w.mask >> from) & 1))
      w.cta.report(w, i, Detector::Divergence,
                   fmt::format("shfl reads lane {}, which is not active", from), lane);
  });
  for (std::uint32_t r = 0; r < w.info(out).regs; ++r) {
    LaneMask poison = 0;
    for_lanes(w.mask, [&](int lane) {
      const int from = source[static_cast<std::size_t>(lane)];
      w.cell(out, r, lane) = w.cell(value, r, from);
      poison |= ((w.poison(value)[r] >> from) & 1) << lane;
    });
    w.poison(out)[r] = poison;
  }
  w.wrote_poison(out, w.poison_origin(value));
  return Step::Next;
}

Step sim_Vote(Warp& w, const Instr& i) {
  // An approximate vote may have any result if a lane's predicate is poison: here true.
  const bool is_approximate = i.op->attrs.i(AttrName::approx) == 1;
  if (!is_approximate) w.cta.must_be_defined(w, i, i.in[0], "the predicate");
  const LaneMask poison = is_approximate ? w.poison(i.in[0])[0] : 0;
  const LaneMask set = (w.bits(i.in[0]) | poison) & w.mask;
  const std::string_view kind = i.op->attrs.s(AttrName::kind, "any");
  if (kind == "ballot") return fill(w, i, set);
  return fill(w, i, kind == "all" ? set == w.mask : set != 0);
}

Step sim_Asm(Warp& w, const Instr& i) {
  const auto taken = static_cast<std::size_t>(
      i.op->attrs.i(AttrName::count, static_cast<std::int64_t>(i.in.size())));
  if (taken == i.in.size()) fail(ErrorId::inline_ptx, i.op->loc, {});
  for (std::size_t r = 0; r < i.out.size(); ++r) w.copy(i.out[r], i.in[taken + r], w.mask);
  return Step::Next;
}

Step sim_Nanosleep(Warp&, const Instr&) { return Step::Next; }

/// Consecutive CTAs are on different SMs, of which there are few; time is counted in instructions.
Step sim_SpecialReg(Warp& w, const Instr& i) {
  constexpr std::int64_t kSms = 4;
  const bool is_sm = i.op->attrs.s(AttrName::kind) == "smid";
  return fill(w, i, is_sm ? w.cta.cta_number() % kSms : static_cast<std::int64_t>(w.cta.now));
}

Step sim_Trap(Warp& w, const Instr& i) {
  const std::string_view kind = i.op->attrs.s(AttrName::kind);
  const std::optional<ir::FindingKind> finding = ir::finding_of(kind);
  if (kind == "assume" || finding) {
    const int lane = std::countr_zero(w.mask);
    std::string text(i.op->attrs.s(AttrName::message, "assumption does not hold"));
    if (!i.in.empty())
      text += ": " + ir::comparison(i.op->attrs.s(AttrName::pred), w.info(i.in[0]).elem.dtype,
                                    w.cell(i.in[0], 0, lane), w.cell(i.in[1], 0, lane));
    w.cta.report(w, i, finding ? detector_of(*finding) : Detector::Assume, std::move(text), lane);
    return Step::Next;
  }
  w.cta.report(w, i, Detector::Trapped,
               std::string(i.op->attrs.s(AttrName::message, "the kernel executed a trap")),
               std::countr_zero(w.mask));
  w.done = w.cta.trapped = true;
  return Step::Jumped;
}

}  // namespace tegula::sim
