// Loads, stores, atomics and cp.async of threads.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "codegen/sim/cta.h"
#include "codegen/sim/elements.h"
#include "ir/eval/atomic_kind.h"
#include "tegula/error.h"

namespace tegula::sim {
namespace {

/// Active lanes in which the predicate of address `a` is true.
LaneMask predicated(Warp& w, const Instr& i, std::size_t operand, std::uint32_t a) {
  if (i.in.size() <= operand) return w.mask;
  const Slot p = i.in[operand];
  return w.mask & w.bits(p, w.info(p).regs == 1 ? 0 : a);
}

/// Addresses must be defined only where the predicate is true: padding has no address.
void check_operands(Warp& w, const Instr& i, std::size_t predicate) {
  if (i.in.size() > predicate) w.cta.must_be_defined(w, i, i.in[predicate], "the predicate");
  const Slot addresses = i.in[0];
  if (!w.has_poison(addresses)) return;
  LaneMask lanes = 0;
  for (std::uint32_t a = 0; a < w.info(addresses).regs; ++a)
    lanes |= w.poison(addresses)[a] & predicated(w, i, predicate, a);
  w.cta.must_be_defined(w, i, addresses, "the address", lanes);
}

AccessCounter& counter(Warp& w, const Instr& i) { return w.cta.launch.accesses[i.index]; }

/// Counts the 32-byte sectors that one warp-wide global access touches, and the minimum number that
/// could hold its bytes.
void count_sectors(Warp& w, const Instr& i, std::uint32_t a, LaneMask lanes, std::uint64_t bytes) {
  if (lanes == 0) return;
  std::array<std::uint64_t, 2 * kLanes> sectors;
  std::size_t n = 0;
  for_lanes(lanes, [&](int lane) {
    const auto address = static_cast<std::uint64_t>(w.cell(i.in[0], a, lane).i);
    sectors[n++] = address / 32;
    if ((address + bytes - 1) / 32 != address / 32) sectors[n++] = (address + bytes - 1) / 32;
  });
  std::sort(sectors.begin(), sectors.begin() + n);
  AccessCounter& c = counter(w, i);
  ++c.requests;
  c.sectors += std::unique(sectors.begin(), sectors.begin() + n) - sectors.begin();
  // Lanes may share bytes (broadcast), so the minimum is that of the distinct addresses.
  std::array<std::uint64_t, kLanes> addresses;
  std::size_t m = 0;
  for_lanes(lanes, [&](int lane) {
    addresses[m++] = static_cast<std::uint64_t>(w.cell(i.in[0], a, lane).i);
  });
  std::sort(addresses.begin(), addresses.begin() + m);
  const auto distinct = static_cast<std::uint64_t>(
      std::unique(addresses.begin(), addresses.begin() + m) - addresses.begin());
  c.ideal_sectors += static_cast<std::int64_t>((distinct * bytes + 31) / 32);
}

}  // namespace

void count_wavefronts(Warp& w, const Instr& i, std::span<const std::uint32_t> addresses,
                      int bytes) {
  if (addresses.empty()) return;
  const Wavefronts f = wavefronts(addresses, bytes);
  AccessCounter& c = counter(w, i);
  ++c.requests;
  c.wavefronts += f.taken;
  c.ideal_wavefronts += f.ideal;
}

namespace {

void count_shared(Warp& w, const Instr& i, std::uint32_t a, LaneMask lanes, int bytes) {
  std::array<std::uint32_t, kLanes> addresses;
  std::size_t n = 0;
  for_lanes(lanes, [&](int lane) {
    addresses[n++] = static_cast<std::uint32_t>(w.cell(i.in[0], a, lane).i);
  });
  count_wavefronts(w, i, std::span(addresses.data(), n), bytes);
}

}  // namespace

// ---- global -------------------------------------------------------------------------------------

namespace {

/// A warp's atomic access, exclusive of all others: applies its memory order to each lane's access.
class AtomicAccess {
 public:
  AtomicAccess(Warp& w, const Instr& i)
      : w_(w),
        i_(i),
        sem_(i.op->attrs.s(AttrName::sem)),
        scope_(i.op->attrs.s(AttrName::scope)),
        atomics_(w.cta.global().atomics()),
        shadow_(w.cta.global_lock()) {
    if (acquires() || releases()) shadow_.lock();
  }
  bool acquires() const { return sem_ == "acquire" || sem_ == "acq_rel"; }
  bool releases() const { return sem_ == "release" || sem_ == "acq_rel"; }

  /// Call before a lane's access.
  void touch(std::uint64_t address, std::uint32_t size, int lane) {
    if (acquires()) w_.cta.acquire_global(w_, address, scope_);
    w_.cta.touch_global(w_, i_, shadow_, address, size, lane, GlobalUse::Atomic);
    if (releases()) w_.cta.release_global(w_, LaneMask{1} << lane, address, scope_);
  }
  /// Call after the access of all lanes.
  void end(bool changes) {
    if (releases() && w_.mask != 0) w_.cta.tick(w_);
    if (!changes) return;
    ++w_.cta.effects;
    w_.cta.global().has_changed();
  }

 private:
  Warp& w_;
  const Instr& i_;
  std::string_view sem_, scope_;
  std::lock_guard<std::mutex> atomics_;
  Cta::GlobalLock shadow_;
};

void report_poison(Warp& w, const Instr& i, Slot value, std::uint32_t reg, int lane,
                   std::uint64_t address, std::string_view happens) {
  if (!((w.poison(value)[reg] >> lane) & 1) || !w.has_poison(value)) return;
  w.cta.report_poison(w, i, w.poison_origin(value), fmt::format("is {} global memory", happens),
                      lane, address);
}

/// Calls visit(access, register, lane, address) for each element that the warp accesses atomically.
/// The call returns true if it changes memory. An access of `run` elements uses the address and
/// predicate of the first.
template <class Visit>
Step access_atomically(Warp& w, const Instr& i, std::size_t predicate, std::uint32_t run,
                       const Visit& visit) {
  const auto size =
      static_cast<std::uint32_t>(element_bytes(w.info(i.out.empty() ? i.in[1] : i.out[0]).elem));
  AtomicAccess access(w, i);
  bool changes = false;
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const std::uint32_t position = a % run, first = a - position;
    const LaneMask lanes = predicated(w, i, predicate, first);
    if (position == 0) count_sectors(w, i, a, lanes, run * size);
    if (!i.out.empty()) w.poison(i.out[0])[a] = w.mask & ~lanes;
    for_lanes(lanes, [&](int lane) {
      const auto address =
          static_cast<std::uint64_t>(w.cell(i.in[0], first, lane).i) + position * size;
      if (w.cta.global_access(w, i, address, position == 0 ? run * size : size, lane))
        changes |= visit(access, a, lane, address);
    });
  }
  if (!i.out.empty()) w.wrote_poison(i.out[0], i.id);
  access.end(changes);
  return Step::Next;
}

Step load_atomically(Warp& w, const Instr& i) {
  const Slot out = i.out[0];
  const ir::Elem e = w.info(out).elem;
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  return access_atomically(
      w, i, 1, 1, [&](AtomicAccess& access, std::uint32_t a, int lane, std::uint64_t address) {
        access.touch(address, size, lane);
        w.cell(out, a, lane) = load_cell(reinterpret_cast<const std::uint8_t*>(address), e);
        w.has_read(i.id, address, w.cell(out, a, lane));
        return false;
      });
}

Step store_atomically(Warp& w, const Instr& i) {
  const Slot value = i.in[1];
  const ir::Elem e = w.info(value).elem;
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  return access_atomically(
      w, i, 2, 1, [&](AtomicAccess& access, std::uint32_t a, int lane, std::uint64_t address) {
        const std::uint32_t reg = w.info(value).regs == 1 ? 0 : a;
        report_poison(w, i, value, reg, lane, address, "stored to");
        access.touch(address, size, lane);
        w.cta.global().unstored().store(address, size);
        auto* p = reinterpret_cast<std::uint8_t*>(address);
        std::array<std::uint8_t, 8> before;
        std::memcpy(before.data(), p, size);
        store_cell(p, w.cell(value, reg, lane), e);
        return std::memcmp(before.data(), p, size) != 0;
      });
}

}  // namespace

Step sim_LdGlobal(Warp& w, const Instr& i) {
  check_operands(w, i, 1);
  if (i.op->attrs.has(AttrName::sem)) return load_atomically(w, i);
  const Slot out = i.out[0];
  const ir::Elem e = w.info(out).elem;
  const auto width = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::width, 1));
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  const bool has_fill = i.in.size() > 2;
  Cta::GlobalLock lock = w.cta.global_lock();
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const LaneMask lanes = predicated(w, i, 1, a);
    count_sectors(w, i, a, lanes, width * size);
    LaneMask missing = has_fill ? 0 : w.mask & ~lanes;
    for_lanes(lanes, [&](int lane) {
      const auto address = static_cast<std::uint64_t>(w.cell(i.in[0], a, lane).i);
      if (!w.cta.global_access(w, i, address, width * size, lane)) {
        missing |= LaneMask{1} << lane;
        return;
      }
      const auto* p = reinterpret_cast<const std::uint8_t*>(address);
      for (std::uint32_t n = 0; n < width; ++n)
        w.cell(out, a * width + n, lane) = load_cell(p + n * size, e);
      w.cta.touch_global(w, i, lock, address, width * size, lane, GlobalUse::Read);
      w.has_read(i.id, address, w.cell(out, a * width, lane));
    });
    for (std::uint32_t n = 0; n < width; ++n) {
      const std::uint32_t reg = a * width + n;
      w.poison(out)[reg] = missing;
      if (!has_fill) continue;
      const std::uint32_t fill_reg = w.info(i.in[2]).regs == 1 ? 0 : reg;
      for_lanes(w.mask & ~lanes,
                [&](int lane) { w.cell(out, reg, lane) = w.cell(i.in[2], fill_reg, lane); });
      w.poison(out)[reg] |= w.poison(i.in[2])[fill_reg] & ~lanes;
    }
  }
  w.wrote_poison(out, i.id);
  return Step::Next;
}

Step sim_StGlobal(Warp& w, const Instr& i) {
  check_operands(w, i, 2);
  if (i.op->attrs.has(AttrName::sem)) return store_atomically(w, i);
  const Slot value = i.in[1];
  const ir::Elem e = w.info(value).elem;
  const auto width = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::width, 1));
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  ++w.cta.effects;
  Cta::GlobalLock lock = w.cta.global_lock();
  const bool updates = w.cta.updates(i);
  std::vector<std::uint64_t> updated;  // elements that this instruction has changed
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const LaneMask lanes = predicated(w, i, 2, a);
    count_sectors(w, i, a, lanes, width * size);
    for_lanes(lanes, [&](int lane) {
      const auto address = static_cast<std::uint64_t>(w.cell(i.in[0], a, lane).i);
      if (!w.cta.global_access(w, i, address, width * size, lane)) return;
      w.cta.global().unstored().store(address, width * size);
      auto* p = reinterpret_cast<std::uint8_t*>(address);
      for (std::uint32_t n = 0; n < width; ++n) {
        const std::uint32_t reg = a * width + n;
        report_poison(w, i, value, reg, lane, address, "stored to");
        std::array<std::uint8_t, 8> bytes;
        store_cell(bytes.data(), w.cell(value, reg, lane), e);
        const bool is_same = std::memcmp(p + n * size, bytes.data(), size) == 0;
        const std::uint64_t element = address + n * size;
        if (is_same && std::ranges::find(updated, element) == updated.end()) continue;
        w.cta.check_repeat(w, i, lock, element, lane);
        if (updates) updated.push_back(element);
        std::memcpy(p + n * size, bytes.data(), size);
      }
      w.cta.touch_global(w, i, lock, address, width * size, lane, GlobalUse::Write);
    });
    for_lanes(w.mask & ~lanes, [&](int lane) {
      const auto address = static_cast<std::uint64_t>(w.cell(i.in[0], a, lane).i);
      for (std::uint32_t n = 0; n < width; ++n)
        w.cta.global().unstored().leave_out(i.id, address + n * size);
    });
  }
  w.cta.global().has_changed();
  return Step::Next;
}

Step sim_AtomGlobal(Warp& w, const Instr& i) {
  check_operands(w, i, 2);
  const Slot value = i.in[1], out = i.out[0];
  const ir::Elem e = w.info(value).elem;
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  const auto combine = ir::interp::combine_of(i.op->attrs.s(AttrName::kind, "add"));
  // A run of neighbors uses the address and predicate of its first element.
  const auto run = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::width, 1));
  return access_atomically(
      w, i, 2, run, [&](AtomicAccess& access, std::uint32_t a, int lane, std::uint64_t address) {
        report_poison(w, i, value, a, lane, address, "combined with");
        access.touch(address, size, lane);
        w.cta.global().unstored().store(address, size);
        auto* p = reinterpret_cast<std::uint8_t*>(address);
        const Cell old = load_cell(p, e);
        store_cell(p, combine(old, w.cell(value, a, lane), ir::held_as(e)), e);
        w.cell(out, a, lane) = old;
        w.has_read(i.id, address, old);
        return load_cell(p, e).i != old.i;
      });
}

Step sim_CasGlobal(Warp& w, const Instr& i) {
  check_operands(w, i, 3);
  const Slot expected = i.in[1], desired = i.in[2], out = i.out[0];
  const ir::Elem e = w.info(expected).elem;
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  return access_atomically(
      w, i, 3, 1, [&](AtomicAccess& access, std::uint32_t a, int lane, std::uint64_t address) {
        for (const Slot value : {expected, desired})
          report_poison(w, i, value, a, lane, address, "combined with");
        access.touch(address, size, lane);
        auto* p = reinterpret_cast<std::uint8_t*>(address);
        w.cell(out, a, lane) = load_cell(p, e);
        w.has_read(i.id, address, w.cell(out, a, lane));
        std::array<std::uint8_t, 8> wanted;
        store_cell(wanted.data(), w.cell(expected, a, lane), e);
        if (std::memcmp(p, wanted.data(), size) != 0) return false;
        w.cta.global().unstored().store(address, size);
        store_cell(p, w.cell(desired, a, lane), e);
        return std::memcmp(p, wanted.data(), size) != 0;
      });
}

// ---- shared -------------------------------------------------------------------------------------

namespace {

/// `find(address, bytes, lane)` returns the CTA whose memory is read, or null, and sets the address
/// there.
template <class Find>
Step load_shared(Warp& w, const Instr& i, const Find& find) {
  check_operands(w, i, 1);
  const Slot out = i.out[0];
  const ir::Elem e = w.info(out).elem;
  const auto width = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::width, 1));
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const LaneMask lanes = predicated(w, i, 1, a);
    count_shared(w, i, a, lanes, static_cast<int>(width * size));
    for (std::uint32_t n = 0; n < width; ++n) w.poison(out)[a * width + n] = w.mask & ~lanes;
    for_lanes(lanes, [&](int lane) {
      auto address = static_cast<std::uint32_t>(w.cell(i.in[0], a, lane).i);
      const LaneMask bit = LaneMask{1} << lane;
      Cta* const cta = find(address, width * size, lane);
      for (std::uint32_t n = 0; n < width; ++n) {
        const std::uint32_t element_address = address + n * size, reg = a * width + n;
        if (!cta || !cta->shared.all_valid(element_address, size)) w.poison(out)[reg] |= bit;
        if (cta) w.cell(out, reg, lane) = load_cell(cta->shared.at(element_address), e);
      }
    });
  }
  w.wrote_poison(out, i.id);
  return Step::Next;
}

}  // namespace

Step sim_LdShared(Warp& w, const Instr& i) {
  return load_shared(w, i, [&](std::uint32_t& address, std::uint32_t bytes, int lane) -> Cta* {
    if (!w.cta.shared_access(w, i, address, bytes, lane)) return nullptr;
    w.cta.generic_read(w, i, address, bytes, lane);
    return &w.cta;
  });
}

Step sim_LdCluster(Warp& w, const Instr& i) {
  return load_shared(w, i, [&](std::uint32_t& address, std::uint32_t bytes, int lane) {
    return w.cta.cluster_read(w, i, address, bytes, lane);
  });
}

void store_shared(Warp& w, const Instr& i, std::uint32_t address, const std::uint8_t* bytes,
                  std::uint32_t count, bool valid, int lane) {
  SharedMemory& shared = w.cta.shared;
  // Copies of a tile write the same bytes, including undefined padding.
  const std::uint8_t* known = shared.valid(address);
  const bool is_unchanged =
      std::all_of(known, known + count, [&](std::uint8_t v) { return (v != 0) == valid; }) &&
      (!valid || std::memcmp(shared.at(address), bytes, count) == 0);
  if (!is_unchanged) ++w.cta.effects;
  w.cta.generic_write(w, i, address, count, lane, is_unchanged);
  w.cta.overwrites_barrier(w, i, address, count, lane);
  std::memcpy(shared.at(address), bytes, count);
  std::memset(shared.valid(address), valid ? 1 : 0, count);
}

namespace {

/// Additions of one instruction to one address are separate atomic steps in any order. They do not
/// race, like writes of equal values.
void add_shared(Warp& w, const Instr& i, std::uint32_t address, std::int64_t addend, bool valid,
                int lane) {
  SharedMemory& shared = w.cta.shared;
  const ir::Elem e{DType::i32, false};
  constexpr std::uint32_t kBytes = 4;
  const bool is_defined = valid && shared.all_valid(address, kBytes);
  Cell sum = load_cell(shared.at(address), e);
  sum.i = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum.i + addend));
  if (addend != 0) ++w.cta.effects;
  w.cta.generic_write(w, i, address, kBytes, lane, true);
  w.cta.overwrites_barrier(w, i, address, kBytes, lane);
  store_cell(shared.at(address), sum, e);
  std::memset(shared.valid(address), is_defined ? 1 : 0, kBytes);
}

}  // namespace

Step sim_StShared(Warp& w, const Instr& i) {
  check_operands(w, i, 2);
  const bool adds = i.op->attrs.s(AttrName::kind) == "add";
  const Slot value = i.in[1];
  const ir::Elem e = w.info(value).elem;
  const auto width = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::width, 1));
  const auto size = static_cast<std::uint32_t>(element_bytes(e));
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const LaneMask lanes = predicated(w, i, 2, a);
    count_shared(w, i, a, lanes, static_cast<int>(width * size));
    for_lanes(lanes, [&](int lane) {
      const auto address = static_cast<std::uint32_t>(w.cell(i.in[0], a, lane).i);
      if (!w.cta.shared_access(w, i, address, width * size, lane)) return;
      for (std::uint32_t n = 0; n < width; ++n) {
        const Cell cell = w.cell(value, a * width + n, lane);
        const bool valid = !w.has_poison(value) || !((w.poison(value)[a * width + n] >> lane) & 1);
        if (adds) {
          add_shared(w, i, address, cell.i, valid, lane);
          continue;
        }
        std::uint8_t bytes[8];
        store_cell(bytes, cell, e);
        store_shared(w, i, address + n * size, bytes, size, valid, lane);
      }
    });
  }
  return Step::Next;
}

// ---- cp.async -----------------------------------------------------------------------------------

Step sim_CpAsync(Warp& w, const Instr& i) {
  check_operands(w, i, 2);
  w.cta.must_be_defined(w, i, i.in[1], "the global address");
  const auto bytes = static_cast<std::uint32_t>(i.op->attrs.i(AttrName::bytes, 16));
  const Agent agent = w.cta.agents.cp_async(w.index);
  const Tick group = w.cp_async.open;
  Cta& cta = w.cta;
  ++cta.effects;
  for (std::uint32_t a = 0; a < w.info(i.in[0]).regs; ++a) {
    const LaneMask reads = predicated(w, i, 2, a);
    count_shared(w, i, a, w.mask, static_cast<int>(bytes));
    for_lanes(w.mask, [&](int lane) {
      const auto to = static_cast<std::uint32_t>(w.cell(i.in[0], a, lane).i);
      const auto from = static_cast<std::uint64_t>(w.cell(i.in[1], a, lane).i);
      if (!cta.shared_access(w, i, to, bytes, lane)) return;
      std::array<std::uint8_t, 16> data{};
      if ((reads >> lane) & 1) {
        if (!cta.global_access(w, i, from, bytes, lane)) return;
        std::memcpy(data.data(), reinterpret_cast<const void*>(from), bytes);
        cta.touch_global(w, i, agent, group, from, bytes, GlobalUse::Read);
      }
      cta.engine_access(w, i, agent, group, false, to, bytes, true);
      cta.overwrites_barrier(w, i, to, bytes, lane);
      w.cp_async.issue(i.id);
      cta.post_event([&w, &cta, to, bytes, data, group] {
        std::memcpy(cta.shared.at(to), data.data(), bytes);
        std::memset(cta.shared.valid(to), 1, bytes);
        --w.cp_async.in_flight[group];
      });
    });
  }
  return Step::Next;
}

Step sim_CpAsyncCommit(Warp& w, const Instr&) {
  w.cp_async.commit();
  return Step::Next;
}

Step sim_CpAsyncWait(Warp& w, const Instr& i) {
  const Tick retired = w.cp_async.retired(i.op->attrs.i(AttrName::count));
  if (!w.cp_async.landed(retired)) {
    w.waiting = {[](Warp&) -> std::string { return "its cp.async groups"; }, i.id};
    return Step::Blocked;
  }
  w.known.generic.raise(w.cta.agents.cp_async(w.index), retired);
  return Step::Next;
}

}  // namespace tegula::sim
