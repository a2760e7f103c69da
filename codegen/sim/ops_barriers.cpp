// Named barriers, mbarriers, fences and register reallocation.
#include <fmt/format.h>

#include "codegen/sim/cta.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

constexpr std::int64_t kMaxTx = (1 << 20) - 1;  // PTX ISA, "mbarrier": range of the tx-count

std::int64_t padded_threads(const Warp& w) { return std::int64_t{w.cta.agents.warps} * kLanes; }

/// One warp arrives. Returns true if it is the last.
bool arrive(Warp& w, const Instr& i, NamedBarrier& b, std::int64_t id) {
  const std::int64_t threads =
      i.op->attrs.i(AttrName::count) ? i.op->attrs.i(AttrName::count) : padded_threads(w);
  if (b.arrived == 0) {
    b.threads = threads;
    b.first_op = i.id;
  }
  if (threads != b.threads)
    w.cta.report(w, i, Detector::BarrierCount,
                 fmt::format("barrier {} is used with {} and with {} threads at once", id,
                             b.threads, threads),
                 -1, 0, b.first_op);
  if (threads % kLanes != 0)
    w.cta.report(w, i, Detector::BarrierCount,
                 fmt::format("barrier {} counts {} threads, not whole warps", id, threads));
  b.arriving.join(w.known);
  w.cta.tick(w);
  b.arrived += kLanes;
  if (b.arrived < b.threads) return false;
  b.arrived = 0;
  ++b.generation;
  b.done = std::move(b.arriving);
  b.arriving.clear();
  return true;
}

NamedBarrier& named_barrier(Warp& w, const Instr& i, std::int64_t& id) {
  w.cta.must_be_defined(w, i, i.in[0], "the barrier number");
  id = w.cta.uniform(w, i, i.in[0]);
  if (id < 0 || id >= ir::kNamedBarriers) {
    w.cta.report(w, i, Detector::BarrierCount, fmt::format("there is no barrier {}: 0 to 15", id));
    id &= 15;
  }
  return w.cta.named[static_cast<std::size_t>(id)];
}

}  // namespace

namespace {

std::string describe_barrier(Warp& w) {
  const NamedBarrier& b = w.cta.named[static_cast<std::size_t>(w.waiting.subject)];
  return fmt::format("barrier {} ({} of {} threads have arrived)", w.waiting.subject, b.arrived,
                     b.threads);
}

std::string describe_mbarrier(Warp& w) {
  const Mbarrier& b = w.cta.mbarriers.at(static_cast<std::uint32_t>(w.waiting.subject));
  return fmt::format(
      "parity {} of mbarrier {:#x} (phase {}: {} of {} arrivals and {} bytes missing)",
      w.waiting.detail, b.address, b.phase, b.pending, b.count, b.tx);
}

std::string describe_registers(Warp& w) {
  return fmt::format("{} free registers ({} are free)", w.waiting.subject, w.cta.free_registers);
}

}  // namespace

Step sim_BarSync(Warp& w, const Instr& i) {
  std::int64_t id = 0;
  NamedBarrier& b = named_barrier(w, i, id);
  if (w.barrier_generation < 0) {
    const std::int64_t generation = b.generation;
    if (!arrive(w, i, b, id)) {
      w.barrier_generation = generation;
      w.waiting = {describe_barrier, i.id, id};
      return Step::Blocked;
    }
  } else if (w.barrier_generation == b.generation) {
    w.waiting = {describe_barrier, i.id, id};
    return Step::Blocked;
  }
  w.barrier_generation = -1;
  w.known.join(b.done);
  w.cta.sync_lanes(w);
  return Step::Next;
}

/// Lanes run in lockstep here; only the order of their accesses matters.
Step sim_WarpSync(Warp& w, const Instr&) {
  w.cta.sync_lanes(w);
  return Step::Next;
}

Step sim_BarArrive(Warp& w, const Instr& i) {
  std::int64_t id = 0;
  NamedBarrier& b = named_barrier(w, i, id);
  arrive(w, i, b, id);
  return Step::Next;
}

// ---- mbarriers ----------------------------------------------------------------------------------

void Cta::overwrites_barrier(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes,
                             int lane) {
  const auto it = mbarriers.lower_bound(address < 8 ? 0 : address - 7);
  if (it == mbarriers.end() || it->first >= address + bytes) return;
  report(w, i, Detector::MbarrierMisuse,
         fmt::format("{} writes into the mbarrier at {:#x}", op_name(kernel(), i.id), it->first),
         lane, address, it->second.init_op);
}

Mbarrier* Cta::mbarrier(Warp& w, const Instr& i, std::uint32_t address, int lane) {
  const auto it = mbarriers.find(address);
  if (it == mbarriers.end()) {
    report(w, i, Detector::MbarrierMisuse,
           fmt::format("{} uses shared address {:#x}, where no mbarrier was initialised",
                       op_name(kernel(), i.id), address),
           lane, address);
    return nullptr;
  }
  Mbarrier& b = it->second;
  if (!w.known.generic.covers(agents.lanes(b.init_warp), b.init_tick))
    report(w, i, Detector::MbarrierMisuse,
           fmt::format("no barrier orders {} after the initialisation of mbarrier {:#x}",
                       op_name(kernel(), i.id), address),
           lane, address, b.init_op);
  return &b;
}

void Cta::complete_phase(Mbarrier& b) {
  while (b.pending == 0 && b.tx == 0) {
    if (b.copies != 0 || b.expected != b.delivered)
      findings.add({Detector::TxMismatch, b.expect_op, b.copy_op, -1, -1, b.address},
                   fmt::format("phase {} of mbarrier {:#x} is over after {} expected bytes while "
                               "TMA loads of it are in flight",
                               b.phase, b.address, b.expected));
    b.arriving.generic.raise(agents.mbarrier(b.number), b.phase + 1);
    b.done.join(b.arriving);
    b.arriving.clear();
    b.pending = b.count;
    b.expected = b.delivered = 0;
    ++b.phase;
  }
}

namespace {

void arrive_lanes(Warp& w, const Instr& i, std::int64_t bytes) {
  w.cta.must_be_defined(w, i, i.in[0], "the mbarrier address");
  LaneMask lanes = w.mask;
  if (i.in.size() > 1) {
    w.cta.must_be_defined(w, i, i.in[1], "the predicate");
    lanes &= w.bits(i.in[1]);
  }
  const bool of_cluster = i.op->attrs.s(AttrName::scope) == "cluster";
  for_lanes(lanes, [&](int lane) {
    auto address = static_cast<std::uint32_t>(w.cells(i.in[0])[lane].i);
    Cta* const owner = of_cluster ? w.cta.map_cluster_address(w, i, address, lane) : &w.cta;
    Mbarrier* b = owner ? owner->mbarrier(w, i, address, lane) : nullptr;
    if (!b) return;
    if (b->pending <= 0) {
      w.cta.report(w, i, Detector::MbarrierMisuse,
                   fmt::format("mbarrier {:#x} gets more than its {} arrivals in phase {}", address,
                               b->count, b->phase),
                   lane, address, b->init_op);
      return;
    }
    if (bytes != 0) {
      if (bytes > kMaxTx)
        w.cta.report(w, i, Detector::TxMismatch,
                     fmt::format("{} bytes are expected, at most {} can be", bytes, kMaxTx), lane,
                     address);
      b->tx += bytes;
      b->expected += bytes;
      b->expect_op = i.id;
    }
    LaneMask alike = 0;  // lanes that arrive at the same mbarrier
    for_lanes(lanes, [&](int other) {
      if (w.cells(i.in[0])[other].i == w.cells(i.in[0])[lane].i) alike |= LaneMask{1} << other;
    });
    ++owner->effects;
    w.cta.release(w, alike, b->arriving);
    --b->pending;
    owner->complete_phase(*b);
  });
  if (lanes != 0) w.cta.tick(w);
}

}  // namespace

Step sim_MbarInit(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the mbarrier address");
  for_lanes(w.mask, [&](int lane) {
    const auto address = static_cast<std::uint32_t>(w.cells(i.in[0])[lane].i);
    if (!w.cta.shared_access(w, i, address, 8, lane)) return;
    if (w.cta.mbarriers.contains(address)) {
      w.cta.report(w, i, Detector::MbarrierMisuse,
                   fmt::format("the mbarrier at {:#x} is initialised twice", address), lane,
                   address, w.cta.mbarriers[address].init_op);
      return;
    }
    Mbarrier b;
    b.number = static_cast<int>(w.cta.mbarriers.size());
    if (b.number >= w.cta.agents.mbarriers())
      throw InternalError("sim: too many mbarriers for a kernel with clusters");
    b.address = address;
    b.count = b.pending = std::max<std::int64_t>(1, i.op->attrs.i(AttrName::count, 1));
    b.init_op = i.id;
    b.init_warp = w.index;
    b.init_tick = w.known.generic.at(w.cta.agents.lanes(w.index));
    w.cta.mbarriers.emplace(address, std::move(b));
  });
  return Step::Next;
}

Step sim_MbarArrive(Warp& w, const Instr& i) {
  arrive_lanes(w, i, 0);
  return Step::Next;
}

Step sim_MbarExpectTx(Warp& w, const Instr& i) {
  arrive_lanes(w, i, i.op->attrs.i(AttrName::bytes));
  return Step::Next;
}

Step sim_MbarWait(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the mbarrier address");
  w.cta.must_be_defined(w, i, i.in[1], "the parity");
  std::array<Mbarrier*, kLanes> passed{};
  std::size_t n = 0;
  bool blocked = false;
  for_lanes(w.mask, [&](int lane) {
    const auto address = static_cast<std::uint32_t>(w.cells(i.in[0])[lane].i);
    const auto parity = static_cast<std::uint32_t>(w.cells(i.in[1])[lane].i) & 1;
    Mbarrier* b = w.cta.mbarrier(w, i, address, lane);
    if (!b) return;
    if ((b->phase & 1) == parity) {
      blocked = true;
      w.waiting = {describe_mbarrier, i.id, address, parity};
    } else if (n == 0 || passed[n - 1] != b) {
      passed[n++] = b;
    }
  });
  if (blocked) return Step::Blocked;
  for (std::size_t k = 0; k < n; ++k) {
    Mbarrier& b = *passed[k];
    const auto [it, is_first] = w.cta.first_wait(w.index, b.number);
    it->stale = b.phase == 0 || (!is_first && it->phase == b.phase);
    it->phase = b.phase;
    b.waited_phase = std::max(b.waited_phase, b.phase);
    w.known.join(b.done);
  }
  return Step::Next;
}

// ---- fences -------------------------------------------------------------------------------------

Step sim_FenceMbarInit(Warp& w, const Instr&) {
  for (auto& [address, b] : w.cta.mbarriers) b.async_visible |= b.init_warp == w.index;
  return Step::Next;
}

// Kernels run one after another in the simulator.
Step sim_GridDepWait(Warp&, const Instr&) { return Step::Next; }
Step sim_GridDepLaunch(Warp&, const Instr&) { return Step::Next; }

Step sim_FenceProxyAsync(Warp& w, const Instr& i) {
  if (i.op->attrs.s(AttrName::kind) == "global") {
    w.known.proxied_global.join(w.known.generic);
    w.cta.tick(w);
    return Step::Next;
  }
  for (auto& [address, b] : w.cta.mbarriers) b.async_visible |= b.init_warp == w.index;
  w.known.async_proxy.join(w.known.generic);
  w.cta.tick(w);
  return Step::Next;
}

// ---- registers ----------------------------------------------------------------------------------

Step sim_SetMaxNReg(Warp& w, const Instr& i) {
  const auto list = i.op->attrs.ints(AttrName::regs);
  const std::int64_t regs = list.empty() ? 0 : list[0];
  const bool grows = i.op->attrs.s(AttrName::mode) == "inc";
  std::int64_t& warp_registers = w.cta.warp_registers[static_cast<std::size_t>(w.index)];
  if (regs < 24 || regs > 256 || regs % 8 != 0) {
    w.cta.report(w, i, Detector::SetMaxNReg,
                 fmt::format("{} registers: must be a multiple of 8 from 24 to 256", regs));
    return Step::Next;
  }
  if (grows ? regs < warp_registers : regs > warp_registers)
    w.cta.report(w, i, Detector::SetMaxNReg,
                 fmt::format("setmaxnreg.{} to {}, but the warp has {} registers per thread",
                             grows ? "inc" : "dec", regs, warp_registers));
  const std::int64_t needed = (regs - warp_registers) * kLanes;
  if (needed > w.cta.free_registers) {
    w.waiting = {describe_registers, i.id, needed};
    return Step::Blocked;
  }
  w.cta.free_registers -= needed;
  warp_registers = regs;
  return Step::Next;
}

}  // namespace tegula::sim
