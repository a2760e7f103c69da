#pragma once
// The type `index` of indices(), first(), dim(), stride() and steps: i32 in code, i64 if an
// argument is that large. A mark for each value distinguishes an index from an i32 (or i64), so
// that a kernel has the same meaning for tensors of any size.
#include <string>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/kernel.h"

namespace tegula::dsl {

class IndexTypes {
 public:
  enum class Kind : std::uint8_t {
    Number,   ///< a number of its IR type
    Index,    ///< a number of the type `index`
    Adapted,  ///< a literal or an implicit conversion: adapts to the other operand
  };

  explicit IndexTypes(ir::Kernel& kernel) : k_(kernel) {}

  bool is_index(ir::Value v) { return kind(v) == Kind::Index; }
  void set(ir::Value v, Kind kind) { kinds_[v] = kind; }
  /// Returns the same number as a value of that kind: `v` itself if it has that kind.
  ir::Value restated(ir::Builder& b, ir::Value v, Kind kind);
  /// Marks `result` as an implicit conversion of `v`.
  void set_converted(ir::Value v, ir::Value result);
  /// Returns true if two values have the same type for tensors of all sizes.
  bool is_same_type(ir::Value a, ir::Value b) {
    return k_.type(a) == k_.type(b) && is_index(a) == is_index(b);
  }
  /// Returns the type as text: "tile<16xindex>".
  std::string type_text(ir::Value v);

 private:
  Kind kind(ir::Value v);
  Kind kind_of_result(const ir::OpData& d, ir::Value v);
  Kind together(std::span<const ir::Value> operands);

  ir::Kernel& k_;
  std::unordered_map<ir::Value, Kind> kinds_;
};

/// Returns the value that was restated, or `v` if it is not a restatement.
ir::Value stated(const ir::Kernel& k, ir::Value v);
/// Removes all restatements from the kernel.
void remove_restatements(ir::Kernel& k);

}  // namespace tegula::dsl
