#include "kernels/attention/work_list.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/query_rows.h"
#include "tegula/int_math.h"
#include "tegula/kernels/kv_cache.h"

namespace tegula::kernels {
namespace {

/// Requests that the kernel processes at a time.
constexpr int kRequests = 512;
/// Waves of parts if the parts do not fit in one wave, and if there are few requests.
constexpr std::int64_t kWaves = 4, kFewWaves = 2;
/// Keys per part below which the softmax costs more than the shorter part saves.
constexpr int kMinKeys = 256;
/// Entries are sorted by the size of their parts in so many classes, each of half the size of the
/// one before: the programs that start last have the least work.
constexpr int kClasses = 4;

/// Returns the number of kv blocks that the last position of each request visits; 0 for requests
/// without queries. Ranges that depend on memory are treated as all keys.
Tile blocks_of(const KvTraversal& traversal, const In<i32, 1>& q_offsets,
               const In<i32, 1>& kv_lengths, const Tile& room, const Index& b, int block) {
  const Tile length = min(max(0, fill_absent(kv_lengths(b), 0)), room), last = length - 1,
             has_queries = fill_absent(q_offsets(b), 0) < fill_absent(q_offsets(b.shifted(1)), 0);
  const QueryRows rows{last, last, last, last, last};
  const Tile blocks = traversal.is_data_dependent()
                          ? cdiv(length, block)
                          : traversal.kv_blocks(rows, length, block).count();
  return where(has_queries, blocks, 0);
}

}  // namespace

WorkExtents work_extents(std::int64_t requests, std::int64_t kv_heads, Device device) {
  const std::int64_t at_once = std::max<std::int64_t>(num_sms(device) / kv_heads, 1);
  const bool are_few = 2 * requests <= at_once;
  const std::int64_t items = are_few ? kFewWaves * at_once : requests + kWaves * at_once;
  // Requests with several parts have fewer than twice their share of the parts' number.
  return {items, std::min(items, 2 * (items - requests)), at_once};
}

std::int64_t schedule_words(std::int64_t requests, Device device) {
  return WorkItem::kWords * (requests + kWaves * num_sms(device));
}

WorkItem WorkItem::of(const In<i32, 2>& list, const Index& number) {
  const auto word = [&](int n) { return fill_absent(list(number, n), 0); };
  return {word(0), word(1), word(2), word(3)};
}

WorkLists::Kernel WorkLists::kernel_of(int block_kv) const {
  const auto make = [&] {
    return kernel(
               "attention_schedule",
               [traversal = &traversal_, block_kv](In<i32, 1> q_offsets, In<i32, 1> kv_lengths,
                                                   Scalar<i32> room, Scalar<i32> least,
                                                   Scalar<i32> at_once, Out<i32, 2> list) {
                 q_offsets.do_not_specialize(0), kv_lengths.do_not_specialize(0),
                     list.do_not_specialize(0);
                 const Tile requests = kv_lengths.dim(0), items = list.dim(0);
                 const auto blocks = [&](const Index& b) {
                   return blocks_of(*traversal, q_offsets, kv_lengths, room, b, block_kv);
                 };
                 const auto parts_of = [&](const Index& b, const Tile& each) {
                   const Tile exists = cast<i32>(b.first()) + arange(kRequests) < requests;
                   return where(exists, max(1, cdiv(blocks(b), each)), 0);
                 };
                 const auto sum_of = [&](const auto& of) {
                   Tile total = full<i32>(0);
                   for (auto b : steps(requests, kRequests)) total = total + sum(of(b), axis(0));
                   return total;
                 };
                 const auto write = [&](const Tile& at, const WorkItem& item) {
                   list(at, 0) = item.request, list(at, 1) = item.part;
                   list(at, 2) = item.parts, list(at, 3) = item.slot;
                 };
                 for ([[maybe_unused]] auto program : grid(GridSpace(Tile(1)), 1)) {
                   const Tile total = sum_of(blocks);
                   // The parts of one wave may be 10 % larger than the average of all SMs.
                   const Tile of_wave = max(least, total / at_once + total / (at_once * 10) + 1),
                              of_several = max(least, cdiv(total, cast<i32>(items - requests))),
                              count = sum_of([&](const Index& b) { return parts_of(b, of_wave); }),
                              each = where(count <= at_once, of_wave, of_several);
                   Tile first = full<i32>(0), slot = full<i32>(0);
                   for (auto c : steps(kClasses, 1)) {
                     const Tile size_class = cast<i32>(c.first()),
                                least_size =
                                    where(size_class == kClasses - 1, -1, each >> (size_class + 1)),
                                most_size = each >> size_class;
                     for (auto b : steps(requests, kRequests)) {
                       const Tile of_all = parts_of(b, each),
                                  size = cdiv(blocks(b), max(1, of_all)),
                                  parts = where(size > least_size && size <= most_size, of_all, 0),
                                  shared = where(parts > 1, parts, 0),
                                  begin = first + cumsum(parts, 0) - parts,
                                  slots = slot + cumsum(shared, 0) - shared,
                                  number = cast<i32>(b.first()) + arange(kRequests);
                       for (auto i : steps(max(parts, axis(0)), 1)) {
                         const Tile part = broadcast(cast<i32>(i.first()), {kRequests});
                         write(where(part < parts, begin + part, -1), {number, part, parts, slots});
                       }
                       first = first + sum(parts, axis(0)), slot = slot + sum(shared, axis(0));
                     }
                   }
                   for (auto i : steps(first, cast<i32>(items), kRequests)) {
                     const Tile at = cast<i32>(i.first()) + arange(kRequests);
                     const auto same = [](int n) { return full<i32>(n, kRequests); };
                     write(where(at < items, at, -1), {same(0), same(1), same(1), same(0)});
                   }
                 }
               })
        .with_plan({.num_warps = 4});
  };
  return Kernel(made_.of(block_kv, [&] { return make().shared_instance(); }));
}

void WorkLists::write(PlanBuilder& plan, PlanSlot q_offsets, PlanSlot kv_lengths, std::int64_t room,
                      int block_kv, std::int64_t at_once, PlanSlot list) const {
  constexpr std::int64_t kMost = std::numeric_limits<i32>::max();
  plan.launch(kernel_of(block_kv), q_offsets, kv_lengths, static_cast<i32>(std::min(room, kMost)),
              static_cast<i32>(ceil_div(kMinKeys, block_kv)), static_cast<i32>(at_once), list);
}

}  // namespace tegula::kernels
