#pragma once
// The type `index` of what indices(), first(), dim(), stride() and steps give: i32 in code, i64
// where some argument is that large. So that a kernel means the same for tensors of any size, a
// value that is an index is told apart from an i32 (or i64) by a mark beside it.
#include <string>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/kernel.h"

namespace tegula::dsl {

class IndexTypes {
 public:
  enum class Kind : std::uint8_t {
    Number,   ///< a number of the type that it has
    Index,    ///< a number of the type `index`
    Adapted,  ///< a literal, or a conversion that nobody wrote: takes what it meets
  };

  explicit IndexTypes(ir::Kernel& kernel) : k_(kernel) {}

  bool is_index(ir::Value v) { return kind(v) == Kind::Index; }
  void set(ir::Value v, Kind kind) { kinds_[v] = kind; }
  /// The same number as a value of that kind: `v` itself where it is one.
  ir::Value restated(ir::Builder& b, ir::Value v, Kind kind);
  /// `result` of an unwritten conversion of `v`.
  void set_converted(ir::Value v, ir::Value result);
  /// Whether two values have one type for tensors of all sizes.
  bool is_same_type(ir::Value a, ir::Value b) {
    return k_.type(a) == k_.type(b) && is_index(a) == is_index(b);
  }
  /// "tile<16xindex>"
  std::string type_text(ir::Value v);

 private:
  Kind kind(ir::Value v);
  Kind kind_of_result(const ir::OpData& d, ir::Value v);
  Kind together(std::span<const ir::Value> operands);

  ir::Kernel& k_;
  std::unordered_map<ir::Value, Kind> kinds_;
};

/// The value that a restatement was made of, or `v`.
ir::Value stated(const ir::Kernel& k, ir::Value v);
/// Takes all restatements out of the kernel.
void remove_restatements(ir::Kernel& k);

}  // namespace tegula::dsl
