#include "kernels/attention/group_lists.h"

namespace tegula::kernels {
namespace {

/// Entries that a program moves at a time.
constexpr int kMoved = 128;

/// Returns the number of whole blocks and of all blocks of a row. Rows of a caller's list that a
/// packed sequence does not have may contain any numbers.
std::pair<Tile, Tile> counts_of(const GroupListsParams& x, const Index& b, const Tile& h,
                                const Index& row) {
  const auto read = [&](const std::optional<In<i32, 3>>& counts) {
    const Tile n = counts ? fill_absent((*counts)(b, h, row), 0) : full<i32>(0);
    return x.two_ended ? n : min(n, cast<i32>(x.given.blocks->dim(3)));
  };
  return {read(x.given.full), read(x.given.counts)};
}

}  // namespace

KvIndexWindow group_window(const Tile& b, const In<i32, 1>& starts, int block, const Tile& group) {
  const Tile first = fill_absent(starts(b), 0), length = fill_absent(starts(b + 1), 0) - first;
  const KvIndexWindow of_head = KvIndexWindow::of_sequence(b, first, length, block);
  return {of_head.begin * group, of_head.end * group};
}

KernelOf<GroupListsParams> group_lists() {
  return kernel("attention_group_lists", [](const GroupListsParams& x) {
    const In<i32, 4>& given = *x.given.blocks;
    x.blocks.partial(), x.counts.partial(), x.full.partial();
    for (const View* v : std::initializer_list<const View*>{&given, &*x.given.counts, &x.blocks,
                                                            &x.counts, &x.full})
      v->do_not_specialize(0), v->do_not_specialize(2);
    if (x.starts) x.starts->do_not_specialize(0);
    const Tile heads = given.dim(1), group = heads / x.counts.dim(1), parts = x.parts;
    for (auto [b, h, row] :
         grid({x.given.counts->dim(0), heads, x.given.counts->dim(2)}, 1, 1, 1)) {
      const Tile kv_head = cast<i32>(h.first()) / group, first = kv_head * group,
                 head = cast<i32>(h.first()) - first;
      Tile whole_before = full<i32>(0), before = full<i32>(0);
      for (auto i : steps(head, 1)) {
        const auto [whole, count] = counts_of(x, b, first + cast<i32>(i.first()), row);
        whole_before = whole_before + whole * parts, before = before + count * parts;
      }
      const auto [whole, count] = counts_of(x, b, h.first(), row);
      KvIndexWindow from{full<i32>(0), given.dim(3)}, into{full<i32>(0), x.blocks.dim(3)};
      if (x.starts) {
        from = group_window(b.first(), *x.starts, x.block, full<i32>(1));
        into = group_window(b.first(), *x.starts, x.block, group);
      }
      for (auto i : steps(count * parts, kMoved)) {
        const Tile n = cast<i32>(i.indices()), listed = n / parts;
        const Tile is_whole = listed < whole, exists = n < count * parts;
        const Tile column =
            x.two_ended ? where(is_whole, from.begin + listed, from.end - 1 - (listed - whole))
                        : from.begin + listed;
        const Tile entry =
            fill_absent(given(b, h, row, where(exists, column, -1)), 0) * parts + n % parts;
        const Tile partial = before - whole_before + n - whole * parts;
        const Tile place = where(is_whole, into.begin + whole_before + n, into.end - 1 - partial);
        x.blocks(x.starts ? Index(Tile(0), 1) : b, kv_head, row, where(exists, place, -1)) =
            min(max(0, entry), x.blocks_of_head - 1) + (head << x.log2_blocks);
      }
      if_(head == group - 1, [&] {
        x.counts(b, kv_head, row) = before + count * parts;
        x.full(b, kv_head, row) = whole_before + whole * parts;
      });
    }
  });
}

}  // namespace tegula::kernels
