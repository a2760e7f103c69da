#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <utility>

#include "tegula/hints.h"
#include "tegula/host_number.h"
#include "tegula/tensor.h"
#include "tegula/value.h"

/// Kernel parameters: views of tensors, run-time scalars and raw pointers.
namespace tegula {

class Segments;

/// Selects elements along one dimension of a view: an Index, a scalar (the dimension disappears),
/// the whole dimension (`all`), or an index tile, which lists the positions one by one. Combined
/// with boxes, an index tile selects whole lines: `x(rows, k)` gathers rows, `y(rows, n) = t`
/// scatters them, `atomic_add(y(rows, n), t)` adds to them. Several index tiles are paired element
/// by element, as operands are; their dimensions replace the first one's. A position outside the
/// view reads 0, and stores to it are dropped. An absent position gives an absent line, and stores
/// to it are dropped. If one scatter stores several lines to one position, one of them remains.
class Subscript {
 public:
  Subscript(const Index& i, std::source_location at = std::source_location::current());
  Subscript(const All&, std::source_location at = std::source_location::current());
  Subscript(const Tile& t, std::source_location at = std::source_location::current());
  template <Element T>
  Subscript(const Scalar<T>& s, std::source_location at = std::source_location::current());
  template <std::integral T>
  Subscript(T i, std::source_location at = std::source_location::current())
      : first_(i, at), loc_(at) {}

  const Arg& first() const { return first_; }
  std::int64_t block() const { return block_; }
  bool is_all() const { return whole_; }
  /// Returns true if the part does not have this dimension.
  bool drops_dimension() const { return drops_; }
  const char* dimension() const { return dimension_; }
  /// Elements at or beyond this end, if there is one, are absent (Index::until).
  const Arg& end() const { return end_; }
  const Loc& loc() const { return loc_; }
  /// Returns the same subscript at another location.
  Subscript at(const Loc& loc) const {
    Subscript moved = *this;
    moved.first_ = first_.at(loc), moved.loc_ = loc;
    return moved;
  }

 private:
  Arg first_, end_;
  std::int64_t block_ = 1;
  bool whole_ = false, drops_ = true;
  const char* dimension_ = "";
  Loc loc_;
};

/// A sub-view of an Out or InOut view: a tile to compute with, and the target of `view(i, j) =
/// tile`.
class ViewTile : public Tile {
 public:
  /// Called by views.
  ViewTile(Tile loaded, std::uint32_t access) : Tile(std::move(loaded)), access_(access) {}
  ViewTile(const ViewTile&) = default;
  ViewTile(ViewTile&&) = default;

  /// Stores the value, rounded to the view's element type; elements outside the tensor are
  /// dropped.
  void operator=(const Arg& value) &&;
  void operator=(const ViewTile& value) && {
    std::move(*this) = Arg(static_cast<const Tile&>(value));
  }
  /// Loads the elements, combines them with the value, and stores the results. Not atomic.
  void operator+=(const Arg& value) &&;
  void operator-=(const Arg& value) &&;
  void operator*=(const Arg& value) &&;
  /// Rebinds a named variable; nothing is stored.
  ViewTile& operator=(const Arg& value) &;
  ViewTile& operator=(const ViewTile& value) &;

 private:
  friend class dsl::Tracer;
  friend Tile atomic_add(const ViewTile&, const Arg&, std::source_location);
  friend Tile atomic_max(const ViewTile&, const Arg&, std::source_location);
  friend Tile atomic_min(const ViewTile&, const Arg&, std::source_location);
  std::uint32_t access_;
};

namespace detail {
/// A parameter of the kernel that is being traced, and of no other.
struct Parameter {
  Parameter() = default;
  explicit Parameter(std::uint32_t position);
  std::uint32_t number = 0;
  std::uint64_t trace = 0;
};
}  // namespace detail

/// Base class of all views. A view is a parameter, not a variable.
class View {
 public:
  int rank() const { return rank_; }
  DType dtype() const { return dtype_; }
  /// Returns the extent of a dimension, known at launch; a negative axis counts from the last.
  Tile dim(int axis, std::source_location at = std::source_location::current()) const;
  Tile rows(std::source_location at = std::source_location::current()) const { return dim(0, at); }
  Tile cols(std::source_location at = std::source_location::current()) const { return dim(1, at); }
  /// Returns the stride of a dimension, in elements.
  Tile stride(int axis, std::source_location at = std::source_location::current()) const;
  /// Returns the extent as a C++ number: the kernel is specialized for it, and compiled again for
  /// each new extent.
  int static_dim(int axis, std::source_location at = std::source_location::current()) const;
  /// Compiles the kernel once for all extents of the dimension. By default it is compiled once for
  /// each largest divisor of the extent among 1, 2, 4, 8 and 16.
  void do_not_specialize(int axis, std::source_location at = std::source_location::current()) const;
  /// Does the same for the strides other than 1. For tensors that are read and written element by
  /// element; wider accesses and TMA need strides that are multiples of whole granules.
  void do_not_specialize_stride(int axis,
                                std::source_location at = std::source_location::current()) const;

 protected:
  friend class dsl::Tracer;
  friend class Segments;
  View(std::uint32_t param, DType dtype, int rank) : param_(param), dtype_(dtype), rank_(rank) {}
  Tile read(std::span<const Subscript> subscripts, Loc at) const;
  ViewTile access(std::span<const Subscript> subscripts, Loc at) const;
  void set_hints(Hints hints) { hints_ = hints; }
  void set_partial(std::source_location at) const;

 private:
  detail::Parameter param_;
  DType dtype_;
  int rank_;
  Hints hints_ = {};
};

namespace detail {

template <std::size_t>
using SubscriptAt = const Subscript&;

/// A view whose first subscript is given.
template <class Whole, class Ranks>
struct SubView;
template <class Whole, std::size_t... I>
struct SubView<Whole, std::index_sequence<I...>> {
  auto operator()(SubscriptAt<I>... s) const { return whole(first, s...); }
  const Whole& whole;
  Subscript first;
};

// Subscripts are not template parameters, so that each is converted where the user wrote it and
// captures that location.
template <class Ranks>
struct Readable;
template <std::size_t... I>
struct Readable<std::index_sequence<I...>> : View {
  using View::View;
  Tile operator()(SubscriptAt<I>... s) const {
    const std::array<Subscript, sizeof...(I)> all{s...};
    return read(all, all.front().loc());
  }
  /// `x[b](m, n)` is `x(b, m, n)`: for code that treats each sub-view alike.
  auto operator[](const Subscript& first) const
    requires(sizeof...(I) > 1)
  {
    return SubView<Readable, std::make_index_sequence<sizeof...(I) - 1>>{*this, first};
  }
};
/// A view of rank 0 is one element: `x()`.
template <>
struct Readable<std::index_sequence<>> : View {
  using View::View;
  Tile operator()(std::source_location at = std::source_location::current()) const {
    return read({}, at);
  }
};
template <class Ranks>
struct Writable;
template <std::size_t... I>
struct Writable<std::index_sequence<I...>> : View {
  using View::View;
  ViewTile operator()(SubscriptAt<I>... s) const {
    const std::array<Subscript, sizeof...(I)> all{s...};
    return access(all, all.front().loc());
  }
  /// `x[b](m, n)` is `x(b, m, n)`: for code that treats each sub-view alike.
  auto operator[](const Subscript& first) const
    requires(sizeof...(I) > 1)
  {
    return SubView<Writable, std::make_index_sequence<sizeof...(I) - 1>>{*this, first};
  }
};

/// A view of rank 0 is one element: `y() = v`.
template <>
struct Writable<std::index_sequence<>> : View {
  using View::View;
  ViewTile operator()(std::source_location at = std::source_location::current()) const {
    return access({}, at);
  }
};

}  // namespace detail

/// A tensor that the kernel reads: `x(i, j)` is a tile, and `x()` the one element of `In<T, 0>`.
/// Elements of a box outside the tensor are absent: elementwise operations keep them absent,
/// `where` and `if_` are absent where the selected side is, reductions, scans and dot products
/// skip them, `a += x` leaves `a` unchanged, and stores drop them. A single element (all of its
/// subscripts are scalars) and elements selected by integer tiles are always present: outside the
/// tensor they are 0. To replace that 0 by v, write `fill_absent(x(i), v)` directly after the read
/// of a single element. For selected elements write `where(ids >= 0, x(ids), v)`, which keeps
/// those whose index is not negative.
template <Element T, int Rank>
class In : public detail::Readable<std::make_index_sequence<Rank>> {
 public:
  explicit In(std::uint32_t param)
      : detail::Readable<std::make_index_sequence<Rank>>(param, dtype_of<T>, Rank) {}
  /// Returns the same view with these hints on its loads and stores.
  In with(Hints hints) const {
    In view = *this;
    view.set_hints(hints);
    return view;
  }
};

/// A tensor that the kernel defines: `z(i, j) = tile`, or `z() = scalar` for an `Out<T, 0>`. A
/// launch stores every element; `cpu` and `sim` report elements that no program stored.
template <Element T, int Rank>
class Out : public detail::Writable<std::make_index_sequence<Rank>> {
 public:
  explicit Out(std::uint32_t param)
      : detail::Writable<std::make_index_sequence<Rank>>(param, dtype_of<T>, Rank) {}
  /// Returns the same view with these hints on its loads and stores.
  Out with(Hints hints) const {
    Out view = *this;
    view.set_hints(hints);
    return view;
  }
  /// Allows the launch to leave elements unchanged; their old values are not read. Called once in
  /// the kernel.
  void partial(std::source_location at = std::source_location::current()) const {
    this->set_partial(at);
  }
};

/// A tensor the kernel reads and writes.
template <Element T, int Rank>
class InOut : public detail::Writable<std::make_index_sequence<Rank>> {
 public:
  explicit InOut(std::uint32_t param)
      : detail::Writable<std::make_index_sequence<Rank>>(param, dtype_of<T>, Rank) {}
  /// Returns the same view with these hints on its loads and stores.
  InOut with(Hints hints) const {
    InOut view = *this;
    view.set_hints(hints);
    return view;
  }
};

/// A number known at launch. A kernel parameter of this type is one argument. A Scalar made on the
/// host and captured by the lambda is an argument too, read again at every launch: `set` changes it
/// without recompilation. Copies share the number.
template <Element T>
class Scalar {
 public:
  Scalar() : Scalar(T{}) {}
  /// A number that the host can change between launches. Throws CompileError T0713 at the caller's
  /// line if T does not hold it.
  template <detail::HostNumeric V>
  Scalar(const V& value, Loc at = std::source_location::current())
      : cell_(std::make_shared<detail::ScalarCell>()) {
    set({value, at});
  }
  Scalar(const Scalar&) = default;
  /// Shares the other's number. `volatile` keeps a number, converted to a temporary Scalar, from
  /// matching: it sets the shared number by the last overload.
  Scalar& operator=(const volatile Scalar& other) {
    const auto& same = const_cast<const Scalar&>(other);
    cell_ = same.cell_;
    param_ = same.param_;
    return *this;
  }
  template <std::same_as<Scalar> S>
  Scalar& operator=(S&& other) {
    return *this = std::as_const(other);
  }
  Scalar& operator=(detail::HostNumber<T> value) {
    set(value);
    return *this;
  }
  /// Changes the number for later launches. Throws CompileError T0713 at the caller's line if T
  /// does not hold it.
  void set(detail::HostNumber<T> value) {
    cell_->dtype = dtype_of<T>;
    cell_->bits = value.bits();
  }
  operator Tile() const { return value(); }
  /// Returns the traced value, inside a kernel.
  Tile value(std::source_location at = std::source_location::current()) const;
  /// Returns the number that copies share; null for a kernel's parameter.
  const std::shared_ptr<detail::ScalarCell>& cell() const { return cell_; }
  /// Returns the kernel's parameter at that position; called by kernel().
  static Scalar parameter(std::uint32_t position) { return Scalar(detail::Parameter(position)); }

 private:
  explicit Scalar(detail::Parameter p) : param_(p) {}
  std::shared_ptr<detail::ScalarCell> cell_;
  detail::Parameter param_;
};
template <Element T>
Scalar(T) -> Scalar<T>;

/// An address in device memory: `load(p + offsets, mask, fill)`.
template <Element T>
class Ptr {
 public:
  explicit Ptr(std::uint32_t param) : param_(param) {}
  operator Tile() const { return value(); }
  Tile value(std::source_location at = std::source_location::current()) const;

 private:
  detail::Parameter param_;
};

/// Returns a view of a Tensor that the lambda captured. It is a launch argument: its contents are
/// read at every launch, and the kernel is not specialized for them.
template <Element T, int Rank>
In<T, Rank> view(const Tensor& captured, std::source_location at = std::source_location::current());
/// Does the same for a captured tensor that the kernel reads and writes, like an InOut parameter: a
/// call rejects arguments, and other captured tensors, that share memory with it.
template <Element T, int Rank>
InOut<T, Rank> view_out(const Tensor& captured,
                        std::source_location at = std::source_location::current());

namespace detail {
Tile parameter_value(const Parameter& param, Loc at);
Tile captured_scalar(const std::shared_ptr<ScalarCell>& cell, Loc at);
std::uint32_t captured_tensor(const Tensor& tensor, DType dtype, int rank, Loc at,
                              bool is_written = false);
}  // namespace detail

template <Element T>
Tile Scalar<T>::value(std::source_location at) const {
  return cell_ ? detail::captured_scalar(cell_, at) : detail::parameter_value(param_, at);
}
template <Element T>
Tile Ptr<T>::value(std::source_location at) const {
  return detail::parameter_value(param_, at);
}
template <Element T>
Arg::Arg(const Scalar<T>& s, std::source_location at) : Arg(s.value(at), at) {}
template <Element T>
Arg::Arg(const Ptr<T>& p, std::source_location at) : Arg(p.value(at), at) {}
template <Element T>
Subscript::Subscript(const Scalar<T>& s, std::source_location at) : first_(s, at), loc_(at) {}
template <Element T, int Rank>
In<T, Rank> view(const Tensor& captured, std::source_location at) {
  return In<T, Rank>(detail::captured_tensor(captured, dtype_of<T>, Rank, at));
}
template <Element T, int Rank>
InOut<T, Rank> view_out(const Tensor& captured, std::source_location at) {
  return InOut<T, Rank>(detail::captured_tensor(captured, dtype_of<T>, Rank, at, true));
}

/// Returns rows of a paged cache [pages, rows per page, heads, elements] as one tile [n * rows per
/// page, elements]: the rows of one head in the pages that the index tile `table` [n] lists,
/// concatenated. A page outside the cache has rows of 0; an absent one has absent rows. The kernel
/// is compiled for these numbers of rows per page and of elements.
template <Element T>
Tile pages(const In<T, 4>& cache, const Tile& table, const Subscript& head) {
  const std::int64_t rows = cache.static_dim(1), elements = cache.static_dim(3);
  return cache(table, all, head, all).reshape({table.dim(0) * rows, elements});
}

}  // namespace tegula
