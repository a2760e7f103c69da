#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "tegula/dtype.h"
#include "tegula/location.h"

/// Traced values, which kernel lambdas compute with. No arithmetic happens here: every operation is
/// recorded together with its location in the user's source.
namespace tegula {

class Index;
class Pick;
class Tile;
template <Element T>
class Scalar;
template <Element T>
class Ptr;

namespace dsl {
class Tracer;
}  // namespace dsl

/// Infinity and NaN as literals, which take the type of the other operand.
inline constexpr float inf = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

namespace detail {

template <class>
inline constexpr bool kNever = false;

template <class T>
concept Number = std::is_arithmetic_v<T>;

/// Node of an intrusive list, from which an object can remove itself.
struct Link {
  Link* previous = nullptr;
  Link* next = nullptr;
};

/// A scalar that the host may change between launches; see Scalar.
struct ScalarCell {
  std::uint64_t bits = 0;
  DType dtype = DType::i32;
};

}  // namespace detail

/// The extent of a tile's dimension: a C++ number, and an extent of other tiles.
class TileDim {
 public:
  /// `view_dim`: the dimension of a view that was read with `all` and may have fewer elements, or
  /// -1.
  TileDim(std::int64_t extent, int axis, std::int64_t view_dim, Loc at)
      : extent_(extent), view_dim_(view_dim), loc_(at), axis_(axis) {}
  /// Throws CompileError if the number of elements that exist is known only when the kernel runs.
  operator std::int64_t() const;

 private:
  friend class Extent;
  std::int64_t extent_, view_dim_;
  Loc loc_;
  int axis_;
};

/// Extents of a tile, which are C++ numbers. Any positive extent is legal; a tile has at most 6
/// dimensions and 2^20 elements: CompileError.
class Extent {
 public:
  template <std::integral T>
  Extent(T n, std::source_location at = std::source_location::current())
      : value_(static_cast<std::int64_t>(n)), loc_(at) {}
  Extent(const TileDim& like) : value_(like.extent_), loc_(like.loc_) {}
  std::int64_t value() const { return value_; }
  const Loc& loc() const { return loc_; }

 private:
  std::int64_t value_;
  Loc loc_;
};

/// A traced value: a scalar (rank 0) or a tile of any positive extents, of numbers or pointers,
/// with at most 6 dimensions and 2^20 elements. A Tile is a variable, not a value: assignment
/// rebinds it, and loops carry the variables that are rebound in them.
class Tile : private detail::Link {
 public:
  /// Has no value until it is assigned.
  Tile();
  Tile(const Tile& other);
  Tile(Tile&& other);
  /// A scalar constant of T's own type.
  template <detail::Number T>
  Tile(T literal, std::source_location at = std::source_location::current())
      : Tile(constant(static_cast<double>(literal), static_cast<std::int64_t>(literal), dtype_of<T>,
                      at)) {}
  ~Tile();

  Tile& operator=(const Tile& other) &;
  Tile& operator=(Tile&& other) &;
  template <class T>
  void operator=(T&&) && {
    static_assert(
        detail::kNever<T>,
        "tegula: this assigns to a temporary and would be lost. Only Out and InOut views can be "
        "stored to: declare the parameter Out<T, rank> or InOut<T, rank>.");
  }

  /// Not available: a traced value has no truth value while the kernel is being traced.
  template <std::same_as<bool> B>
  explicit operator B() const {
    static_assert(detail::kNever<B>,
                  "tegula: a traced value has no bool while the kernel is traced, so it cannot "
                  "steer a C++ if, "
                  "while, ?: or assert. Use if_(condition, [&] {...}), while_(...) or "
                  "where(condition, a, b).");
    return false;
  }

  bool defined() const { return trace_ != 0; }
  DType dtype() const;
  bool is_pointer() const;
  /// Returns the extents; empty for a scalar. A dimension that was read with `all` may have room
  /// for more elements than exist.
  std::vector<std::int64_t> shape() const;
  int rank() const;
  /// Returns the extent of a dimension; a negative axis counts from the last. If `all` read it from
  /// a dimension whose extent is known only when the kernel runs, it is an extent of other tiles
  /// (`zeros<f32>(t.dim(0))`) but not a number: that is the view's dim().
  TileDim dim(int axis, std::source_location at = std::source_location::current()) const;
  /// Returns the tile with its last two dimensions exchanged.
  Tile T(std::source_location at = std::source_location::current()) const;
  /// Returns the tile with a new dimension of extent 1 at `axis`.
  Tile expand(int axis, std::source_location at = std::source_location::current()) const;
  Tile reshape(std::initializer_list<Extent> shape,
               std::source_location at = std::source_location::current()) const;

  /// Returns a part of the tile, by one pick per dimension: `all`, `part(first, extent)`, or one
  /// element (an integer or an integer scalar), whose dimension disappears. `none` adds a dimension
  /// of extent 1: `row(none, all)`. See Pick in shape_ops.h.
  Tile operator()(const Pick& a) const;
  Tile operator()(const Pick& a, const Pick& b) const;
  Tile operator()(const Pick& a, const Pick& b, const Pick& c) const;
  Tile operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d) const;
  Tile operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d, const Pick& e) const;
  Tile operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d, const Pick& e,
                  const Pick& f) const;

 private:
  friend class dsl::Tracer;
  friend class Arg;
  static Tile constant(double f, std::int64_t i, DType dtype, Loc at);
  void enlist();

  std::uint64_t trace_ = 0;  ///< trace that the value belongs to; 0: none
  std::uint32_t value_ = 0;
  std::uint32_t scope_ = 0;  ///< the loop or branch body the variable was made in; 0: none
};

/// Returns text for debuggers and prints: the contents with TEGULA_EAGER=1, otherwise the type.
std::string debug_string(const Tile& tile);

/// An operand of the operators: a traced value or a C++ number, with its source location. Numbers
/// are weak: they take the element type of the other operand.
class Arg {
 public:
  enum class Kind : std::uint8_t { None, Value, Int, Float, Bool };

  /// Absent, for optional operands.
  Arg() = default;
  Arg(const Tile& t, std::source_location at = std::source_location::current())
      : loc_(at), trace_(t.trace_), value_(t.value_), kind_(Kind::Value) {}
  Arg(const Index& i, std::source_location at = std::source_location::current());
  Arg(const TileDim& extent, std::source_location at = std::source_location::current())
      : Arg(static_cast<std::int64_t>(extent), at) {}
  template <Element T>
  Arg(const Scalar<T>& s, std::source_location at = std::source_location::current());
  template <Element T>
  Arg(const Ptr<T>& p, std::source_location at = std::source_location::current());
  template <detail::Number T>
  Arg(T literal, std::source_location at = std::source_location::current())
      : loc_(at),
        int_(static_cast<std::int64_t>(literal)),
        float_(static_cast<double>(literal)),
        kind_(std::is_same_v<T, bool> ? Kind::Bool
              : std::is_integral_v<T> ? Kind::Int
                                      : Kind::Float) {}

  Kind kind() const { return kind_; }
  bool present() const { return kind_ != Kind::None; }
  bool is_literal() const { return kind_ >= Kind::Int; }
  std::int64_t as_int() const { return int_; }
  double as_float() const { return kind_ == Kind::Float ? float_ : static_cast<double>(int_); }
  const Loc& loc() const { return loc_; }
  Arg at(Loc loc) const {
    Arg a = *this;
    a.loc_ = loc;
    return a;
  }

 private:
  friend class dsl::Tracer;
  Loc loc_;
  std::uint64_t trace_ = 0;
  std::int64_t int_ = 0;
  double float_ = 0;
  std::uint32_t value_ = 0;
  Kind kind_ = Kind::None;
};

/// Arithmetic. Element types are promoted by kind (bool < int < float), then width, f16 before
/// bf16, unsigned before signed; shapes are broadcast by their trailing dimensions. `/` and `%` of
/// integers truncate as in C.
Tile operator+(const Arg& a, const Arg& b);
Tile operator-(const Arg& a, const Arg& b);
Tile operator*(const Arg& a, const Arg& b);
Tile operator/(const Arg& a, const Arg& b);
Tile operator%(const Arg& a, const Arg& b);
Tile operator&(const Arg& a, const Arg& b);
Tile operator|(const Arg& a, const Arg& b);
Tile operator^(const Arg& a, const Arg& b);
Tile operator<<(const Arg& a, const Arg& b);
Tile operator>>(const Arg& a, const Arg& b);
Tile operator-(const Arg& a);
Tile operator~(const Arg& a);

/// Comparisons return i1.
Tile operator==(const Arg& a, const Arg& b);
Tile operator!=(const Arg& a, const Arg& b);
Tile operator<(const Arg& a, const Arg& b);
Tile operator<=(const Arg& a, const Arg& b);
Tile operator>(const Arg& a, const Arg& b);
Tile operator>=(const Arg& a, const Arg& b);

/// Logic on i1; numbers are true unless zero. Both sides are always evaluated.
Tile operator&&(const Arg& a, const Arg& b);
Tile operator||(const Arg& a, const Arg& b);
Tile operator!(const Arg& a);
// Without these overloads the built-in operators would match a Tile equally well, because of its
// conversion to bool (which exists to be rejected).
Tile operator&&(const Tile& a, const Tile& b);
Tile operator||(const Tile& a, const Tile& b);
inline Tile operator&&(const Tile& a, bool b) { return Arg(a) && Arg(b); }
inline Tile operator||(const Tile& a, bool b) { return Arg(a) || Arg(b); }
inline Tile operator&&(bool a, const Tile& b) { return Arg(a) && Arg(b); }
inline Tile operator||(bool a, const Tile& b) { return Arg(a) || Arg(b); }
Tile operator!(const Tile& a);

/// Rebinds the variable to the result.
Tile& operator+=(Tile& a, const Arg& b);
Tile& operator-=(Tile& a, const Arg& b);
Tile& operator*=(Tile& a, const Arg& b);
Tile& operator/=(Tile& a, const Arg& b);
Tile& operator%=(Tile& a, const Arg& b);
Tile& operator&=(Tile& a, const Arg& b);
Tile& operator|=(Tile& a, const Arg& b);
Tile& operator^=(Tile& a, const Arg& b);
Tile& operator<<=(Tile& a, const Arg& b);
Tile& operator>>=(Tile& a, const Arg& b);

/// An index along one dimension. It passes the dimension's extent to shapes and its name to
/// messages. grid(), steps() and slice() make them. first() and indices(), like extents and strides
/// of views, are of type `index`: i32 in code, or i64 if an argument is that large. An index and an
/// i32 give an index, an index and an i64 an i64. A variable that is an i32 before a loop or a
/// branch cannot become an index in it, whatever the tensors' sizes: cast<i32> or cast<i64> it.
class Index {
 public:
  /// Covers `block` elements from `first`.
  Index(Tile first, std::int64_t block, const char* dimension = "");

  /// Returns the first element's index.
  const Tile& first() const { return first_; }
  /// Returns the number of elements. An index with block 1 is a scalar and drops its dimension,
  /// except after keep().
  std::int64_t block() const { return block_; }
  /// Returns the name of the dimension, or "" if it has none.
  const char* dimension() const { return dimension_; }
  /// Returns the indices of all elements: a scalar for block 1 unless kept, else a tile of one
  /// dimension.
  Tile indices(std::source_location at = std::source_location::current()) const;
  /// Returns an index of the same number of elements that starts `by` elements later.
  Index shifted(const Arg& by) const;
  /// Returns an index of `block` elements that starts at element `offset` of this one.
  Index slice(const Arg& offset, std::int64_t block) const;
  /// Returns the same elements, but those at or beyond `end` (an integer) are absent: loads skip
  /// them, stores and atomic operations drop them, and values computed from indices() are absent
  /// there too. `shifted` moves the end by the same distance, `slice` keeps it. An index of one
  /// element must be less than the end (`cpu` and `sim` check this).
  Index until(const Arg& end) const;
  /// Returns the end that was set by `until`, if any.
  const std::optional<Tile>& end() const { return end_; }
  /// Returns true if subscripting by the index drops the dimension.
  bool drops_dimension() const { return block_ == 1 && !keeps_; }

  operator Tile() const { return indices(); }

 private:
  friend Index keep(const Index& i);
  Tile first_;
  std::int64_t block_;
  const char* dimension_;
  std::optional<Tile> end_;
  bool keeps_ = false;
};

/// Returns the same index, but with a block of 1 it keeps its dimension, with extent 1, instead of
/// dropping it: for blocks that may be 1, as of `tune("ROWS", {1, 4, 8})`.
Index keep(const Index& i);

/// A new dimension of extent 1 in `t(all, none)`.
struct NewDim {};
inline constexpr NewDim none{};
/// Keeps the folded dimension with extent 1: `sum(t, 1, keepdims)`.
struct KeepDims {};
inline constexpr KeepDims keepdims{};

/// Selects a whole dimension of a view or tile; as a function, tests if an i1 tile is all true.
struct All {
  Tile operator()(const Arg& t) const;
  Tile operator()(const Arg& t, int axis) const;
  Tile operator()(const Arg& t, int axis, KeepDims) const;
};
inline constexpr All all{};

/// Returns an index of `block` elements of a dimension from `first`.
Index slice(const Arg& first, std::int64_t block);

}  // namespace tegula
