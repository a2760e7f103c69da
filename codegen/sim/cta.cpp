// Runs a CTA: the scheduler, the clock of asynchronous completion, and the end of a run.
#include "codegen/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tegula::sim {

namespace {

constexpr int kMaxQuantum = 24;  // instructions a warp runs before another may be chosen

int warp_count(const DecodedKernel& p) { return (p.threads() + kLanes - 1) / kLanes; }

/// Registers of a thread at entry: as many as the assembler may use with one CTA per SM.
std::int64_t entry_registers(const ir::TargetRow& target, int threads) {
  const int fair = target.registers_per_sm / threads;
  return std::min(target.max_registers, fair / target.register_unit * target.register_unit);
}

/// Numbers the agents of a CTA of a cluster; clocks grow with the numbers.
Agents agents_of(const DecodedKernel& p, int rank) {
  constexpr int kMbarriers = 64;
  Agents a{warp_count(p)};
  if (p.kernel().info.cluster == 1) return a;
  a.stride = 5 * a.warps + a.groups() + kMbarriers;
  a.first = rank * a.stride;
  return a;
}

bool later_than(const Event& a, const Event& b) {
  return std::pair{a.due, a.order} > std::pair{b.due, b.order};
}

}  // namespace

Cta::Cta(Launch& l, Cluster& c, int rank_in_cluster, std::array<int, 3> coordinates)
    : launch(l),
      cluster(c),
      rank(rank_in_cluster),
      id(coordinates),
      agents(agents_of(l.program, rank_in_cluster)),
      shared(static_cast<std::size_t>(l.program.kernel().info.smem_bytes), rank_in_cluster),
      findings(l.program, l.options, coordinates),
      warpgroups(static_cast<std::size_t>(agents.groups())),
      rng_(l.options.seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(cta_number())),
      shadow_(shared.size(), agents, [this](const Conflict& c) { conflict(c); }),
      on_global_conflict_([this](const GlobalConflict& c) { global_conflict(c); }) {
  const int threads = l.program.threads();
  for (int w = 0; w < agents.warps; ++w) {
    const int lanes = std::min(kLanes, threads - w * kLanes);
    warps_.emplace_back(*this, l.program, w,
                        static_cast<LaneMask>((std::uint64_t{1} << lanes) - 1));
    tick(warps_.back());
  }
  const ir::TargetRow& target = *l.program.kernel().info.target;
  const std::int64_t at_entry = entry_registers(target, threads);
  warp_registers.assign(static_cast<std::size_t>(agents.warps), at_entry);
  free_registers = target.registers_per_sm - at_entry * kLanes * agents.warps;
  for (Warp& w : warps_) ready_.push_back(&w);
  bind_arguments();
}

std::int64_t Cta::cta_number() const {
  return (std::int64_t{id[2]} * launch.grid[1] + id[1]) * launch.grid[0] + id[0];
}

void Cta::bind_arguments() {
  const auto params = launch.program.params();
  for (Warp& w : warps_) {
    for (std::size_t p = 0; p < params.size(); ++p) {
      const SlotInfo& info = launch.program.slot(params[p]);
      ir::Cell c{0};
      const SimArg& arg = launch.args[p];
      const bool is_float_param = !info.elem.pointer && is_float(info.elem.dtype);
      if (const auto* map = std::get_if<const codegen::TensorMap*>(&arg))
        c.i = reinterpret_cast<std::intptr_t>(*map);
      else if (const auto* f = std::get_if<double>(&arg))
        c.f = *f;
      else if (is_float_param)
        c.f = static_cast<double>(std::get<std::int64_t>(arg));
      else
        c.i = std::get<std::int64_t>(arg);
      if (!info.elem.pointer) c = ir::canonical(c, info.elem.dtype);
      std::fill_n(w.cells(params[p]), info.regs * kLanes, c);
    }
  }
}

/// Returns true if the CTA must stop; the watchdog reports the reason.
bool Cta::stop_early() {
  if (trapped) return true;
  if (now > static_cast<std::uint64_t>(launch.options.max_steps)) {
    Warp& w = ready_.empty() ? *blocked_.front() : *ready_.front();
    report(w, launch.program.code()[w.pc], Detector::Watchdog,
           fmt::format("still running after {} instructions", now));
    return true;
  }
  return false;
}

CtaStatus Cta::run(std::int64_t instructions) {
  const CtaStatus turn = run_warps(instructions);
  over_ = turn == CtaStatus::Finished;
  if (over_ && complete_) check_remote_accesses();
  return turn;
}

CtaStatus Cta::run_warps(std::int64_t instructions) {
  const auto wake = [&] {
    for (Warp* w : blocked_) w->waiting.text = nullptr;  // it may make progress now
    ready_.insert(ready_.end(), blocked_.begin(), blocked_.end());
    blocked_.clear();
  };
  const std::uint64_t until = now + static_cast<std::uint64_t>(instructions);
  ++effects;  // other CTAs may have changed what loops wait for
  // Other CTAs have run in the meantime.
  if (cluster.size() > 1) wake();
  while (!ready_.empty() || !blocked_.empty()) {
    if (stop_early()) return CtaStatus::Finished;
    if (ready_.empty() && events_.empty()) return CtaStatus::Blocked;
    if (now >= until) return CtaStatus::Runnable;
    if (ready_.empty()) advance_to_next_event();
    if (fire_due_events()) wake();
    if (ready_.empty()) continue;
    const std::size_t pick = random(ready_.size());
    Warp& w = *ready_[pick];
    const bool progressed = run_warp(w);
    const bool is_blocked = w.waiting.text != nullptr;
    if (w.done || is_blocked) {
      ready_[pick] = ready_.back();
      ready_.pop_back();
    }
    if (progressed) wake();  // others may wait for an effect of these instructions
    if (is_blocked) blocked_.push_back(&w);
    if (w.spin.loop && w.spin.effects == effects && is_spinning()) return CtaStatus::Spinning;
  }
  complete_ = true;
  return CtaStatus::Finished;
}

/// Returns true if no warp can make progress alone. A waiting warp that has moved since the
/// spinning warps began an iteration, e.g. at a barrier in their loop, may still end the loop.
bool Cta::is_spinning() const {
  if (!events_.empty()) return false;
  const auto spins = [&](const Warp& w) { return w.spin.loop && w.spin.effects == effects; };
  std::uint64_t since = now;
  for (const Warp& w : warps_)
    if (!w.done && spins(w)) since = std::min(since, w.spin.since);
  return std::ranges::all_of(warps_, [&](const Warp& w) {
    return w.done || spins(w) || (w.waiting.text != nullptr && w.moved <= since);
  });
}

std::vector<Finding> Cta::finish() {
  while (advance_to_next_event()) fire_due_events();
  if (complete_) report_exit_state();
  for (const Warp& w : warps_) launch.counters.instructions += static_cast<std::int64_t>(w.steps);
  ++launch.counters.ctas;
  return findings.take();
}

/// Runs a warp for a random number of instructions. Returns true if it executed any.
bool Cta::run_warp(Warp& w) {
  const auto code = launch.program.code();
  const int quantum = 1 + static_cast<int>(random(kMaxQuantum));
  w.waiting.text = nullptr;
  for (int n = 0; n < quantum; ++n) {
    const Instr& i = code[w.pc];
    if (i.convergent && w.mask != w.alive)
      report(w, i, Detector::Divergence,
             fmt::format("{} runs with {} of {} lanes", op_name(kernel(), i.id),
                         std::popcount(w.mask), std::popcount(w.alive)));
    const Step step = i.exec(w, i);
    if (step == Step::Blocked) return n > 0;
    if (w.done) return true;
    if (step == Step::Next) ++w.pc;
    ++w.steps;
    w.moved = ++now;
    ++executed_;
  }
  return true;
}

void Cta::post_event(std::function<void()> f) {
  const auto delay = 1 + random(static_cast<std::uint64_t>(std::max(1, launch.options.max_delay)));
  events_.push_back({now + delay, event_order_++, std::move(f)});
  std::push_heap(events_.begin(), events_.end(), later_than);
}

bool Cta::fire_due_events() {
  bool fired = false;
  while (!events_.empty() && events_.front().due <= now) {
    std::pop_heap(events_.begin(), events_.end(), later_than);
    const Event e = std::move(events_.back());
    events_.pop_back();
    e.run();
    fired = true;
  }
  return fired;
}

bool Cta::advance_to_next_event() {
  if (events_.empty()) return false;
  now = std::max(now, events_.front().due);
  return true;
}

void Cta::tick(Warp& w) {
  const Tick next = w.known.generic.at(agents.lanes(w.index)) + 1;
  w.known.generic.raise(agents.lanes(w.index), next);
  w.known.generic.raise(agents.lane_0(w.index), next);
}

void Cta::sync_lanes(Warp& w) {
  w.last_sync_tick = w.known.generic.at(agents.lanes(w.index));
  ++w.warp_syncs;
  tick(w);
}

void Cta::release(Warp& w, LaneMask lanes, VisibleClocks& to) {
  if (lanes == w.alive) return to.join(w.known);
  VisibleClocks released = w.known;
  released.generic.lower(agents.lanes(w.index), w.last_sync_tick);
  if ((lanes & 1) == 0) released.generic.lower(agents.lane_0(w.index), w.last_sync_tick);
  to.join(released);
}

void Cta::report(Warp& w, const Instr& i, Detector d, std::string text, int lane,
                 std::uint64_t address, ir::OpId other) {
  findings.add({d, i.id, other, w.index, lane, address}, std::move(text));
}

// ---- end of a run -------------------------------------------------------------------------------

std::string Cta::describe_wait(Warp& w) {
  const Loc loc = w.waiting.op ? kernel()[w.waiting.op].loc : Loc();
  return fmt::format("warp {} waits for {}{}", w.index, w.waiting.text(w), position_text(loc));
}

void Cta::report_deadlock() {
  std::string text = "every warp waits and nothing is in flight";
  const Warp* first = nullptr;
  for (Warp& w : warps_) {
    if (w.done) continue;
    if (!first) first = &w;
    text += "; " + describe_wait(w);
  }
  for (const auto& [address, b] : mbarriers) {
    if (b.pending != 0 || b.tx == 0) continue;
    findings.add({Detector::TxMismatch, b.expect_op, b.copy_op, -1, -1, address},
                 fmt::format("phase {} of mbarrier {:#x} expects {} bytes, {} were delivered",
                             b.phase, address, b.expected, b.delivered));
  }
  for (const Warp& w : warps_)
    if (!w.done && kernel()[w.waiting.op].opcode == ir::Opcode::SetMaxNReg)
      findings.add({Detector::SetMaxNReg, w.waiting.op, {}, w.index},
                   fmt::format("the warps together request more than {} registers",
                               launch.program.kernel().info.target->registers_per_sm));
  findings.add({Detector::Deadlock,
                first->waiting.op,
                {},
                first->index,
                -1,
                static_cast<std::uint64_t>(first->waiting.subject)},
               text);
}

void Cta::report_spin() {
  const Warp* spinning = nullptr;
  for (const Warp& w : warps_) {
    if (!w.spin.loop || w.spin.effects != effects) continue;
    if (!spinning || (w.spin.read && !spinning->spin.read)) spinning = &w;
  }
  if (!spinning) return report_deadlock();
  const Spin& s = spinning->spin;
  std::string text = "nothing that the loop's condition depends on changes";
  if (s.read)
    text = fmt::format(
        "the loop waits for {}, which contains {} and no thread changes: {}{} reads it{}",
        global().describe(s.address), s.value, op_name(kernel(), s.read),
        position_text(kernel()[s.read].loc), last_change(s.address));
  findings.add({Detector::Deadlock, s.loop, s.read, spinning->index, -1, s.address}, text);
}

void Cta::report_exit_state() {
  for (Warp& w : warps_) {
    if (w.bulk.newest > w.bulk.waited)
      findings.add({Detector::AsyncAtExit, w.bulk.last, {}, w.index},
                   "the warp exits without waiting until its TMA stores have read their source");
    if (!w.wgmma.in_flight.empty())
      findings.add(
          {Detector::AsyncAtExit, w.wgmma.accumulators[w.wgmma.in_flight[0]]->op, {}, w.index},
          "the warp exits with a wgmma in flight");
  }
  for (const auto& [address, b] : mbarriers) {
    if (b.tx != 0)
      findings.add({Detector::TxMismatch, b.expect_op, b.copy_op, -1, -1, address},
                   fmt::format("mbarrier {:#x} is left with {} bytes missing in phase {}", address,
                               b.tx, b.phase));
    if (b.copy_op && b.waited_phase < b.copy_phase)
      findings.add(
          {Detector::AsyncAtExit, b.copy_op, {}, -1, -1, address},
          fmt::format("no thread waited for the last TMA load of mbarrier {:#x}", address));
  }
  for (std::size_t n = 1; n < warp_registers.size(); ++n)
    if (n % 4 != 0 && warp_registers[n] != warp_registers[n - 1])
      findings.add({Detector::SetMaxNReg, {}, {}, static_cast<int>(n)},
                   "the warps of a warpgroup end with different register counts");
  for (std::size_t n = 0; n < named.size(); ++n)
    if (named[n].arrived != 0)
      findings.add({Detector::BarrierCount, named[n].first_op, {}},
                   fmt::format("barrier {} is left with {} of {} threads", n, named[n].arrived,
                               named[n].threads));
}

}  // namespace tegula::sim
