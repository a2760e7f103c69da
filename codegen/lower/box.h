#pragma once
// A box of a view as addresses and predicates of one thread: shared by load_view, store_view and
// copy_async.
#include <vector>

#include "codegen/lower/lowering.h"
#include "ir/access.h"

namespace tegula::codegen {

/// Address and bounds of a box; created once per op and queried for the registers of a layout.
class Box {
 public:
  Box(Lowering& l, ir::OpId op);

  ir::Value base;              ///< pointer to the view's first element
  ir::Value offset;            ///< elements from the first element to the box's origin
  ir::Value scalar_predicate;  ///< true if the box is in bounds in the view dimensions that no tile
                               ///< dimension covers; none: always

  /// Returns the vectors of registers; one access of a thread covers one vector.
  std::vector<ir::Vector> vectors(const ir::LinearLayout& layout, int max_bytes = 16) const;

  struct Access {
    ir::Value addresses;  ///< one per vector
    ir::Value predicate;  ///< one per vector, or none
  };
  Access access(const std::vector<ir::Vector>& vectors, const ir::LinearLayout& layout);

 private:
  ir::Value limit(std::size_t v);
  ir::Value rows_inside(const std::vector<int>& leaders, const ir::LinearLayout& layout,
                        int tile_dim, const IndexParts& parts);
  struct Places {
    ir::Value offset;     ///< elements from the view's first element, per leader
    ir::Value predicate;  ///< in bounds of the view
  };
  Places places(const std::vector<int>& leaders, const ir::LinearLayout& layout);

  Lowering& l_;
  ir::OpId op_;
  ir::BoxAccess a_;
  ir::Type view_type_;
  std::vector<ir::Value> offsets_;  ///< per view dimension, simt
  std::vector<ir::Value> limits_;   ///< per view dimension, simt; none where no check is needed
  int gathered_ = -1;               ///< tile dimension that index tiles address
  DType index_ = DType::i32;
};

}  // namespace tegula::codegen
