#pragma once
// Encodes elements of a sort as unsigned keys whose order is the order of the result.
#include "codegen/lower/fold_tuple.h"
#include "ir/analysis/sort_words.h"

namespace tegula::codegen {

/// A key per register, in one of three forms. Types of up to 16 bits except f16: one u32, the
/// ordered bits above the index. 32-bit integers whose index is unused: the ordered bits only. All
/// others: the ordered bits, u32 or u64, and the index as an i32 that orders equal keys. NaN
/// follows all numbers in either direction, and absent elements follow NaN, in index order.
class SortKey {
 public:
  SortKey(Lowering& l, DType dtype, bool descending, ir::SortWord word);

  /// `present`: a predicate for each register; none: all elements are present.
  Tuple encode(ir::Value registers, ir::Value index, ir::Value present);
  /// Returns values and indices; 0 and 0 for absent elements if the key has an index.
  Tuple decode(const Tuple& key);
  /// Returns a predicate: true where the first key precedes the second.
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
  DType dtype_, wide_, bits_;  ///< of the tile, of the computation, of the key
  bool is_descending_;
  ir::SortWord word_;
};

}  // namespace tegula::codegen
