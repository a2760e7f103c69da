#include "kernels/attention/work_list.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "kernels/attention/query_rows.h"
#include "tegula/int_math.h"
#include "tegula/kernels/kv_cache.h"

namespace tegula::kernels {
namespace {

/// Requests that the kernel processes at a time.
constexpr int kRequests = 512;
/// Waves of parts if the parts do not fit in one wave, and if there are few requests.
constexpr std::int64_t kWaves = 2, kFewWaves = 1;
/// Largest number of programs that an SM runs at once.
constexpr std::int64_t kMaxCtas = 2;
/// Keys per part below which the softmax costs more than the shorter part saves.
constexpr int kMinKeys = 256;
/// Entries are sorted by the size of their parts in so many classes, each of half the size of the
/// one before: the programs that start last have the least work. The last class has all others.
constexpr int kClasses = 4;

/// Number of blocks of a request that the list does not contain.
constexpr int kNotListed = -1;

/// RequestBounds in the kernel.
struct Most {
  Tile keys, queries;
};

/// Returns the number of kv blocks that the queries of each request visit; 0 for requests without
/// queries. Ranges that depend on memory are treated as all keys.
Tile blocks_of(const KvTraversal& traversal, const WorkListForm& form, const In<i32, 1>& q_offsets,
               const In<i32, 1>& kv, const Most& most, const Index& b) {
  const auto count = [&](const In<i32, 1>& offsets) {
    return fill_absent(offsets(b.shifted(1)), 0) - fill_absent(offsets(b), 0);
  };
  const Tile keys = form.has_kv_offsets ? count(kv) : fill_absent(kv(b), 0),
             length = min(max(0, keys), most.keys), last_key = length - 1,
             queries = count(q_offsets), last = form.queries_are_last ? last_key : queries - 1,
             first = form.queries_are_last ? max(0, length - queries) : zeros<i32>(kRequests);
  const QueryRows rows{last, last, first, last, last};
  const Tile blocks = traversal.is_data_dependent()
                          ? cdiv(length, form.block_kv)
                          : traversal.kv_blocks(rows, length, form.block_kv).count();
  return where(queries > most.queries, kNotListed, where(queries > 0, blocks, 0));
}

}  // namespace

WorkExtents work_extents(std::int64_t requests, std::int64_t tiles, std::int64_t programs) {
  const std::int64_t at_once = std::max<std::int64_t>(programs / tiles, 1);
  const bool are_few = 2 * requests <= at_once;
  const std::int64_t items = are_few ? kFewWaves * at_once : requests + kWaves * at_once;
  // Requests with several parts have fewer than twice their share of the parts' number.
  return {tiles, items, std::min(items, 2 * (items - requests)), at_once};
}

std::int64_t schedule_words(std::int64_t requests, Device device) {
  return WorkItem::kWords * (requests + kWaves * kMaxCtas * num_sms(device));
}

WorkItem WorkItem::of(const In<i32, 2>& list, const Index& number) {
  const auto word = [&](int n) { return fill_absent(list(number, n), 0); };
  return {word(0), word(1), word(2), word(3)};
}

namespace {

/// Writes one list. Requests are processed in tiles, of which the first stays in registers.
class Writer {
 public:
  Writer(const KvTraversal& traversal, const WorkListForm& form, const In<i32, 1>& q_offsets,
         const In<i32, 1>& kv, const Most& most, const Out<i32, 2>& list)
      : blocks_of_([&, most](const Index& b) {
          return blocks_of(traversal, form, q_offsets, kv, most, b);
        }),
        list_(list),
        requests_(form.has_kv_offsets ? kv.dim(0) - 1 : kv.dim(0)),
        items_(cast<i32>(list.dim(0))),
        first_blocks_(blocks_of_(slice(0, kRequests))) {}

  void write(const Tile& least, const Tile& at_once) const {
    const Tile total = sum_of([](const Requests& r) { return max(0, r.blocks); }),
               longest = this->longest();
    // The parts of one wave may be 10 % larger than the average of all SMs. In several waves, no
    // request is divided if none has more than 5 / 4 of a part.
    const Tile has_waves = items_ - requests_ > at_once;
    const Tile of_wave = max(least, total / at_once + total / (at_once * 10) + 1),
               of_waves = max(least, cdiv(total, items_ - requests_)),
               of_several = where(has_waves && longest <= of_waves * 5 / 4, max(of_waves, longest),
                                  of_waves),
               count = sum_of([&](const Requests& r) { return parts_of(r, of_wave); }),
               each = where(count <= at_once, of_wave, of_several);
    const Tile of_classes = sum_of([&](const Requests& r) { return parts_by_class(r, each); });
    Tile begins = cumsum(of_classes, 0) - of_classes, slot = full<i32>(0);
    for_all([&](const Requests& r) {
      const Tile parts = parts_of(r, each), by_class = parts_by_class(r, each),
                 shared = where(parts > 1, parts, 0),
                 before = expand(begins, 0) + cumsum(by_class, 0) - by_class,
                 begin = sum(where(by_class > 0, before, 0), axis(1));
      write_parts(r.numbers, parts, begin, slot + cumsum(shared, 0) - shared);
      begins = begins + sum(by_class, axis(0)), slot = slot + sum(shared, axis(0));
    });
    for (auto i : steps(sum(of_classes, axis(0)), items_, kRequests)) {
      const Tile at = cast<i32>(i.first()) + arange(kRequests), none = zeros<i32>(kRequests);
      store(where(at < items_, at, -1), {none, none + 1, none + 1, none});
    }
  }

 private:
  /// A tile of requests: their numbers and numbers of blocks, 0 beyond the last one.
  struct Requests {
    Tile numbers, blocks;
  };

  template <class Body>
  void for_all(const Body& body) const {
    body({arange(kRequests), first_blocks_});
    for (auto b : steps(kRequests, requests_, kRequests))
      body({cast<i32>(b.first()) + arange(kRequests), blocks_of_(b)});
  }

  /// Returns the sum of a tile of each tile of requests along the requests.
  template <class Of>
  Tile sum_of(const Of& of) const {
    Tile total = sum(of({arange(kRequests), first_blocks_}), axis(0));
    for (auto b : steps(kRequests, requests_, kRequests))
      total = total + sum(of({cast<i32>(b.first()) + arange(kRequests), blocks_of_(b)}), axis(0));
    return total;
  }

  /// Returns the largest number of blocks of a request.
  Tile longest() const {
    Tile most = max(first_blocks_, axis(0));
    for (auto b : steps(kRequests, requests_, kRequests))
      most = max(most, max(blocks_of_(b), axis(0)));
    return most;
  }

  /// Returns the number of parts of at most `each` blocks.
  Tile parts_of(const Requests& r, const Tile& each) const {
    const Tile is_listed = r.numbers < requests_ && r.blocks != kNotListed;
    return where(is_listed, max(1, cdiv(r.blocks, each)), 0);
  }

  /// Returns the number of parts in the column of their class, and 0 in the others: [requests,
  /// classes].
  Tile parts_by_class(const Requests& r, const Tile& each) const {
    const Tile parts = parts_of(r, each), size = cdiv(r.blocks, max(1, parts));
    Tile size_class = zeros<i32>(kRequests);
    for (int c = 1; c < kClasses; ++c) size_class = size_class + where(size <= each >> c, 1, 0);
    return where(expand(size_class, 1) == expand(arange(kClasses), 0), expand(parts, 1), 0);
  }

  /// Stores the parts of requests at consecutive entries from `begin` on.
  void write_parts(const Tile& numbers, const Tile& parts, const Tile& begin,
                   const Tile& slots) const {
    for (auto i : steps(max(parts, axis(0)), 1)) {
      const Tile part = broadcast(cast<i32>(i.first()), {kRequests});
      store(where(part < parts, begin + part, -1), {numbers, part, parts, slots});
    }
  }

  void store(const Tile& at, const WorkItem& item) const {
    const Tile word = expand(arange(WorkItem::kWords), 0);
    list_(at, slice(0, WorkItem::kWords)) =
        where(word < 2, where(word == 0, expand(item.request, 1), expand(item.part, 1)),
              where(word == 2, expand(item.parts, 1), expand(item.slot, 1)));
  }

  std::function<Tile(const Index&)> blocks_of_;
  const Out<i32, 2>& list_;
  Tile requests_, items_, first_blocks_;
};

}  // namespace

WorkLists::Kernel WorkLists::kernel_of(const WorkListForm& form) const {
  const auto make = [&] {
    return kernel("attention_schedule",
                  [traversal = &traversal_, form](In<i32, 1> q_offsets, In<i32, 1> kv,
                                                  Scalar<i32> max_keys, Scalar<i32> max_queries,
                                                  Scalar<i32> least, Scalar<i32> at_once,
                                                  Out<i32, 2> list) {
                    q_offsets.do_not_specialize(0), kv.do_not_specialize(0),
                        list.do_not_specialize(0);
                    list.static_dim(1);
                    for ([[maybe_unused]] auto program : grid(GridSpace(Tile(1)), 1))
                      Writer(*traversal, form, q_offsets, kv, {max_keys, max_queries}, list)
                          .write(least, at_once);
                  })
        .with_plan({.num_warps = 4});
  };
  return Kernel(made_.of(form, [&] { return make().shared_instance(); }));
}

void WorkLists::write(PlanBuilder& plan, const WorkListForm& form, PlanSlot q_offsets, PlanSlot kv,
                      const RequestBounds& most, std::int64_t at_once, PlanSlot list) const {
  constexpr std::int64_t kMost = std::numeric_limits<i32>::max();
  plan.launch(kernel_of(form), q_offsets, kv, static_cast<i32>(std::min(most.keys, kMost)),
              most.queries, static_cast<i32>(ceil_div(kMinKeys, form.block_kv)),
              static_cast<i32>(at_once), list);
}

}  // namespace tegula::kernels
