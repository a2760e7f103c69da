// Races in global memory: accesses, release and acquire by atomics, and messages.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/sim/cluster.h"

namespace tegula::sim {

std::uint32_t Cta::home() const {
  return static_cast<std::uint32_t>(cta_number() / kernel().info.cluster);
}

void Cta::touch_global(Warp& w, const Instr& i, GlobalLock& lock, std::uint64_t address,
                       std::uint64_t bytes, int lane, GlobalUse use) {
  if (use == GlobalUse::Read) check_released(w, i, address, bytes, lane);
  GlobalShadow& shadow = global().shadow();
  if (!shadow.is_watched(address)) return;
  if (!lock) lock.lock();
  accessing_ = &w;
  const Agent a = agents.of_lane(w.index, lane);
  const GlobalRecord record{
      w.known.generic.at(a),          home(), i.id.index, w.warp_syncs, w.turn, a,
      static_cast<std::uint8_t>(lane)};
  shadow.access(address, bytes, use, {record, &w.known, agents}, on_global_conflict_);
}

void Cta::touch_global(Warp& w, const Instr& i, Agent agent, Tick tick, std::uint64_t address,
                       std::uint64_t bytes, GlobalUse use) {
  if (use == GlobalUse::Read) check_released(w, i, address, bytes);
  GlobalShadow& shadow = global().shadow();
  if (!shadow.is_watched(address)) return;
  const std::lock_guard lock(shadow.mutex());
  accessing_ = &w;
  const GlobalRecord record{tick, home(), i.id.index, 0, w.turn, agent};
  shadow.access(address, bytes, use, {record, &w.known, agents}, on_global_conflict_);
}

void Cta::check_released(Warp& w, const Instr& i, std::uint64_t address, std::uint64_t bytes,
                         int lane) {
  const std::span<const ir::ReleasedMemory> all = launch.options.released;
  if (all.empty()) return;
  const auto element = ir::find_released(all, address, bytes);
  if (!element) return;
  report(w, i, Detector::ReleasedRead,
         fmt::format("reads {}, which was released and has not been written since",
                     global().describe(*element)),
         lane, *element);
}

namespace {

bool is_narrow(std::string_view scope) { return scope == "cta" || scope == "cluster"; }

}  // namespace

Foreign Cta::given_away(Warp& w, LaneMask lanes, std::string_view scope) {
  VisibleClocks released;
  release(w, lanes, released);
  auto present = std::make_shared<Clock>();
  for (const Warp& other : warps_)
    for (const Agent a : {agents.lanes(other.index), agents.lane_0(other.index)})
      present->raise(a, other.known.generic.at(a));
  Foreign what = released.foreign;
  what.join(ForeignClock{home(), std::make_shared<const Clock>(released.generic),
                         std::move(present), nullptr});
  return is_narrow(scope) ? what.narrowed() : what;
}

void Cta::learn(Warp& w, const Foreign& what, std::string_view scope) {
  if (const ForeignClock* own = what.find(home())) {
    if (own->seen) w.known.generic.join(*own->seen);
    if (own->narrow) w.known.generic.join(*own->narrow);
  }
  w.known.foreign.join(is_narrow(scope) ? what.narrowed() : what);
}

void Cta::release_global(Warp& w, LaneMask lanes, std::uint64_t address, std::string_view scope) {
  if (!global().shadow().is_watched(address)) return;
  global().shadow().release(address, given_away(w, lanes, scope));
}

void Cta::acquire_global(Warp& w, std::uint64_t address, std::string_view scope) {
  if (const Foreign* what = global().shadow().released(address)) learn(w, *what, scope);
}

std::string Cta::global_side(const GlobalRecord& r, GlobalUse use) const {
  static constexpr std::array<std::string_view, 3> kUses{"read", "write", "atomic"};
  std::string s = op_name(kernel(), ir::OpId(r.op)).data();
  s += position_text(kernel()[ir::OpId(r.op)].loc);
  s += fmt::format(" ({}) of CTA number {}", kUses[static_cast<std::size_t>(use)],
                   std::int64_t{r.home} * kernel().info.cluster + agents.rank(r.agent));
  if (agents.kind(r.agent) != AgentKind::Generic) return s;
  s += fmt::format(" warp {}", agents.number(r.agent));
  return r.lane == kManyLanes ? s : s + fmt::format(" lane {}", r.lane);
}

void Cta::global_conflict(const GlobalConflict& c) {
  static constexpr std::array kKinds{Detector::ProgramRace,  Detector::GlobalRace,
                                     Detector::ReleaseEarly, Detector::ScopeRace,
                                     Detector::BulkOrder,    Detector::GlobalProxy};
  const Detector kind = kKinds[static_cast<std::size_t>(c.kind)];
  if (!wants(kind)) return;
  const Fault fault{kind,
                    ir::OpId(c.later.op),
                    ir::OpId(c.earlier.op),
                    accessing_->index,
                    c.later.lane == kManyLanes ? -1 : c.later.lane,
                    c.address};
  if (findings.is_repetition(fault)) return;
  findings.add(
      fault, fmt::format("{}: {}; {} after {}", global().describe(c.address), doc(kind),
                         global_side(c.later, c.later_use), global_side(c.earlier, c.earlier_use)));
}

void Cta::check_wait(Warp& w, const Instr& i) {
  const ir::OpId read = w.spin.read;
  if (!wants(Detector::WaitPlain) || !read || kernel()[read].opcode != ir::Opcode::LdGlobal ||
      kernel()[read].attrs.has(ir::AttrName::sem))
    return;
  const Fault fault{Detector::WaitPlain, read, i.id, w.index, -1, w.spin.address};
  if (findings.is_repetition(fault)) return;
  findings.add(fault, fmt::format("{}: {}; the loop{} waits by {}",
                                  global().describe(w.spin.address), doc(Detector::WaitPlain),
                                  position_text(kernel()[i.id].loc), op_name(kernel(), read)));
}

bool Cta::updates(const Instr& i) const {
  const std::vector<Loc>& all = launch.options.updates;
  return !all.empty() && std::ranges::find(all, kernel()[i.id].loc) != all.end();
}

void Cta::check_repeat(Warp& w, const Instr& i, GlobalLock& lock, std::uint64_t address, int lane) {
  if (!wants(Detector::ScatterRepeats) || !global().shadow().is_watched(address)) return;
  if (!lock) lock.lock();
  const GlobalRecord* last = global().shadow().last_change(address);
  const Agent mine = agents.of_lane(w.index, lane);
  if (!last || last->op != i.id.index || last->home != home() || last->turn != w.turn ||
      agents.rank(last->agent) != agents.rank(mine))
    return;
  if (!agents.of_one_warp(last->agent, mine) && w.known.generic.covers(last->agent, last->tick))
    return;  // the read is of another iteration
  report(w, i, Detector::ScatterRepeats,
         fmt::format("{}: {}", global().describe(address), doc(Detector::ScatterRepeats)), lane,
         address);
}

std::string Cta::last_change(std::uint64_t address) {
  const std::lock_guard lock(global().shadow().mutex());
  const GlobalRecord* last = global().shadow().last_change(address);
  if (!last) return "; nothing has changed it";
  return fmt::format("; changed last by {}{}", op_name(kernel(), ir::OpId(last->op)),
                     position_text(kernel()[ir::OpId(last->op)].loc));
}

}  // namespace tegula::sim
