#pragma once
// Selects the best few elements along an axis by words that hold both a key and an index.
#include "codegen/lower/sort_key.h"
#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

/// Selects the best elements of rows that are in the registers and lanes of a warp. If SortKey
/// needs only one register, that is the word; for f32, words are built here.
///
/// A word holds a key and an index, so that a comparator is a minimum and a maximum. Each thread
/// sorts its elements in runs and keeps the better half of two runs until one run is left, then the
/// better half of its run and another lane's. The two lanes share the remaining words, so that they
/// do not duplicate work. Keys have more bits than a word has room for:
///
/// 1. The number's distance from the row's best one, in units of the last place, keeps all its
///    bits if the best few are close to each other: within two octaves in a row of 256. Then their
///    order is exact. The bits of f32 are compared directly, without a key.
/// 2. Otherwise the warp takes words of the keys' upper bits. Elements whose keys differ only in
///    the lower bits may be in the wrong order, which is tested: the exact keys of the best
///    must ascend, and no other element of the row may be better than the last of them.
/// 3. If the test fails, the warp searches by exact keys, one result after another, in a loop.
class PackedTopk {
 public:
  /// `result`: layout in which shared_first_elements of `layout` divides the best.
  /// `follows_exchanges`: whether scratch memory may be in use.
  PackedTopk(Lowering& l, SortKey& key, const ir::LinearLayout& layout, int axis,
             const ir::LinearLayout& result, bool is_descending, bool follows_exchanges);

  /// Returns true if rows of that layout, with keys of up to 4 bytes, are supported: threads hold
  /// whole runs, no row spans two warps, and a word has enough bits for the index.
  static bool is_possible(const ir::LinearLayout& layout, int axis, std::int64_t count);

  /// Returns the best numbers and their indices in the result's layout; 0 and 0 if absent.
  /// `present`: a predicate for each register; none: all are present.
  Tuple run(ir::Value numbers, ir::Value index, ir::Value present);

 private:
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  using Indices = std::vector<std::int64_t>;

  void find_registers();
  ir::Dims row_of(ir::Dims index) const;
  std::int64_t registers() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t per_row() const { return registers() / rows(); }
  std::int64_t rows() const { return static_cast<std::int64_t>(row_index_.size()); }
  /// Returns the number of words of a row's best that a lane holds at the end.
  std::int64_t held() const { return kept_ >> split_lanes_; }

  ir::Value number(std::uint64_t v);
  ir::Value bits_of(ir::Value v, DType dtype);
  ir::Value expanded(ir::Value of_rows, std::int64_t each);
  /// Selects `count` of each row's `each` registers, beginning with number `first`.
  ir::Value part_of_rows(ir::Value v, std::int64_t each, std::int64_t first, std::int64_t count);
  template <class F>
  Tuple fold_rows(Tuple of_registers, const F& f);
  Tuple from_lane(const Tuple& v, int bits);

  ir::Value exchange(ir::Value words, std::int64_t length, const Pairs& pairs);
  ir::Value sort_runs(ir::Value words);
  ir::Value clean(ir::Value words, std::int64_t length);
  ir::Value halve(ir::Value words);
  ir::Value backwards(ir::Value words, std::int64_t length);
  ir::Value exchange_lanes(ir::Value words, ir::Value others, int bit);
  ir::Value merge_sides(ir::Value words, std::size_t side_bits);
  ir::Value select(ir::Value words, ir::Value of_lane);

  ir::Value has_lane_bit(int bit);
  ir::Value of_all_lanes(ir::Value words);
  ir::Value of_this_lane(ir::Value words);

  /// The best, and whether those of one of the thread's rows may be wrong.
  struct Selection {
    Tuple best;
    ir::Value fails;
  };
  Selection by_distance(ir::Value numbers);
  Selection by_upper_bits();
  Tuple by_keys(ir::Value present);
  template <class F, class G>
  Tuple either(ir::Value condition, DType first, const F& f, const G& g);
  /// Negates if needed, so that the largest number is the best; an involution.
  ir::Value oriented(ir::Value numbers);

  Indices places() const;
  ir::Value among_wanted(ir::Value flags);

  ir::Value read_back(ir::Value index);
  ir::Value offset_of(ir::Value index);
  ir::Value is_wrong(ir::Value words, ir::Value best);
  ir::Value any_of(ir::Value flags);
  Tuple search();
  Tuple next_best(ir::Value last_key, ir::Value last_at);

  Lowering& l_;
  SortKey& key_;
  bool is_descending_, follows_exchanges_;
  const ir::LinearLayout &layout_, &result_;
  int axis_;
  std::int64_t count_, kept_;
  std::uint64_t index_mask_;
  Indices order_;  ///< registers by row, in each by index
  std::vector<ir::Dims> row_index_;
  /// Lane bits along the axis in merge order. The first `split_lanes_` of them divide the result,
  /// largest step first.
  std::vector<int> lane_bits_;
  std::size_t split_lanes_ = 0;
  // In the order of order_; `pads_` is none if no rows are padding.
  ir::Value given_, at_, pads_, keys_;
};

}  // namespace tegula::codegen
