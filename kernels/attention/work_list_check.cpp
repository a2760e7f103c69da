#include "kernels/attention/work_list_check.h"

#include <limits>

namespace tegula::kernels {
namespace {

/// Entries that the kernel processes at a time.
constexpr int kEntries = 256;

void report_unless(const Tile& holds) {
  tegula::detail::report_unless(
      holds, "work list", "`schedule` did not write the list for these requests and heads", {});
}

/// Entries of a list, as columns; entries beyond the last one have no work.
struct Entries {
  Tile numbers, request, part, parts, slot;

  Entries(const In<i32, 2>& list, const Index& of)
      : numbers(cast<i32>(of.first()) + arange(kEntries)) {
    const auto word = [&](int n, int otherwise) { return fill_absent(list(of, n), otherwise); };
    request = word(0, 0), part = word(1, 1), parts = word(2, 1), slot = word(3, 0);
  }
  Tile have_work() const { return part < parts; }
};

/// The parts of a request, as the first of its entries describes them.
struct RequestParts {
  Tile first, parts, slot;
};

/// Checks the numbers of all entries and returns the parts of request b.
RequestParts parts_of(const In<i32, 2>& list, const Tile& b, const Tile& requests) {
  constexpr i32 kNone = std::numeric_limits<i32>::max();
  Tile first = full<i32>(kNone), parts = full<i32>(0), slot = full<i32>(0);
  for (auto i : steps(list.dim(0), kEntries)) {
    const Entries e(list, i);
    report_unless(e.request >= 0 && e.request < requests && e.part >= 0 && e.parts >= 1);
    const Tile is_own = e.have_work() && e.request == b;
    first = min(first, min(where(is_own, e.numbers, kNone), axis(0)));
    parts = max(parts, max(where(is_own, e.parts, 0), axis(0)));
    slot = max(slot, max(where(is_own, e.slot, 0), axis(0)));
  }
  return {first, parts, slot};
}

/// Checks that the list has `own` once, or not at all if the request need not have parts, and that
/// no other request has slots of these parts.
void check_request(const In<i32, 2>& list, const Tile& b, const RequestParts& own,
                   const Tile& is_required) {
  Tile count = full<i32>(0);
  for (auto i : steps(list.dim(0), kEntries)) {
    const Entries e(list, i);
    const Tile is_own = e.have_work() && e.request == b,
               is_next =
                   e.parts == own.parts && e.slot == own.slot && e.part == e.numbers - own.first,
               is_other = e.have_work() && e.request != b && e.parts > 1 && own.parts > 1,
               overlaps = e.slot < own.slot + own.parts && own.slot < e.slot + e.parts;
    report_unless(where(is_own, is_next, !(is_other && overlaps)));
    count = count + sum(where(is_own, 1, 0), axis(0));
  }
  report_unless(count == own.parts && (count > 0 || !is_required));
}

auto make_kernel() {
  return kernel("attention_list_check", [](In<i32, 2> list, In<i32, 1> q_offsets,
                                           Scalar<i32> max_queries, Scalar<i32> slots) {
    q_offsets.do_not_specialize(0);
    const Tile requests = cast<i32>(q_offsets.dim(0)) - 1;
    for (auto b : grid(GridSpace(requests), 1)) {
      const Tile request = cast<i32>(b.first());
      const RequestParts own = parts_of(list, request, requests);
      report_unless(own.parts <= 1 || (own.slot >= 0 && own.slot + own.parts <= slots));
      const Tile queries =
          fill_absent(q_offsets(b.first() + 1), 0) - fill_absent(q_offsets(b.first()), 0);
      check_request(list, request, own, queries <= max_queries);
    }
  });
}

}  // namespace

WorkListCheck::WorkListCheck() : kernel_(make_kernel()) {}

void WorkListCheck::add(PlanBuilder& plan, PlanSlot list, PlanSlot q_offsets, int max_queries,
                        const WorkExtents& extents) const {
  plan.launch(kernel_, list, q_offsets, max_queries, static_cast<i32>(extents.slots));
}

}  // namespace tegula::kernels
