#pragma once
// The map from a tile element to its location in shared memory.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Bytes of a register, and of a bank.
inline constexpr int kWordBytes = 4;
/// Bytes of a row of an ldmatrix matrix: 8 elements of 16 bits.
inline constexpr int kMatrixRowBytes = 16;

/// `count` adjacent segments, whose rows have `width` bytes, with a hardware swizzle of `swizzle`
/// bytes (128, 64, 32; 0: none). In a swizzled segment the width is that of the swizzle.
struct SwizzleSegment {
  int swizzle = 0;
  int width = 0;
  int count = 1;
  friend bool operator==(const SwizzleSegment&, const SwizzleSegment&) = default;
};

/// A part of the tile in which one formula holds. With i' = i minus `begin` along the split
/// dimension: byte offset = base + sum over d of (i'[d] >> bits[d]) * stride[d] + XOR of the bases
/// of the low bits of i'.
struct Slab {
  int begin = 0;  ///< along the split dimension
  int end = 0;
  int swizzle = 0;  ///< hardware mode in bytes; also 0 for synthesised swizzles
  std::int64_t base = 0;
  Dims bits;  ///< low bits per dimension
  std::array<std::int64_t, kMaxRank>
      stride{};  ///< bytes per unit of the high part, a multiple of the low block
  std::array<std::uint32_t, 24>
      basis{};  ///< byte offset of each low bit; the last dimension's bits come first
  friend bool operator==(const Slab&, const Slab&) = default;

  /// Returns the position in `basis` of bit 0 of `dim`.
  int first_bit(int dim) const;
  /// Returns the bytes of the block that the low bits address.
  int block_bytes(int element_bytes) const;
};

/// How to divide a swizzled tile whose rows are wider than the swizzle into segments.
enum class SegmentRule : std::uint8_t {
  Equal,        ///< equal segments of the widest swizzle that divides a row: 192 B = 3 x 64
  WidestFirst,  ///< widest first: 192 B = 128 + 64, 320 B = 128 + 128 + 64
};

/// Layout of a tile in shared memory, a value type like LinearLayout. It has two text forms:
///
///     swz<128x160:2; order=[1,0]; rows=[128*2,64]>
///         hardware swizzles; 2-byte elements, dimension 1 fastest
///     mem<64x64:2; off=[(0,1),(0,2),(1,8),...]; rep=[0*3]>
///         element index of each offset bit (in elements)
///
/// A swizzle XORs address bits, so a tile must start at a multiple of alignment().
class SharedLayout {
 public:
  SharedLayout() = default;

  /// Creates plain strides without swizzle and padding. `order` lists dimensions fastest first.
  static SharedLayout plain(const Dims& shape, int element_bytes, const Dims& order);
  /// Divides the fastest dimension into `pieces`. Within each piece, the dimensions of `order` are
  /// nested, except for the last `batch` (outermost) ones, which enclose all pieces (pipeline
  /// stages). A last swizzled piece may extend beyond the row; the rest of it contains no elements.
  /// Refused if the swizzle of a row would not be a function of index bits (the number of rows is
  /// neither a multiple of 8 nor a power of two).
  static Result<SharedLayout> pieces(const Dims& shape, int element_bytes, const Dims& order,
                                     std::span<const SwizzleSegment> pieces, int batch = 0);
  /// Chooses the segments, with swizzles of at most `max_swizzle` bytes.
  static Result<SharedLayout> swizzled(const Dims& shape, int element_bytes, const Dims& order,
                                       int max_swizzle = 128, SegmentRule rule = SegmentRule::Equal,
                                       int batch = 0);
  /// Creates a layout in which offset bit b (in elements) selects index offset_basis[b]. The bases
  /// must be a basis of all `bits` of the index. `digits` are the parts of the dimensions above
  /// their bits, fastest first.
  static Result<SharedLayout> linear(const Dims& shape, int element_bytes,
                                     std::span<const Dims> offset_basis,
                                     std::span<const Repeat> digits = {});

  int rank() const { return shape_.size(); }
  const Dims& shape() const { return shape_; }
  int element_bytes() const { return element_bytes_; }
  /// Returns the dimensions, fastest first; empty for synthesised layouts.
  const Dims& order() const { return order_; }
  const std::vector<SwizzleSegment>& piece_list() const { return pieces_; }
  /// Returns the dimension along which the slabs divide the tile.
  int split_dim() const { return order_.empty() ? 0 : order_[0]; }
  const std::vector<Slab>& slabs() const { return slabs_; }
  const Slab& slab_of(const Dims& index) const;

  /// Returns the byte offset of an element of the tile.
  std::int64_t offset(const Dims& index) const;
  /// Returns the number of bytes to allocate.
  std::int64_t bytes() const { return bytes_; }
  /// Returns the required alignment of the tile's address in bytes.
  int alignment() const;

  std::string str() const;
  static Result<SharedLayout> parse(std::string_view text);
  friend bool operator==(const SharedLayout&, const SharedLayout&) = default;

 private:
  Dims shape_;
  int element_bytes_ = 1;
  Dims order_;
  std::vector<SwizzleSegment> pieces_;
  int batch_ = 0;
  std::vector<Dims> offset_basis_;  // basis of synthesised layouts
  std::vector<Repeat> digits_;
  std::vector<Slab> slabs_;
  std::int64_t bytes_ = 1;
};

}  // namespace tegula::ir
