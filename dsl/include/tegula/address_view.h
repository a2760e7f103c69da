#pragma once
#include <array>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tegula/value.h"
#include "tegula/view.h"

/// Views that a kernel makes of memory at an address: for example the tensors of a table of
/// addresses, whose extents and strides are in device memory, too.
namespace tegula {

/// Returns the address as a pointer to elements of T, or a tile of them, from a u64 or i64 in a
/// table, such as `reinterpret_cast<std::uint64_t>(tensor.data())`. Throws CompileError for other
/// types. The devices `cpu` and `sim` check that accesses are inside a tensor that is alive.
Tile as_pointer(const Arg& address, DType pointee);
template <Element T>
Tile as_pointer(const Arg& address) {
  return as_pointer(address, dtype_of<T>);
}

namespace detail {

/// Elements along a dimension of a part that one access may cover: they are contiguous and aligned
/// to their total size.
struct ElementRun {
  int axis = -1;
  std::int64_t elements = 1;
  bool is_whole = false;  ///< such elements are all inside, or all outside
};

/// A part of such a view: a box with its first elements and its ends (which may be absent), or,
/// with index tiles, the addresses of its elements and whether each is inside.
struct AddressedPart {
  bool is_box = false;
  std::vector<Arg> firsts, ends;
  Arg pointers, inside;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> axes;  ///< dimension of the tensor for each dimension of the shape
  ElementRun run;
  Arg view;
  Loc loc;
};

/// Recorded where the kernel makes it, so that no loop around an access hides what is known about
/// its extents and strides.
struct AddressedTensor {
  AddressedTensor(const Arg& pointer, DType pointee, std::span<const Arg> extents,
                  std::span<const Arg> strides, int alignment);

  Arg pointer;
  std::vector<Arg> extents, strides;
  int alignment = 0;       ///< bytes; 0: that of an element
  std::uint32_t view = 0;  ///< number of the recorded view

  Tile dim(int axis, Loc at) const;
  AddressedPart part(std::span<const Subscript> subscripts, Loc at) const;
  Tile read(const AddressedPart& part, std::span<const Subscript> subscripts) const;
};

void store_part(const AddressedPart& part, const Arg& value);

}  // namespace detail

/// A part of an AddressView: a tile to compute with, and the target of `view(i, j) = tile`.
class AddressTile : public Tile {
 public:
  /// Called by AddressView.
  AddressTile(Tile loaded, detail::AddressedPart part)
      : Tile(std::move(loaded)), part_(std::move(part)) {}
  AddressTile(const AddressTile&) = default;
  AddressTile(AddressTile&&) = default;

  /// Stores the value, rounded to the element type; elements outside the tensor are dropped.
  void operator=(const Arg& value) && { detail::store_part(part_, value); }
  void operator=(const AddressTile& value) && {
    std::move(*this) = Arg(static_cast<const Tile&>(value));
  }
  /// Loads the elements, combines them with the value, and stores the results. Not atomic.
  void operator+=(const Arg& value) && { std::move(*this) = Arg(Arg(*this) + value); }
  void operator-=(const Arg& value) && { std::move(*this) = Arg(Arg(*this) - value); }
  void operator*=(const Arg& value) && { std::move(*this) = Arg(Arg(*this) * value); }

 private:
  detail::AddressedPart part_;
};

namespace detail {
template <class Ranks>
struct Addressed;
template <std::size_t... I>
struct Addressed<std::index_sequence<I...>> {
  AddressTile operator()(SubscriptAt<I>... s) const {
    const std::array<Subscript, sizeof...(I)> all{s...};
    const AddressedPart part = tensor.part(all, all.front().loc());
    return AddressTile(tensor.read(part, all), part);
  }
  AddressedTensor tensor;
};
}  // namespace detail

/// A tensor at an address, used like an InOut parameter: `w(i, j)` is a tile whose elements outside
/// the extents are absent, `w(i, j) = t` stores. A subscript is an Index, an integer or an index
/// tile of one dimension; `all` is not supported. Elements are read and written one by one, so that
/// any address and any strides work, unless the view is `aligned`. Extents are not checked (a
/// negative one is 0). Other views may share the memory, so that accesses keep their order with all
/// others of the program.
template <Element T, int Rank>
class AddressView : public detail::Addressed<std::make_index_sequence<Rank>> {
 public:
  explicit AddressView(detail::AddressedTensor tensor)
      : detail::Addressed<std::make_index_sequence<Rank>>{std::move(tensor)} {}
  /// Returns the extent of a dimension; a negative axis counts from the last.
  Tile dim(int axis, std::source_location at = std::source_location::current()) const {
    return this->tensor.dim(axis, at);
  }
  Tile rows(std::source_location at = std::source_location::current()) const { return dim(0, at); }
  Tile cols(std::source_location at = std::source_location::current()) const { return dim(1, at); }
};

/// Address and strides are multiples of this many bytes.
struct Alignment {
  int bytes = 0;  ///< 0: no promise
};
/// Promises that the address of a view and all its strides other than 1 are multiples of this many
/// bytes: a power of two from the size of an element to 16. Parts then move in chunks of up to this
/// many bytes, along the dimension whose stride is the constant 1, if the compiler can prove that
/// they begin at a multiple of a chunk (`slice(c * 512, 512)`, steps from 0). A chunk that crosses
/// the end of the tensor moves element by element; an extent that is provably a multiple (`8 *
/// table(i)`) has no such chunks, and then the loop of a GEMM prefetches its operands, 16 bytes at
/// a time. The devices `cpu` and `sim` check the promise.
inline Alignment aligned(int bytes) { return {bytes}; }

/// Returns the tensor of these extents and strides (in elements) at an address, a pointer scalar:
///
///   const auto W = view<bf16, 2>(as_pointer<bf16>(table(i, 0)), {rows, cols}, {cols, 1});
///   const auto V = view<f32, 1>(as_pointer<f32>(table(i, 1)), {n}, {1}, aligned(16));
///
/// Throws CompileError if the pointer does not point to T, an extent or stride is not an integer,
/// or the alignment is invalid.
template <Element T, int Rank>
AddressView<T, Rank> view(const Arg& pointer, const std::array<Arg, Rank>& extents,
                          const std::array<Arg, Rank>& strides, Alignment alignment = {}) {
  static_assert(Rank > 0, "tegula: a view at an address needs a dimension");
  return AddressView<T, Rank>(
      detail::AddressedTensor(pointer, dtype_of<T>, extents, strides, alignment.bytes));
}

}  // namespace tegula
