#pragma once
// Types of the IR: interned, immutable, compared by identity. One set of types serves all three
// forms; `docs/ir.md` lists the types of each form.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tegula/dtype.h"

namespace tegula::ir {

class LinearLayout;
class SharedLayout;

enum class TypeKind : std::uint8_t { Scalar, Tile, Vec, View, Shared, Pending, TensorMap, Token };

/// Type of one element: a number, or a pointer to numbers in global memory.
struct Elem {
  DType dtype = DType::i32;
  bool pointer = false;
  friend bool operator==(const Elem&, const Elem&) = default;
};

enum class Access : std::uint8_t { In, Out, InOut };

/// Extent or stride that is only known at launch.
inline constexpr std::int64_t kDynamic = -1;

/// Facts about a tensor: for an argument, those that the signature of a call fixes; for a
/// make_view, those known about its operands. All lists have the view's rank.
struct ViewFacts {
  std::vector<std::int64_t> strides;     ///< elements, kDynamic if only known at launch
  std::vector<std::int64_t> dim_div;     ///< the extent is a multiple of this
  std::vector<std::int64_t> stride_div;  ///< the stride is a multiple of this
  std::int64_t align = 1;                ///< the base address is a multiple of this many bytes
  Access access = Access::In;
  bool is_made = false;  ///< by a make_view in the kernel: it has no tensor map
  friend bool operator==(const ViewFacts&, const ViewFacts&) = default;
};

struct TypeData;

/// Handle of an interned type; cheap to copy. A default-constructed Type is "none".
class Type {
 public:
  Type() = default;

  static Type scalar(DType d);
  static Type pointer(DType pointee);
  static Type of(Elem e);
  static Type tile(Elem e, std::span<const std::int64_t> shape,
                   const LinearLayout* layout = nullptr);
  /// `count` registers of a thread. A Vec of one element is not the same type as the scalar.
  static Type vec(Elem e, std::int64_t count);
  static Type view(DType d, std::span<const std::int64_t> shape, ViewFacts facts);
  static Type shared(DType d, std::span<const std::int64_t> shape, const SharedLayout* layout);
  static Type pending(Type result);
  static Type tensor_map();
  static Type token();

  explicit operator bool() const { return data_ != nullptr; }
  friend bool operator==(Type, Type) = default;

  TypeKind kind() const;
  bool is(TypeKind k) const { return data_ != nullptr && kind() == k; }
  bool is_scalar() const { return is(TypeKind::Scalar); }
  bool is_tile() const { return is(TypeKind::Tile); }
  bool is_vec() const { return is(TypeKind::Vec); }
  bool is_view() const { return is(TypeKind::View); }

  Elem elem() const;
  DType dtype() const { return elem().dtype; }
  bool is_pointer() const { return elem().pointer; }
  /// Returns the extents of a Tile, Shared or View; {count} of a Vec; {} of a scalar.
  std::span<const std::int64_t> shape() const;
  std::int64_t rank() const { return static_cast<std::int64_t>(shape().size()); }
  /// Returns the product of the extents (1 for a scalar).
  std::int64_t count() const;
  const LinearLayout* layout() const;
  const SharedLayout* shared_layout() const;
  const ViewFacts& view_facts() const;
  /// Returns the type to which a Pending resolves.
  Type inner() const;

  /// Returns the type with the same kind, shape and layout, but another element.
  Type with_elem(Elem e) const;
  Type with_dtype(DType d) const { return with_elem({d, false}); }
  Type with_layout(const LinearLayout* layout) const;

  std::string str() const;

 private:
  explicit Type(const TypeData* d) : data_(d) {}
  friend Type intern_type(TypeData);
  const TypeData* data_ = nullptr;
};

/// Returns the unique copy of a layout, alive as long as the process, so that types can be compared
/// by identity.
const LinearLayout* intern_layout(const LinearLayout& layout);
const SharedLayout* intern_layout(const SharedLayout& layout);

/// Parses a type at the beginning of `text` and removes it. Returns nothing, and leaves the text
/// unchanged, if there is none.
std::optional<Type> parse_type(std::string_view& text);

}  // namespace tegula::ir
