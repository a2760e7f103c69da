// Control flow under an active-lane mask, and elementwise ops.
#include <fmt/format.h>

#include "codegen/sim/cluster.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

/// Copies all pairs simultaneously: a source may be the destination of an earlier pair.
void parallel_copy(Warp& w, std::span<const Slot> from, std::span<const Slot> to) {
  bool overlaps = false;
  for (std::size_t n = 1; n < from.size(); ++n)
    for (std::size_t m = 0; m < n; ++m) overlaps |= from[n] == to[m];
  if (!overlaps) {
    for (std::size_t n = 0; n < from.size(); ++n) w.copy(to[n], from[n], w.mask);
    return;
  }
  w.copy_together(from, to);
}

bool is_less(Cell a, Cell b, DType d) {
  return is_signed(d) ? a.i < b.i
                      : static_cast<std::uint64_t>(a.i) < static_cast<std::uint64_t>(b.i);
}

}  // namespace

Step control_if(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the condition");
  const LaneMask taken = w.mask & w.bits(i.in[0]);
  w.frames.push_back({w.mask, w.mask & ~taken});
  if (taken != 0) {
    w.mask = taken;
    return Step::Next;
  }
  w.frames.back().other = 0;
  w.pc = i.target;
  return Step::Jumped;
}

Step control_else(Warp& w, const Instr& i) {
  Frame& f = w.frames.back();
  if (f.other != 0) {
    w.mask = f.other;
    f.other = 0;
    return Step::Next;
  }
  w.pc = i.target;
  return Step::Jumped;
}

Step control_leave(Warp& w, const Instr&) {
  w.mask = w.frames.back().saved;
  w.frames.pop_back();
  return Step::Next;
}

Step control_copy(Warp& w, const Instr& i) {
  parallel_copy(w, i.in, i.out);
  return Step::Next;
}

Step control_enter_loop(Warp& w, const Instr& i) {
  parallel_copy(w, i.in, i.out);
  w.frames.push_back({w.mask, 0});
  return Step::Next;
}

Step control_for_test(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.out[0], "the induction variable");
  w.cta.must_be_defined(w, i, i.in[1], "the upper bound");
  const Cell *iv = w.cells(i.out[0]), *hi = w.cells(i.in[1]);
  const DType d = w.info(i.out[0]).elem.dtype;
  LaneMask inside = 0;
  for_lanes(w.mask, [&](int lane) {
    inside |= static_cast<LaneMask>(is_less(iv[lane], hi[lane], d)) << lane;
  });
  if (inside != 0) {
    w.mask = inside;
    return Step::Next;
  }
  w.pc = i.target;
  return Step::Jumped;
}

Step control_for_next(Warp& w, const Instr& i) {
  const Slot iv = i.out[0];
  ++w.turn;
  parallel_copy(w, i.in.subspan(1), i.out.subspan(1));
  const DType d = w.info(iv).elem.dtype;
  for_lanes(w.mask, [&](int lane) {
    Cell& c = w.cells(iv)[lane];
    c.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(c.i) +
                                    static_cast<std::uint64_t>(w.cells(i.in[0])[lane].i));
    c = ir::canonical(c, d);
  });
  w.pc = i.target;
  return Step::Jumped;
}

namespace {

/// Hash of the state at the start of an iteration: active lanes, and the carried registers that the
/// condition depends on.
std::uint64_t state_of(Warp& w, const Instr& i) {
  std::uint64_t hash = w.mask;
  for (const Slot s : i.out) {
    const Cell* c = w.cells(s);
    for (std::uint32_t n = 0; n < w.info(s).regs * kLanes; ++n)
      hash = (hash ^ static_cast<std::uint64_t>(c[n].i)) * 0x9e3779b97f4a7c15u + (hash >> 29);
  }
  return hash;
}

/// Counts an iteration of the innermost loop. If two iterations begin in the same state and this
/// CTA changes nothing in between, further iterations are equal until another CTA changes what they
/// read.
void begin_iteration(Warp& w, const Instr& i) {
  constexpr int kRepeats = 2;
  Frame& f = w.frames.back();
  const std::uint64_t state = state_of(w, i);
  const bool repeats = f.iterations > 0 && f.state == state && f.effects == w.cta.effects;
  f.repeats = repeats ? f.repeats + 1 : 0;
  f.state = state;
  f.effects = w.cta.effects;
  ++f.iterations;
  w.spin.loop = f.repeats >= kRepeats ? i.id : ir::OpId();
  w.spin.effects = f.effects;
  w.spin.since = f.began;
  f.began = w.cta.now;
  if (f.repeats == kRepeats) w.cta.check_wait(w, i);
  if (f.repeats == 0) w.spin.read = ir::OpId();
  if (f.iterations <= w.cta.launch.options.loop_limit) return;
  w.cta.report(w, i, Detector::Watchdog,
               fmt::format("the loop makes more than {} iterations; TEGULA_LOOP_LIMIT=N allows "
                           "N / 100",
                           w.cta.launch.options.loop_limit));
  w.cta.trapped = true;
}

}  // namespace

Step control_while_test(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the condition");
  const LaneMask inside = w.mask & w.bits(i.in[0]);
  if (inside != 0) {
    w.mask = inside;
    begin_iteration(w, i);
    return Step::Next;
  }
  w.spin.loop = ir::OpId();
  w.pc = i.target;
  return Step::Jumped;
}

Step control_jump(Warp& w, const Instr& i) {
  ++w.turn;
  w.pc = i.target;
  return Step::Jumped;
}

/// Enters region `role` if this warp belongs to it, else jumps to the next role.
Step control_role(Warp& w, const Instr& i) {
  std::int64_t first = 0;
  const auto warps = i.op->attrs.ints(ir::AttrName::warps);
  for (std::uint32_t r = 0; r < i.role; ++r) first += warps[r];
  if (w.index >= first && w.index < first + warps[i.role]) return Step::Next;
  w.pc = i.target;
  return Step::Jumped;
}

Step control_exit(Warp& w, const Instr&) {
  w.done = true;
  if (w.cta.cluster.size() > 1) w.cta.cluster.complete_if_all_arrived();
  return Step::Jumped;
}

// ---- elementwise --------------------------------------------------------------------------------

namespace {

/// Lanes in which one operand of `and` or `or` alone decides the result: a 0, or a true.
LaneMask decided_by(Warp& w, const Instr& i, std::size_t operand, std::uint32_t reg,
                    LaneMask poison) {
  const bool is_and = i.op->opcode == Opcode::And;
  const ir::Elem e = w.info(i.out[0]).elem;
  if (!is_and && (i.op->opcode != Opcode::Or || e.pointer || !is_bool(e.dtype))) return 0;
  const Slot s = i.in[operand];
  LaneMask lanes = 0;
  for_lanes(w.mask & ~poison, [&](int lane) {
    if ((w.cell(s, w.info(s).regs == 1 ? 0 : reg, lane).i == 0) == is_and)
      lanes |= LaneMask{1} << lane;
  });
  return lanes;
}

/// A register of a result is poison if one of the operands is, with two exceptions: select ignores
/// the operand that it does not take, and `and` and `or` ignore an operand if the other one
/// decides.
void propagate_poison(Warp& w, const Instr& i) {
  const Slot out = i.out[0];
  ir::OpId origin;
  const std::uint32_t regs = w.info(out).regs;
  const auto of = [&](std::size_t operand, std::uint32_t reg) {
    const Slot s = i.in[operand];
    return w.has_poison(s) ? w.poison(s)[w.info(s).regs == 1 ? 0 : reg] : 0;
  };
  for (const Slot s : i.in)
    if (w.has_poison(s)) origin = w.poison_origin(s);
  for (std::uint32_t r = 0; r < regs; ++r) {
    LaneMask m = 0;
    if (i.op->opcode == Opcode::Select) {
      const LaneMask taken = w.bits(i.in[0], w.info(i.in[0]).regs == 1 ? 0 : r);
      m = of(0, r) | (of(1, r) & taken) | (of(2, r) & ~taken);
    } else {
      for (std::size_t n = 0; n < i.in.size(); ++n) m |= of(n, r);
      for (std::size_t n = 0; m != 0 && n < i.in.size(); ++n)
        m &= ~decided_by(w, i, n, r, of(n, r));
    }
    w.poison(out)[r] = m;
  }
  w.wrote_poison(out, origin);
}

/// Integer division by zero yields poison.
void poison_zero_divisors(Warp& w, const Instr& i) {
  const Slot out = i.out[0], divisor = i.in[1];
  bool any = false;
  for (std::uint32_t r = 0; r < w.info(out).regs; ++r)
    for_lanes(w.mask, [&](int lane) {
      if (w.cell(divisor, w.info(divisor).regs == 1 ? 0 : r, lane).i != 0) return;
      w.poison(out)[r] |= LaneMask{1} << lane;
      any = true;
    });
  if (any) w.wrote_poison(out, i.id);
}

}  // namespace

Step control_elementwise(Warp& w, const Instr& i) {
  const Slot out = i.out[0];
  const std::uint32_t regs = w.info(out).regs;
  const std::size_t arity = i.in.size();
  const Cell* operands[8];
  static constexpr std::size_t kEach[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  bool mixed = false, poison = false;
  for (std::size_t n = 0; n < arity; ++n) {
    operands[n] = w.cells(i.in[n]);
    mixed |= w.info(i.in[n]).regs != regs;
    poison |= w.has_poison(i.in[n]);
  }
  const auto call = [&](Cell* result, std::size_t count) {
    i.elementwise({i.op->attrs, i.in_elems, w.info(out).elem, std::span(operands, arity),
                   std::span(kEach, arity), result, count});
  };
  if (!mixed) {
    call(w.cells(out), regs * kLanes);
  } else {  // a scalar operand is used for every register
    for (std::uint32_t r = 0; r < regs; ++r) {
      for (std::size_t n = 0; n < arity; ++n)
        operands[n] = w.cells(i.in[n]) + (w.info(i.in[n]).regs == regs ? r * kLanes : 0);
      call(w.cells(out) + r * kLanes, kLanes);
    }
  }
  if (poison)
    propagate_poison(w, i);
  else
    w.wrote_clean(out);
  const ir::Elem e = w.info(out).elem;
  const bool divides = i.op->opcode == Opcode::Div || i.op->opcode == Opcode::Rem;
  if (divides && !e.pointer && is_integer(e.dtype)) poison_zero_divisors(w, i);
  return Step::Next;
}

}  // namespace tegula::sim
