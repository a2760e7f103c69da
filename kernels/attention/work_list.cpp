#include "kernels/attention/work_list.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/query_rows.h"
#include "tegula/int_math.h"
#include "tegula/kernels/kv_cache.h"

namespace tegula::kernels {
namespace {

/// Requests that the kernel processes at a time.
constexpr int kRequests = 1024;
/// CTAs that run at once on an SM, at least for head dims up to 128.
constexpr std::int64_t kCtasPerSm = 2;
/// Waves of parts if the requests do not fit in one wave: the last wave is a small share of all.
constexpr std::int64_t kWaves = 4;
/// Keys per part below which the softmax costs more than the shorter part saves.
constexpr int kMinKeys = 256;

std::int64_t ctas_at_once(Device device) { return kCtasPerSm * num_sms(device); }

/// Returns the number of kv blocks that the last position of each request visits; 0 for requests
/// without queries. Ranges that depend on memory are treated as all keys.
Tile blocks_of(const KvTraversal& traversal, const In<i32, 1>& q_offsets,
               const In<i32, 1>& kv_lengths, const Tile& room, const Index& b, int block) {
  const Tile length = min(max(0, fill_absent(kv_lengths(b), 0)), room), last = length - 1,
             has_queries = fill_absent(q_offsets(b), 0) < fill_absent(q_offsets(b.shifted(1)), 0);
  const Tile blocks = traversal.is_data_dependent()
                          ? cdiv(length, block)
                          : traversal.kv_blocks({last, last, last, last, last}, length, block).count();
  return where(has_queries, blocks, 0);
}

}  // namespace

WorkExtents work_extents(std::int64_t requests, std::int64_t kv_heads, Device device) {
  const std::int64_t at_once = std::max<std::int64_t>(ctas_at_once(device) / kv_heads, 1),
                     items = 2 * requests <= at_once ? at_once : requests + kWaves * at_once;
  // Requests with several parts have fewer than twice their share of the parts' number.
  return {items, std::min(items, 2 * (items - requests))};
}

std::int64_t schedule_words(std::int64_t requests, Device device) {
  return WorkItem::kWords * (requests + kWaves * ctas_at_once(device));
}

WorkItem WorkItem::of(const In<i32, 2>& list, const Index& number) {
  const auto word = [&](int n) { return fill_absent(list(number, n), 0); };
  return {word(0), word(1), word(2), word(3)};
}

WorkLists::Kernel WorkLists::kernel_of(int block_kv) const {
  const auto make = [&] {
    return kernel("attention_schedule", [traversal = &traversal_, block_kv](
                                            In<i32, 1> q_offsets, In<i32, 1> kv_lengths,
                                            Scalar<i32> room, Scalar<i32> least, Out<i32, 2> list) {
      q_offsets.do_not_specialize(0), kv_lengths.do_not_specialize(0), list.do_not_specialize(0);
      const Tile requests = kv_lengths.dim(0), items = list.dim(0);
      const auto blocks = [&](const Index& b) {
        return blocks_of(*traversal, q_offsets, kv_lengths, room, b, block_kv);
      };
      const auto write = [&](const Tile& at, const WorkItem& item) {
        list(at, 0) = item.request, list(at, 1) = item.part;
        list(at, 2) = item.parts, list(at, 3) = item.slot;
      };
      for ([[maybe_unused]] auto program : grid(GridSpace(Tile(1)), 1)) {
        Tile total = full<i32>(0);
        for (auto b : steps(requests, kRequests)) total = total + sum(blocks(b), axis(0));
        const Tile each = max(cdiv(total, cast<i32>(items - requests)), least);
        Tile first = full<i32>(0), slot = full<i32>(0);
        for (auto b : steps(requests, kRequests)) {
          const Tile number = cast<i32>(b.first()) + arange(kRequests);
          const Tile parts = where(number < requests, max(1, cdiv(blocks(b), each)), 0),
                     shared = where(parts > 1, parts, 0),
                     begin = first + cumsum(parts, 0) - parts,
                     slots = slot + cumsum(shared, 0) - shared;
          for (auto i : steps(max(parts, axis(0)), 1)) {
            const Tile part = broadcast(cast<i32>(i.first()), {kRequests});
            write(where(part < parts, begin + part, -1), {number, part, parts, slots});
          }
          first = first + sum(parts, axis(0)), slot = slot + sum(shared, axis(0));
        }
        for (auto i : steps(first, cast<i32>(items), kRequests)) {
          const Tile at = cast<i32>(i.first()) + arange(kRequests);
          const auto same = [](int n) { return full<i32>(n, kRequests); };
          write(where(at < items, at, -1), {same(0), same(1), same(1), same(0)});
        }
      }
    });
  };
  return Kernel(made_.of(block_kv, [&] { return make().shared_instance(); }));
}

void WorkLists::write(PlanBuilder& plan, PlanSlot q_offsets, PlanSlot kv_lengths, std::int64_t room,
                      int block_kv, PlanSlot list) const {
  constexpr std::int64_t kMost = std::numeric_limits<i32>::max();
  plan.launch(kernel_of(block_kv), q_offsets, kv_lengths, static_cast<i32>(std::min(room, kMost)),
              static_cast<i32>(ceil_div(kMinKeys, block_kv)), list);
}

}  // namespace tegula::kernels
