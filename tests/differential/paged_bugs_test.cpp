// Faults that lowering loads from pages could have, planted in the code of two chained products
// whose operands are the rows of requests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "ir/clone_op.h"
#include "tests/differential/lowering_mistakes.h"
#include "tests/differential/planted_program.h"

namespace tegula::ir::paged_bugs_test {
namespace {

using mistakes::Kind;
using test::MemoryProgram;

constexpr int kDim = 64, kKeys = 64, kRows = 4, kRowsOfBoxes = 16;
const std::vector<i32> kLengths{330, 45};

/// O(b) = (Q K^T) V over the keys of request b, without every third key.
auto products_of_pages() {
  return kernel("pages", [](In<bf16, 3> Q, In<bf16, 3> K, In<bf16, 3> V, In<i32, 2> table,
                            In<i32, 1> lengths, Out<f32, 3> O) {
    for (auto b : grid(GridSpace(O.dim(0)), 1)) {
      const Index columns = slice(0, kDim);
      const Tile q = Q(b, slice(0, 64), columns);
      const Tile length = fill_absent(lengths(b), 0);
      const auto keys = paged(K, table, b, length), values = paged(V, table, b, length);
      Tile acc = full<f32>(0, 64, kDim);
      for (auto n : steps(keys.length(), kKeys)) {
        const Tile s = dot(q, fill_absent(keys(n, columns), 0).T());
        const Tile kept = where(expand(n, 0) % 3 == 0, 0.0f, s);
        acc = dot(cast<bf16>(kept), fill_absent(values(n, columns), 0), acc);
      }
      O(b, slice(0, 64), columns) = acc;
    }
  });
}

/// Rows per page, and numbers that follow from them.
struct Paging {
  int rows, columns = 400 / rows, pages = 640 / rows;
};

/// Pages in no order; some are missing, and entries after the last key name none.
std::vector<i32> table_of(const Paging& of) {
  std::vector<i32> table;
  for (std::size_t b = 0; b < kLengths.size(); ++b)
    for (int p = 0; p < of.columns; ++p)
      table.push_back(p * of.rows < kLengths[b]
                          ? (static_cast<int>(b) * (360 / of.rows) + p * 7) % of.pages
                          : 1 << 20);
  for (const int row : {12, 80, 280}) table[static_cast<std::size_t>(row / of.rows)] = -1;
  return table;
}

/// Returns pages with few numbers, so that all sums are exact; rows of no request are NaN. The page
/// before the first belongs to no argument.
Tensor pages_of(std::uint64_t seed, Device device, const Paging& of, int spare_rows) {
  const std::vector<i32> table = table_of(of);
  const Tensor all = Tensor::full({of.pages + 1, of.rows + spare_rows, kDim}, NAN, DType::bf16,
                                  device),
               kept = all.slice(0, 1, of.pages + 1).slice(1, 0, of.rows),
               values =
                   Tensor::integers({of.pages, of.rows, kDim}, DType::bf16, -1, 2, seed, device);
  for (int b = 0; b < std::ssize(kLengths); ++b)
    for (int r = 0; r < kLengths[static_cast<std::size_t>(b)]; ++r) {
      const i32 page = table[static_cast<std::size_t>(b * of.columns + r / of.rows)];
      if (page >= 0)
        kept.select(0, page)
            .select(0, r % of.rows)
            .copy_from(values.select(0, page).select(0, r % of.rows));
    }
  return kept;
}

template <int Rows>
MemoryProgram attention_to_pages(Device device) {
  static const auto of_pages = products_of_pages();
  const auto args_on = [](Device d) {
    constexpr Paging kOf{Rows};
    return std::vector<Tensor>{Tensor::integers({2, 64, kDim}, DType::bf16, -1, 2, 1, d),
                               pages_of(2, d, kOf, 0),
                               pages_of(3, d, kOf, 2),
                               Tensor::from(table_of(kOf), {2, kOf.columns}, d),
                               Tensor::from(kLengths, d),
                               Tensor::zeros({2, 64, kDim}, DType::f32, d)};
  };
  static const std::vector<double> want = [&] {
    const std::vector<Tensor> t = args_on(Device::cpu());
    of_pages(Stream(Device::cpu()), t[0], t[1], t[2], t[3], t[4], t[5]);
    return t[5].to_doubles();
  }();
  MemoryProgram p = test::memory_program<6>("pages", 0, of_pages, args_on(device), 5, want);
  p.programs = 2;
  return p;
}

// ---- places
/// Copies of keys and values: those of the loop, those of the first block, and later ones.
OpId copy(const Kernel& k, std::size_t n) {
  const auto copies = mistakes::all(k, true, Opcode::CpAsync);
  const std::size_t last = copies.size() - 1, at[] = {last - 1, last, 0, 3};
  return n < std::size(at) && at[n] < copies.size() ? copies[at[n]] : OpId();
}

enum CopyPart : std::uint8_t { kTo, kFrom, kWhich };  ///< operands of a copy

/// Returns an op that computes an operand of a copy, the nearest first.
OpId source(
    const Kernel& k, OpId of, std::size_t part, Opcode opcode,
    const mistakes::Wanted& wanted = [](OpId) { return true; }) {
  if (!of) return {};
  std::vector<OpId> seen{k[k[of].operands[part]].def};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) continue;
    if (k[seen[i]].opcode == opcode && wanted(seen[i])) return seen[i];
    for (const Value v : k[seen[i]].operands) seen.push_back(k[v].def);
  }
  return {};
}
OpId def_of(const Kernel& k, OpId op, std::size_t operand) {
  return op && operand < k[op].operands.size() ? k[k[op].operands[operand]].def : OpId();
}
OpId table_read(const Kernel& k, std::size_t n) {
  return source(k, copy(k, n), kFrom, Opcode::LdGlobal);
}
/// The comparison of a copy's rows with the length, or of its pages with their number.
OpId bound(const Kernel& k, std::size_t n, bool of_length) {
  return source(k, copy(k, n), kWhich, Opcode::Cmp, [&](OpId op) {
    const OpId limit = def_of(k, def_of(k, op, 1), 0), of = def_of(k, op, 0);
    const bool is_length = limit && k[limit].opcode == Opcode::Max;
    const bool is_page = !limit && of && k[of].opcode == Opcode::Bitcast && def_of(k, of, 0) &&
                         k[def_of(k, of, 0)].opcode == Opcode::Select;
    return of_length ? is_length : is_page;
  });
}

// ---- edits
bool change(Kernel& k, OpId op, std::size_t operand, Opcode by, std::int64_t number) {
  if (op) mistakes::set_operand(k, op, operand, by, number);
  return bool(op);
}
bool holds_always(Kernel& k, OpId cmp) {
  if (!cmp) return false;
  Builder b(k);
  b.before(cmp);
  k.replace_all_uses(k[cmp].results[0], b.constant(k.type(k[cmp].results[0]), std::int64_t{1}));
  return true;
}

// ---- faults
bool other_entry(Kernel& k, std::size_t n, Opcode by, std::int64_t number) {
  return change(k, def_of(k, table_read(k, n), 0), 1, by, number);
}
bool next_entry(Kernel& k, std::size_t n) { return other_entry(k, n, Opcode::Add, 1); }
bool entry_of_previous_block(Kernel& k, std::size_t n) {
  return other_entry(k, n, Opcode::Sub, kKeys / kRows);
}
bool entry_of_other_request(Kernel& k, std::size_t n) {
  return other_entry(k, n, Opcode::Xor, Paging{kRows}.columns);
}
/// Every iteration uses the entries of the first block.
bool stale_entry(Kernel& k, std::size_t n) {
  return n < 1 && change(k, source(k, copy(k, n), kFrom, Opcode::Div), 0, Opcode::And, kKeys - 1);
}
bool other_page(Kernel& k, std::size_t n) {
  return change(k, source(k, copy(k, n), kFrom, Opcode::Mul), 0, Opcode::Xor, 1);
}
bool other_row(Kernel& k, std::size_t n) {
  return change(k, source(k, copy(k, n), kFrom, Opcode::Rem), 0, Opcode::Add, 1);
}
/// A product with a page uses the stride of rows.
bool strides_exchanged(Kernel& k, std::size_t n) {
  const OpId page = source(k, copy(k, n), kFrom, Opcode::Mul);
  const OpId row = source(k, copy(k, n), kFrom, Opcode::Mul, [&](OpId op) { return op != page; });
  if (!page || !row) return false;
  std::swap(k[page].operands[1], k[row].operands[1]);
  return true;
}
/// The last block is one of the loop, or the first one.
bool tail_is_present(Kernel& k, std::size_t n) {
  return n < 3 && holds_always(k, bound(k, n, true));
}
bool missing_page_is_read(Kernel& k, std::size_t n) { return holds_always(k, bound(k, n, false)); }
bool copy_is_lost(Kernel& k, std::size_t n) { return mistakes::erase(k, copy(k, n)); }
bool other_columns(Kernel& k, std::size_t n) {
  return change(k, source(k, copy(k, n), kFrom, Opcode::AddPtr), 1, Opcode::Xor, 8);
}
bool filled_elsewhere(Kernel& k, std::size_t n) {
  return change(k, copy(k, n), kTo, Opcode::Add, kKeys * kDim * 2);
}
bool not_swizzled(Kernel& k, std::size_t n) { return change(k, copy(k, n), kTo, Opcode::Xor, 16); }
/// Keys are copied where values go, and values where keys go.
bool operands_exchanged(Kernel& k, std::size_t n) {
  if (n > 0) return false;
  std::swap(k[copy(k, 0)].operands[kFrom], k[copy(k, 1)].operands[kFrom]);
  return true;
}
/// The condition of a copy ends a block early.
bool block_is_not_copied(Kernel& k, std::size_t n) {
  const OpId at = copy(k, n);
  OpId condition = n % 2 == 0 && at ? def_of(k, k[k[at].parent].owner, 0) : OpId();
  while (condition && k[condition].opcode == Opcode::And) condition = def_of(k, condition, 0);
  return condition && k[condition].opcode == Opcode::Cmp &&
         change(k, condition, 0, Opcode::Add, kKeys);
}
bool commit_is_lost(Kernel& k, std::size_t n) {
  return mistakes::erase(k, mistakes::nth(mistakes::all(k, true, Opcode::CpAsyncCommit), n));
}
bool waits_for_fewer(Kernel& k, std::size_t n) {
  return mistakes::add_to_count(k, mistakes::nth(mistakes::all(k, true, Opcode::CpAsyncWait), n),
                                1);
}
bool no_barrier_in_loop(Kernel& k, std::size_t n) {
  return mistakes::erase(
      k, mistakes::nth(mistakes::all(k, true, Opcode::BarSync,
                                     [&](OpId op) { return bool(mistakes::loop_around(k, op)); }),
                       n));
}
bool sum_begins_again(Kernel& k, std::size_t n) {
  constexpr std::size_t kAccumulates = 3;
  const OpId mma = mistakes::nth(mistakes::all(k, true, Opcode::Wgmma), 1);
  if (n > 0 || !mma) return false;
  Builder b(k);
  b.before(mma);
  const Value no = b.flag(false);
  k[mma].operands[kAccumulates] = no;
  return true;
}
bool last_block_is_lost(Kernel& k, std::size_t n) {
  return change(k, mistakes::nth(mistakes::all(k, true, Opcode::For), n), 1, Opcode::Sub, kKeys);
}
bool length_of_next_request(Kernel& k, std::size_t n) {
  const OpId length = mistakes::nth(mistakes::all(k, true, Opcode::LdGlobal), 0);
  return n < 1 && change(k, def_of(k, length, 0), 1, Opcode::Xor, 1);
}

// ---- faults of boxes, by which TMA copies whole pages
/// The operands of a load of a box; one that ends before its page does has a further coordinate.
enum BoxPart : std::uint8_t {
  kMap,
  kSlot,
  kBarrier,
  kColumn,
  kRow,
  kPage,
  kWholeParts,
  kEndedParts
};

/// Returns the loads of pages with this number of operands: boxes of keys, then of values.
std::vector<OpId> boxes(const Kernel& k, std::size_t parts) {
  return mistakes::all(k, false, Opcode::TmaLoad, [&](OpId op) {
    const auto& map = k.params()[k[k[op].operands[kMap]].position];
    return k[op].operands.size() == parts && map.attrs.ints(AttrName::box)[1] == kRowsOfBoxes;
  });
}
/// Boxes of whole blocks, in the first block's keys and the loop's values, and partly filled boxes
/// of the shorter request's keys and the longer one's values.
OpId box(const Kernel& k, std::size_t n) {
  const auto whole = boxes(k, kWholeParts), ended = boxes(k, kEndedParts);
  if (whole.size() < 8 || ended.size() < 8) return {};
  const OpId at[] = {whole[1], whole[whole.size() - 5], ended[2], ended[ended.size() - 4]};
  return n < std::size(at) ? at[n] : OpId();
}
bool box_is_lost(Kernel& k, std::size_t n) { return mistakes::erase(k, box(k, n)); }
bool page_of_box(Kernel& k, std::size_t n) { return change(k, box(k, n), kPage, Opcode::Xor, 1); }
bool rows_of_box(Kernel& k, std::size_t n) { return change(k, box(k, n), kRow, Opcode::Add, 1); }
bool slot_of_box(Kernel& k, std::size_t n) {
  return change(k, box(k, n), kSlot, Opcode::Add, 1024);
}
bool barrier_of_box(Kernel& k, std::size_t n) {
  return change(k, box(k, n), kBarrier, Opcode::Add, 8);
}
bool entry_of_box(Kernel& k, std::size_t n, std::int64_t further) {
  const OpId at = box(k, n);
  const OpId entry = source(k, at, kPage, Opcode::LdGlobal);
  return change(k, def_of(k, entry, 0), 1, Opcode::Add, further);
}
bool next_entry_of_box(Kernel& k, std::size_t n) { return entry_of_box(k, n, 1); }
bool previous_entry_of_box(Kernel& k, std::size_t n) { return n == 1 && entry_of_box(k, n, -4); }
/// The copy engine reads the base of the map of boxes that end, which is before the tensor.
bool empty_box_by_map_of_ended(Kernel& k, std::size_t n) {
  const auto ended = boxes(k, kEndedParts);
  if (ended.size() < 8) return false;
  const OpId at[] = {ended[3], ended[7], ended[ended.size() - 2], ended.back()};
  const OpId branch = k[k[at[n]].parent].owner, has_some = def_of(k, branch, 0);
  k[branch].operands[0] = k[has_some].operands[1];
  return true;
}

constexpr Kind kBoxKinds[] = {
    {"a box is lost", box_is_lost},
    {"another page of a box", page_of_box},
    {"other rows of a box", rows_of_box},
    {"a box in another place", slot_of_box},
    {"a box at another barrier", barrier_of_box},
    {"the next entry for a box", next_entry_of_box},
    {"the entry of the previous block for a box", previous_entry_of_box},
    {"an empty box by the map of boxes that end", empty_box_by_map_of_ended},
};

constexpr Kind kOwnKinds[] = {
    {"the next entry of the table", next_entry},
    {"the entry of the previous block", entry_of_previous_block},
    {"the entry of another request", entry_of_other_request},
    {"the entries of the first block", stale_entry},
    {"another page", other_page},
    {"another row of the page", other_row},
    {"strides of pages and rows are exchanged", strides_exchanged},
    {"rows after the last one are present", tail_is_present},
    {"a page that is missing is read", missing_page_is_read},
    {"a copy is lost", copy_is_lost},
    {"other columns", other_columns},
    {"the next slot is filled", filled_elsewhere},
    {"a copy is not swizzled", not_swizzled},
    {"keys and values are exchanged", operands_exchanged},
    {"a block is not copied", block_is_not_copied},
    {"copies are not committed", commit_is_lost},
    {"waits for fewer copies", waits_for_fewer},
    {"no barrier after copies", no_barrier_in_loop},
    {"the sum begins again", sum_begins_again},
    {"the last block is lost", last_block_is_lost},
    {"the length of another request", length_of_next_request},
};

// ---- changes that look alike, and are right
bool twice(Kernel& k, OpId op) {
  if (!op) return false;
  Builder b(k);
  b.before(op);
  ValueMap same;
  for (const Value v : k[op].operands) same[v] = v;
  clone_op(b, op, same);
  return true;
}
bool read_twice(Kernel& k, std::size_t n) { return twice(k, table_read(k, n)); }
bool fenced_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, true, Opcode::FenceProxyAsync), n));
}
bool synchronised_twice(Kernel& k, std::size_t n) {
  return twice(k, mistakes::nth(mistakes::all(k, true, Opcode::BarSync), n));
}
bool waits_for_all(Kernel& k, std::size_t n) {
  const OpId wait = mistakes::nth(mistakes::all(k, true, Opcode::CpAsyncWait), n);
  return mistakes::add_to_count(k, wait, wait ? -k[wait].attrs.i(AttrName::count) : 0);
}
/// Values use the entries that were read for the keys of the same block.
bool one_entry_for_both(Kernel& k, std::size_t n) {
  const OpId keys = table_read(k, 0), values = table_read(k, 1);
  if (n > 0 || keys == values) return false;
  k.replace_all_uses(k[values].results[0], k[keys].results[0]);
  return true;
}
bool replaced_by(Kernel& k, OpId op, Opcode opcode, std::int64_t number) {
  if (!op) return false;
  Builder b(k);
  b.before(op);
  const Value same = b.op(opcode, {k[op].operands[0], b.i32(number)});
  k.replace_all_uses(k[op].results[0], same);
  return true;
}
bool shifted_instead(Kernel& k, std::size_t n) {
  return replaced_by(k, source(k, copy(k, n), kFrom, Opcode::Div), Opcode::Shr, 2);
}
bool masked_instead(Kernel& k, std::size_t n) {
  return replaced_by(k, source(k, copy(k, n), kFrom, Opcode::Rem), Opcode::And, kRows - 1);
}
/// Entries at or after the end of the table are never used.
bool entry_in_table(Kernel& k, std::size_t n) {
  return other_entry(k, n, Opcode::Min, 2 * Paging{kRows}.columns - 1);
}
bool checked_twice(Kernel& k, std::size_t n) { return twice(k, bound(k, n, true)); }
bool values_first(Kernel& k, std::size_t n) {
  const OpId keys = copy(k, 0), values = copy(k, 1), next = k[values].next;
  if (n > 0) return false;
  k.unlink(keys);
  next ? k.insert_before(next, keys) : k.append(k[values].parent, keys);
  return true;
}
bool committed_alone(Kernel& k, std::size_t n) {
  if (n > 0) return false;
  const OpId commit = mistakes::all(k, true, Opcode::CpAsyncCommit).back();
  return twice(k, commit) && waits_for_all(k, 0);
}

constexpr Kind kRightKinds[] = {
    {"an entry is read twice", read_twice},
    {"keys and values share an entry", one_entry_for_both},
    {"a shift instead of a division", shifted_instead},
    {"a mask instead of a remainder", masked_instead},
    {"the entry stays in the table", entry_in_table},
    {"the length is checked twice", checked_twice},
    {"values are copied first", values_first},
    {"two groups, and a wait for all", committed_alone},
    {"a wait for all copies", waits_for_all},
    {"two fences", fenced_twice},
    {"two barriers", synchronised_twice},
};

constexpr std::size_t kMinFaults = 60, kMinFaultsOfBoxes = 50, kMaxMissed = 2;

class PagedBugs : public testing::Test {
 protected:
  /// Plants a kind in the first `places`, and calls `judge` with what the simulator reports.
  template <class Judge>
  static void plant(const test::PlantedProgram& program, const Kernel& sound, const Kind& kind,
                    std::size_t places, const Judge& judge) {
    for (std::size_t n = 0; n < places; ++n) {
      Kernel k = clone(sound);
      if (!kind.plant(k, n)) continue;
      const std::string how = program.how_caught(k);
      std::printf("%-45s %zu %s\n", kind.name, n, how.c_str());
      judge(how);
    }
  }
  static Kernel sound(const test::PlantedProgram& program) {
    return program.compile([](std::string_view, Kernel&, bool) {});
  }
};

/// Pages of 4 rows are copied by threads. Too few arrivals change nothing at a barrier of which the
/// only phase ends with the program.
TEST_F(PagedBugs, OfCopiesAreFound) {
  const test::PlantedProgram program(attention_to_pages<kRows>);
  const Kernel right = sound(program);
  ASSERT_EQ(program.how_caught(right), "");
  std::size_t planted = 0, missed = 0;
  const auto count = [&](const std::string& how) { ++planted, missed += how.empty(); };
  for (const Kind& kind : kOwnKinds) plant(program, right, kind, 4, count);
  for (const Kind& kind : mistakes::kKinds) plant(program, right, kind, 2, count);
  EXPECT_GE(planted, kMinFaults);
  EXPECT_LE(missed, kMaxMissed);
}

/// Pages of 16 rows are boxes where TMA loads them.
TEST_F(PagedBugs, OfBoxesAreFound) {
  const test::PlantedProgram program(attention_to_pages<kRowsOfBoxes>);
  const Kernel right = sound(program);
  ASSERT_EQ(program.how_caught(right), "");
  std::size_t planted = 0, missed = 0;
  const auto count = [&](const std::string& how) { ++planted, missed += how.empty(); };
  for (const Kind& kind : kBoxKinds) plant(program, right, kind, 4, count);
  for (const Kind& kind : mistakes::kKinds) plant(program, right, kind, 2, count);
  EXPECT_GE(planted, kMinFaultsOfBoxes);
  EXPECT_LE(missed, kMaxMissed);
}

TEST_F(PagedBugs, ChangesThatAreRightAreNotReported) {
  const test::PlantedProgram program(attention_to_pages<kRows>);
  const Kernel right = sound(program);
  for (const Kind& kind : kRightKinds)
    plant(program, right, kind, 2, [](const std::string& how) { EXPECT_EQ(how, ""); });
}

}  // namespace
}  // namespace tegula::ir::paged_bugs_test
