#pragma once
// Elements of a sort as unsigned keys whose order is the order of the result.
#include "codegen/lower/fold_tuple.h"
#include "ir/analysis/sort_words.h"

namespace tegula::codegen {

/// A key of each register, in one of three forms: types of up to 16 bits (but f16) have one u32,
/// the ordered bits above the index; integers of 32 bits whose index nobody asks for the ordered
/// bits alone; the others have the ordered bits, u32 or u64, and the index as an i32 that decides
/// between equal ones. NaN stands behind numbers in either direction, what is not there behind NaN,
/// in order of the index.
class SortKey {
 public:
  SortKey(Lowering& l, DType dtype, bool descending, ir::SortWord word);

  /// `present`: a predicate for each register; none: all are there.
  Tuple encode(ir::Value registers, ir::Value index, ir::Value present);
  /// Values and indices; 0 and 0 of what is not there, if there is an index.
  Tuple decode(const Tuple& key);
  /// True where the first key stands before the second.
  ir::Value less(const Tuple& a, const Tuple& b);
  bool is_word() const { return word_ != ir::SortWord::None; }

 private:
  ir::Value number(std::uint64_t v);
  ir::Value ordered(ir::Value registers);
  ir::Value ordered_float(ir::Value registers);
  ir::Value forwards(ir::Value registers);
  ir::Value ordered_integer(ir::Value registers);
  ir::Value restored(ir::Value key);
  ir::Value restored_float(ir::Value key);
  std::uint64_t all_ones() const;
  bool is_packed() const { return word_ == ir::SortWord::KeyAndIndex; }
  bool has_canonical_nan() const { return wide_ == DType::f32; }

  Lowering& l_;
  DType dtype_, wide_, bits_;  ///< of the tile, of what is computed with, of the key
  bool is_descending_;
  ir::SortWord word_;
};

}  // namespace tegula::codegen
