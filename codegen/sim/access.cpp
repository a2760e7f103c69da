// Checks around every access: bounds, alignment, poison, and the messages of races.
#include <fmt/format.h>

#include "codegen/sim/cluster.h"

namespace tegula::sim {

void Cta::report_poison(Warp& w, const Instr& i, ir::OpId origin, std::string_view use, int lane,
                        std::uint64_t address) {
  if (origin && kernel()[origin].is(ir::Opcode::Div, ir::Opcode::Rem))
    return findings.add({Detector::DivisionByZero, origin, i.id, w.index, lane, address},
                        fmt::format("the result of an integer division by zero {}", use));
  report(w, i, Detector::Poison,
         fmt::format("an uninitialised value (from {}) {}", op_name(kernel(), origin), use), lane,
         address, origin);
}

void Cta::must_be_defined(Warp& w, const Instr& i, Slot s, std::string_view what, LaneMask in) {
  if (!w.has_poison(s)) return;
  const LaneMask lanes = w.poisoned_lanes(s) & w.mask & in;
  if (lanes == 0) return;
  report_poison(w, i, w.poison_origin(s), fmt::format("is {} of {}", what, op_name(kernel(), i.id)),
                std::countr_zero(lanes));
}

std::int64_t Cta::uniform(Warp& w, const Instr& i, Slot s) {
  const ir::Cell* c = w.cells(s);
  const std::int64_t first = c[std::countr_zero(w.mask)].i;
  for_lanes(w.mask, [&](int lane) {
    if (c[lane].i != first)
      report(w, i, Detector::Divergence,
             fmt::format("an operand of {} differs between lanes", op_name(kernel(), i.id)), lane);
  });
  return first;
}

bool Cta::shared_access(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes,
                        int lane, std::uint32_t align) {
  if (!shared.contains(address, bytes)) {
    report(w, i, Detector::SharedBounds,
           fmt::format("{} touches {} bytes at {:#x}; shared memory is [{:#x}, {:#x})",
                       op_name(kernel(), i.id), bytes, address, shared.base(),
                       shared.base() + shared.size()),
           lane, address);
    return false;
  }
  const std::uint32_t a = align ? align : bytes;
  if (address % a == 0) return true;
  report(w, i, Detector::Misaligned,
         fmt::format("{} at shared address {:#x}, not a multiple of {}", op_name(kernel(), i.id),
                     address, a),
         lane, address);
  return false;
}

bool Cta::global_access(Warp& w, const Instr& i, std::uint64_t address, std::uint64_t bytes,
                        int lane, std::uint32_t align) {
  if (!global().contains(address, bytes)) {
    report(w, i, Detector::GlobalBounds,
           fmt::format("{} touches {} bytes at {:#x}, outside every known range",
                       op_name(kernel(), i.id), bytes, address),
           lane, address);
    return false;
  }
  const std::uint64_t a = align ? align : bytes;
  if (address % a == 0) return true;
  report(w, i, Detector::Misaligned,
         fmt::format("{} at global address {:#x}, not a multiple of {}", op_name(kernel(), i.id),
                     address, a),
         lane, address);
  return false;
}

// ---- races --------------------------------------------------------------------------------------

namespace {

/// Access of one lane of a warp, which may belong to another CTA than the memory.
Access access_of(Warp& w, const Instr& i, int lane) {
  const Agent a = w.cta.agents.of_lane(w.index, lane);
  return {{w.known.generic.at(a), w.warp_syncs, i.id.index, a, static_cast<std::uint8_t>(lane), 0},
          &w.known,
          false};
}

}  // namespace

void Cta::generic_read(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes,
                       int lane) {
  accessing_ = &w;
  shadow_.read(address - shared.base(), bytes, access_of(w, i, lane));
}

void Cta::generic_write(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes,
                        int lane, bool same_value) {
  accessing_ = &w;
  same_value_ = same_value;
  shadow_.write(address - shared.base(), bytes, access_of(w, i, lane));
  same_value_ = false;
}

void Cta::engine_access(Warp& w, const Instr& i, Agent agent, Tick tick, bool async_proxy,
                        std::uint32_t address, std::uint32_t bytes, bool writes) {
  accessing_ = &w;
  const Access access{{tick, 0, i.id.index, agent, 0, 0}, &w.known, async_proxy};
  if (writes)
    shadow_.write(address - shared.base(), bytes, access);
  else
    shadow_.read(address - shared.base(), bytes, access);
}

Detector Cta::classify(const Conflict& c) const {
  if (c.kind == ConflictKind::Lanes) return Detector::LaneRace;
  if (c.kind == ConflictKind::NoProxyFence) return Detector::ProxyFence;
  const AgentKind earlier = agents.kind(c.earlier.agent), later = agents.kind(c.later.agent);
  const auto stale = [&](int warp, Agent mbarrier) {
    const auto it = last_waits_.find({warp, agents.number(mbarrier)});
    return it != last_waits_.end() && it->second.stale;
  };
  if (earlier == AgentKind::Tma) {
    if (later == AgentKind::Tma) return Detector::EarlyOverwrite;
    return stale(accessing_->index, c.earlier.agent) ? Detector::WrongParity
                                                     : Detector::MbarrierWait;
  }
  if (earlier == AgentKind::CpAsync) return Detector::CpAsyncWait;
  if (!c.earlier_writes) {
    if (later == AgentKind::Tma && earlier == AgentKind::Generic &&
        stale(agents.number(c.earlier.agent), c.later.agent))
      return Detector::WrongParity;
    if (earlier != AgentKind::Generic || later != AgentKind::Generic)
      return Detector::EarlyOverwrite;
    return Detector::SharedRace;
  }
  return later == AgentKind::Generic || later == AgentKind::CpAsync ? Detector::SharedRace
                                                                    : Detector::AsyncUnordered;
}

std::string Cta::side(const AccessRecord& r, bool writes) const {
  const int n = agents.number(r.agent);
  const char* const unit = agents.kind(r.agent) == AgentKind::Wgmma ? "warpgroup"
                           : agents.kind(r.agent) == AgentKind::Tma ? "mbarrier number"
                                                                    : "warp";
  std::string s = fmt::format("{} of {} {}", op_name(kernel(), ir::OpId(r.op)), unit, n);
  if (agents.kind(r.agent) == AgentKind::Generic && r.lane != kManyLanes)
    s += fmt::format(" lane {}", r.lane);
  if (cluster.size() > 1) s += fmt::format(" of CTA {}", agents.rank(r.agent));
  return s + position_text(kernel()[ir::OpId(r.op)].loc) + (writes ? " (write)" : " (read)");
}

void Cta::conflict(const Conflict& c) {
  if (same_value_ && c.earlier_writes && c.earlier.op == c.later.op) return;
  const Detector kind = classify(c);
  if (!wants(kind)) return;
  const std::uint32_t address = shared.base() + c.offset;
  const Fault fault{kind,
                    ir::OpId(c.later.op),
                    ir::OpId(c.earlier.op),
                    accessing_->index,
                    c.later.lane == kManyLanes ? -1 : c.later.lane,
                    address};
  Findings& of_reader = accessing_->cta.findings;
  if (of_reader.is_repetition(fault)) return;
  of_reader.add(fault, fmt::format("{}: {} after {} at shared address {:#x} (offset {})", doc(kind),
                                   side(c.later, c.later_writes), side(c.earlier, c.earlier_writes),
                                   address, c.offset));
}

}  // namespace tegula::sim
