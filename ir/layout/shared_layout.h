#pragma once
// The map from an element of a tile to its place in shared memory.

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

/// Rows of `width` bytes under a hardware swizzle of `swizzle` bytes (128, 64, 32; 0: none),
/// `count` of them side by side. In a swizzled segment the width is the swizzle's.
struct SwizzleSegment {
  int swizzle = 0;
  int width = 0;
  int count = 1;
  friend bool operator==(const SwizzleSegment&, const SwizzleSegment&) = default;
};

/// A part of the tile in which one formula holds. With i' = i less `begin` along the split
/// dimension: byte offset = base + sum over d of (i'[d] >> bits[d]) * stride[d] + XOR of the bases
/// of the low bits of i'.
struct Slab {
  int begin = 0;  ///< along the split dimension
  int end = 0;
  int swizzle = 0;  ///< hardware mode in bytes; 0 also for synthesised ones
  std::int64_t base = 0;
  Dims bits;  ///< low bits per dimension
  std::array<std::int64_t, kMaxRank>
      stride{};  ///< bytes per unit of the high part, a multiple of the low block
  std::array<std::uint32_t, 24>
      basis{};  ///< byte offset of each low bit; the last dimension's bits come first
  friend bool operator==(const Slab&, const Slab&) = default;

  /// Position in `basis` of bit 0 of `dim`.
  int first_bit(int dim) const;
  /// Bytes of the block that the low bits address.
  int block_bytes(int element_bytes) const;
};

/// How a swizzled tile whose rows are wider than the swizzle is divided into segments.
enum class SegmentRule : std::uint8_t {
  Equal,        ///< equal segments of the widest swizzle that divides a row: 192 B = 3 x 64
  WidestFirst,  ///< widest first: 192 B = 128 + 64, 320 B = 128 + 128 + 64
};

/// A value like LinearLayout. Two spellings:
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

  /// Plain strides, no swizzle, no padding. `order` names dimensions fastest first.
  static SharedLayout plain(const Dims& shape, int element_bytes, const Dims& order);
  /// The fastest dimension divided into `pieces`; within each, the dimensions of `order` but the
  /// last `batch` (outermost) ones are nested, these lie outside all segments (pipeline stages).
  /// A last piece under a swizzle may reach beyond the row; what lies there is no element.
  /// Refused where the swizzle of a row would not be a function of index bits (number of rows
  /// neither a multiple of 8 nor a power of two).
  static Result<SharedLayout> pieces(const Dims& shape, int element_bytes, const Dims& order,
                                     std::span<const SwizzleSegment> pieces, int batch = 0);
  /// Chooses the segments: swizzles of at most `max_swizzle` bytes.
  static Result<SharedLayout> swizzled(const Dims& shape, int element_bytes, const Dims& order,
                                       int max_swizzle = 128, SegmentRule rule = SegmentRule::Equal,
                                       int batch = 0);
  /// Offset bit b (in elements) selects index offset_basis[b]; the bases must be a basis of all
  /// `bits` of the index. `digits` are the parts of the dimensions above their bits, fastest first.
  static Result<SharedLayout> linear(const Dims& shape, int element_bytes,
                                     std::span<const Dims> offset_basis,
                                     std::span<const Repeat> digits = {});

  int rank() const { return shape_.size(); }
  const Dims& shape() const { return shape_; }
  int element_bytes() const { return element_bytes_; }
  /// Fastest first; empty for synthesised layouts.
  const Dims& order() const { return order_; }
  const std::vector<SwizzleSegment>& piece_list() const { return pieces_; }
  /// The dimension along which the slabs divide the tile.
  int split_dim() const { return order_.empty() ? 0 : order_[0]; }
  const std::vector<Slab>& slabs() const { return slabs_; }
  const Slab& slab_of(const Dims& index) const;

  /// Byte offset of an element of the tile.
  std::int64_t offset(const Dims& index) const;
  /// Bytes to allocate.
  std::int64_t bytes() const { return bytes_; }
  /// Bytes that the tile's address must be a multiple of.
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
