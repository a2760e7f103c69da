// TMA: boxes between global and shared memory, bulk groups. Data move at a random time between
// issue and completion.
#include <fmt/format.h>
#include <cstring>

#include "codegen/sim/cluster.h"
#include "codegen/sim/elements.h"
#include "ir/eval/atomic_kind.h"

namespace tegula::sim {

using codegen::TensorMap;

namespace {

constexpr std::uint32_t kSwizzleChunkBytes = 16;

struct Box {
  const TensorMap* map = nullptr;
  std::array<std::int64_t, codegen::kMaxTensorRank> corner{};
  std::uint32_t address = 0;  ///< in shared memory

  std::uint32_t row_bytes() const {
    return static_cast<std::uint32_t>(map->box[0] * size_bytes(map->dtype));
  }
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(box_bytes(*map)); }
};

/// The part of one row of a box that is inside the tensor.
struct TmaRow {
  std::uint32_t offset = 0;          ///< offset of the row in the box, bytes
  std::uint32_t begin = 0, end = 0;  ///< bytes of the row inside the tensor
  std::uint8_t* global = nullptr;    ///< address of byte `begin`
};

template <class F>
void for_rows(const Box& box, const F& f) {
  const TensorMap& m = *box.map;
  std::array<std::int64_t, codegen::kMaxTensorRank> index{};
  const std::int64_t size = size_bytes(m.dtype), rows = box.bytes() / box.row_bytes();
  for (std::int64_t r = 0; r < rows; ++r) {
    TmaRow row;
    row.offset = static_cast<std::uint32_t>(r) * box.row_bytes();
    std::int64_t offset = 0;
    bool inside = true;
    for (int d = 1; d < m.rank; ++d) {
      const std::int64_t c =
          box.corner[static_cast<std::size_t>(d)] + index[static_cast<std::size_t>(d)];
      inside &= c >= 0 && c < m.dims[d];
      offset += c * m.strides[d];
    }
    const std::int64_t lo = std::max<std::int64_t>(0, box.corner[0]),
                       hi = std::min(m.dims[0], box.corner[0] + m.box[0]);
    if (inside && lo < hi) {
      row.begin = static_cast<std::uint32_t>((lo - box.corner[0]) * size);
      row.end = static_cast<std::uint32_t>((hi - box.corner[0]) * size);
      row.global = static_cast<std::uint8_t*>(m.base) + offset + lo * size;
    }
    f(row);
    for (int d = 1; d < m.rank; ++d) {
      if (++index[static_cast<std::size_t>(d)] < m.box[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

/// Returns why the driver or the copy engine would reject the box; empty if valid.
std::string broken_box_rule(const Box& box) {
  const TensorMap& m = *box.map;
  if (m.rank < 1 || m.rank > codegen::kMaxTensorRank)
    return fmt::format("rank {} is not in 1..5", m.rank);
  if (reinterpret_cast<std::uintptr_t>(m.base) % 16 != 0)
    return "the tensor's base is not 16-byte aligned";
  for (int d = 0; d < m.rank; ++d) {
    if (m.box[d] < 1 || m.box[d] > 256)
      return fmt::format("box extent {} is not in 1..256", m.box[d]);
    if (d > 0 &&
        (m.strides[d] % 16 != 0 || m.strides[d] < 0 || m.strides[d] >= (std::int64_t{1} << 40)))
      return fmt::format("stride {} is not a multiple of 16 below 2^40", m.strides[d]);
  }
  if (box.row_bytes() % kSwizzleChunkBytes != 0)
    return fmt::format("the box is {} bytes wide, not a multiple of 16", box.row_bytes());
  if (m.swizzle != 0 && m.swizzle != 32 && m.swizzle != 64 && m.swizzle != 128)
    return fmt::format("there is no {}-byte swizzle", m.swizzle);
  if (m.swizzle != 0 && box.row_bytes() > static_cast<std::uint32_t>(m.swizzle))
    return fmt::format("the box is {} bytes wide, more than its swizzle of {}", box.row_bytes(),
                       m.swizzle);
  if (box.address % 128 != 0)
    return fmt::format("shared address {:#x} is not 128-byte aligned", box.address);
  return "";
}

/// The copy engine reads the tensor's base for a box without elements inside the tensor: an illegal
/// address on an H200 if a map's base is before its memory (docs/wgmma-pipeline.md).
bool base_is_readable(Warp& w, const Instr& i, const Box& box, int lane) {
  const auto base = reinterpret_cast<std::uintptr_t>(box.map->base);
  if (w.cta.global().contains(base, 1)) return true;
  w.cta.report(
      w, i, Detector::TensorMapRule,
      fmt::format("no element of the box is inside the tensor, whose base {:#x} is outside "
                  "every known range",
                  base),
      lane, box.address);
  return false;
}

/// Reads the box of one lane of a TMA op; false (and reported) if it cannot be copied.
bool read_box(Warp& w, const Instr& i, Slot map, Slot address, std::span<const Slot> coordinates,
              int lane, Box& box) {
  box.map = reinterpret_cast<const TensorMap*>(w.cells(map)[lane].i);
  box.address = static_cast<std::uint32_t>(w.cells(address)[lane].i);
  for (std::size_t d = 0; d < coordinates.size() && d < box.corner.size(); ++d)
    box.corner[d] = w.cells(coordinates[d])[lane].i;
  std::string why = box.map ? broken_box_rule(box) : "there is no tensor map";
  if (why.empty() && static_cast<std::int32_t>(coordinates.size()) != box.map->rank)
    why = fmt::format("{} coordinates for a tensor of rank {}", coordinates.size(), box.map->rank);
  if (!why.empty()) {
    w.cta.report(w, i, Detector::TensorMapRule, why, lane, box.address);
    return false;
  }
  if (!w.cta.shared_access(w, i, box.address, box.bytes(), lane, 128)) return false;
  bool ok = true, is_empty = true;
  for_rows(box, [&](const TmaRow& row) {
    if (!ok || !row.global) return;
    is_empty = false;
    ok = w.cta.global_access(w, i, reinterpret_cast<std::uintptr_t>(row.global),
                             row.end - row.begin, lane, 1);
  });
  return is_empty ? base_is_readable(w, i, box, lane) : ok;
}

void land(Cta& cta, const Box& box) {
  std::vector<std::uint8_t> bytes(box.row_bytes());
  for_rows(box, [&](const TmaRow& row) {
    std::fill(bytes.begin(), bytes.end(), 0);
    if (row.global) std::memcpy(bytes.data() + row.begin, row.global, row.end - row.begin);
    for (std::uint32_t n = 0; n < bytes.size(); n += kSwizzleChunkBytes) {
      const std::uint32_t to = codegen::swizzled(box.address + row.offset + n, box.map->swizzle);
      std::memcpy(cta.shared.at(to), bytes.data() + n, kSwizzleChunkBytes);
      std::memset(cta.shared.valid(to), 1, kSwizzleChunkBytes);
    }
  });
}

void touch_rows(Warp& w, const Instr& i, Agent agent, Tick tick, const Box& box, GlobalUse use) {
  for_rows(box, [&](const TmaRow& row) {
    if (!row.global) return;
    const auto address = reinterpret_cast<std::uintptr_t>(row.global);
    w.cta.touch_global(w, i, agent, tick, address, row.end - row.begin, use);
    if (use != GlobalUse::Read) w.cta.global().unstored().store(address, row.end - row.begin);
  });
}

/// Loads into the memory of `cta`, which may be another CTA of the cluster.
void issue_load(Warp& w, const Instr& i, Cta& cta, const Box& box, Mbarrier& b, int lane) {
  const std::uint32_t bytes = box.bytes();
  if (!b.async_visible)
    cta.report(
        w, i, Detector::MbarrierMisuse,
        fmt::format(
            "the initialisation of mbarrier {:#x} was not made visible to TMA (fence_mbar_init)",
            b.address),
        lane, b.address, b.init_op);
  cta.overwrites_barrier(w, i, box.address, bytes, lane);
  ++cta.effects;
  b.copy_op = i.id;
  b.copy_phase = b.phase + 1;
  ++b.copies;
  cta.engine_access(w, i, cta.agents.mbarrier(b.number), b.phase + 1, true, box.address, bytes,
                    true);
  touch_rows(w, i, cta.agents.mbarrier(b.number), b.phase + 1, box, GlobalUse::Read);
  cta.post_event([&cta, &b, box, bytes] {
    land(cta, box);
    --b.copies;
    b.tx -= bytes;
    b.delivered += bytes;
    cta.complete_phase(b);
  });
}

/// Reports bytes inside the tensor that hold no value.
void check_source(Warp& w, const Instr& i, const Box& box, int lane) {
  if (w.cta.shared.all_valid(box.address, box.bytes())) return;
  for_rows(box, [&](const TmaRow& row) {
    for (std::uint32_t n = row.begin; row.global && n < row.end; ++n) {
      const std::uint32_t from = codegen::swizzled(box.address + row.offset + n, box.map->swizzle);
      if (!*w.cta.shared.valid(from))
        return w.cta.report(w, i, Detector::Poison,
                            fmt::format("{} copies uninitialised shared memory at {:#x}",
                                        op_name(w.cta.kernel(), i.id), from),
                            lane, from);
    }
  });
}

/// Writes the bytes of a row to the tensor.
using PutRow = std::function<void(Cta& cta, std::uint8_t* global, const std::uint8_t* from,
                                  std::uint32_t bytes)>;

void issue_store(Warp& w, const Instr& i, const Box& box, int lane, const PutRow& put) {
  Cta& cta = w.cta;
  const Tick group = w.bulk.open;
  ++cta.effects;
  check_source(w, i, box, lane);
  cta.engine_access(w, i, cta.agents.bulk(w.index), group, true, box.address, box.bytes(), false);
  cta.launch.counters.tma_bytes += box.bytes();
  w.bulk.issue(i.id);
  w.bulk_writes.issue(i.id);
  cta.post_event([&w, &cta, box, group, put] {
    std::vector<std::uint8_t> data(box.bytes());
    for (std::uint32_t n = 0; n < data.size(); n += kSwizzleChunkBytes)
      std::memcpy(data.data() + n,
                  cta.shared.at(codegen::swizzled(box.address + n, box.map->swizzle)),
                  kSwizzleChunkBytes);
    --w.bulk.in_flight[group];
    cta.post_event([&w, &cta, box, group, put, data = std::move(data)] {
      for_rows(box, [&](const TmaRow& row) {
        if (row.global)
          put(cta, row.global, data.data() + row.offset + row.begin, row.end - row.begin);
      });
      cta.global().has_changed();
      --w.bulk_writes.in_flight[group];
    });
  });
}

void touch_stored(Warp& w, const Instr& i, const Box& box, GlobalUse use) {
  touch_rows(w, i, w.cta.agents.bulk_write(w.index), w.bulk.open, box, use);
}

void copy_row(Cta&, std::uint8_t* global, const std::uint8_t* from, std::uint32_t bytes) {
  std::memcpy(global, from, bytes);
}

PutRow combine_row(std::string_view kind, DType dtype) {
  return [combine = ir::interp::combine_of(kind), e = ir::Elem{dtype, false}](
             Cta& cta, std::uint8_t* global, const std::uint8_t* from, std::uint32_t bytes) {
    const std::lock_guard lock(cta.global().atomics());
    const auto size = static_cast<std::uint32_t>(element_bytes(e));
    for (std::uint32_t offset = 0; offset < bytes; offset += size)
      store_cell(global + offset,
                 combine(load_cell(global + offset, e), load_cell(from + offset, e), e.dtype), e);
  };
}

/// CTAs that receive a load.
std::vector<Cta*> receivers(Warp& w, const Instr& i) {
  const std::int64_t programs = i.op->attrs.i(AttrName::cluster_ctas, 1);
  if (programs == 1) return {&w.cta};
  std::vector<Cta*> all;
  for (int rank = 0; rank < programs && rank < w.cta.cluster.size(); ++rank)
    all.push_back(&w.cta.cluster.cta(rank));
  return all;
}

void operands_defined(Warp& w, const Instr& i) {
  for (std::size_t n = 0; n < i.in.size(); ++n) w.cta.must_be_defined(w, i, i.in[n], "an operand");
}

}  // namespace

Step sim_TmaLoad(Warp& w, const Instr& i) {
  operands_defined(w, i);
  for_lanes(w.mask, [&](int lane) {
    Box box;
    if (!read_box(w, i, i.in[0], i.in[1], i.in.subspan(3), lane, box)) return;
    const auto barrier = static_cast<std::uint32_t>(w.cells(i.in[2])[lane].i);
    w.cta.launch.counters.tma_bytes += box.bytes();
    for (Cta* cta : receivers(w, i)) {
      if (cta->is_over()) {
        w.cta.report_exit_race(i.id, cta->rank, w.index);
        continue;
      }
      // The same offset in that CTA's memory.
      const std::uint32_t away = cta->shared.window() - w.cta.shared.window();
      Box peer_box = box;
      peer_box.address += away;
      Mbarrier* b = cta->mbarrier(w, i, barrier + away, lane);
      if (b) issue_load(w, i, *cta, peer_box, *b, lane);
    }
  });
  return Step::Next;
}

Step sim_TmaStore(Warp& w, const Instr& i) {
  operands_defined(w, i);
  for_lanes(w.mask, [&](int lane) {
    Box box;
    if (!read_box(w, i, i.in[0], i.in[1], i.in.subspan(2), lane, box)) return;
    touch_stored(w, i, box, GlobalUse::Write);
    issue_store(w, i, box, lane, copy_row);
  });
  return Step::Next;
}

Step sim_TmaReduce(Warp& w, const Instr& i) {
  operands_defined(w, i);
  for_lanes(w.mask, [&](int lane) {
    Box box;
    if (!read_box(w, i, i.in[0], i.in[1], i.in.subspan(2), lane, box)) return;
    touch_stored(w, i, box, GlobalUse::Atomic);
    issue_store(w, i, box, lane, combine_row(i.op->attrs.s(AttrName::kind), box.map->dtype));
  });
  return Step::Next;
}

Step sim_TmaCommit(Warp& w, const Instr&) {
  w.bulk.commit();
  w.bulk_writes.commit();
  return Step::Next;
}

Step sim_TmaWait(Warp& w, const Instr& i) {
  const Tick retired = w.bulk.retired(i.op->attrs.i(AttrName::count));
  const bool sources_only = i.op->attrs.i(AttrName::read) != 0;
  if (!w.bulk.landed(retired) || (!sources_only && !w.bulk_writes.landed(retired))) {
    w.waiting = {[](Warp&) -> std::string { return "its TMA stores"; }, i.id};
    return Step::Blocked;
  }
  w.bulk.waited = std::max(w.bulk.waited, retired);
  w.known.generic.raise(w.cta.agents.bulk(w.index), retired);
  if (!sources_only) w.known.generic.raise(w.cta.agents.bulk_write(w.index), retired);
  return Step::Next;
}

Step sim_PrefetchTensorMap(Warp&, const Instr&) { return Step::Next; }

}  // namespace tegula::sim
