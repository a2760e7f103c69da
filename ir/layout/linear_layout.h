#pragma once
// The map from (register, lane, warp, block) to the tile element that is held there.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/layout/dims.h"
#include "ir/layout/gf2.h"

namespace tegula::ir {

/// The hardware coordinates, in the order in which duplicates are resolved.
enum class HwDim : std::uint8_t { Register, Lane, Warp, Block };
inline constexpr std::array kIns{HwDim::Register, HwDim::Lane, HwDim::Warp, HwDim::Block};
inline constexpr std::array kThreadIns{HwDim::Lane, HwDim::Warp, HwDim::Block};
/// Returns "reg", "lane", "warp" or "block".
const char* name(HwDim in);

/// A register of a thread: `reg` counts elements held by the thread (not 32-bit registers), `lane`
/// is within the warp, `warp` within the role, `block` within the cluster.
struct HardwareCoord {
  int reg = 0;
  int lane = 0;
  int warp = 0;
  int block = 0;
  int operator[](HwDim in) const;
  int& operator[](HwDim in);
  friend bool operator==(const HardwareCoord&, const HardwareCoord&) = default;
};

/// An exact digit outside the bit matrix. The digit is the most significant part of coordinate `in`
/// that no earlier repeat uses, and likewise of the index along `dim` (kNoDim: the copies hold the
/// same elements).
struct Repeat {
  static constexpr int kNoDim = -1;
  int dim = kNoDim;
  int count = 1;
  HwDim in = HwDim::Register;
  friend bool operator==(const Repeat&, const Repeat&) = default;
};

/// The definition of a layout in a form that is easy to edit; LinearLayout checks and packs it.
struct LayoutSpec {
  Dims shape;  ///< extents of the tile
  Dims bits;   ///< index bits per dimension that the matrix covers
  std::array<std::vector<Dims>, 4>
      basis;  ///< for each coordinate and bit: the index that the bit selects
  std::vector<Repeat> repeats;

  std::vector<Dims>& of(HwDim in) { return basis.at(static_cast<std::size_t>(in)); }
  const std::vector<Dims>& of(HwDim in) const { return basis.at(static_cast<std::size_t>(in)); }
};

/// Linear layout. The index at a coordinate is the XOR of the bases of its set bits plus, along
/// each dimension and above the bits, its repeat digits. A value type: comparable, hashable,
/// printed inside IR types.
///
///     lin<16x8; reg=[(0,1),(8,0)]; lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]>
///
/// is the accumulator of mma.m16n8k16. `100/112x64` means that 112 rows are covered and those from
/// 100 on are absent; `rep=[1*3,warp:0*3]` are repeat digits (of registers unless a coordinate is
/// named); `0` is the zero index of any rank.
class LinearLayout {
 public:
  /// Creates a rank-0 tile held in one register of one thread.
  LinearLayout() = default;
  /// Throws InternalError if the parts do not fit together.
  explicit LinearLayout(const LayoutSpec& spec);
  LayoutSpec spec() const;

  int rank() const { return shape_.size(); }
  const Dims& shape() const { return shape_; }
  /// Returns the extents with padding: cover(d) = 2^bits(d) times the repeat counts along d.
  Dims cover() const;
  int bits(int dim) const { return bits_[dim]; }
  /// Returns the number of index bits of all dimensions. In a packed index the last dimension is
  /// lowest.
  int index_bits() const;
  std::span<const Repeat> repeats() const { return {repeats_.data(), repeat_count_}; }
  /// Returns the product of the counts of the repeats along `dim`.
  int repeat_factor(int dim) const;
  /// Returns true if lanes, warps or blocks have a repeat along `dim`.
  bool has_thread_digit(int dim) const;

  /// Matrix bits of a coordinate, and its whole size (2^bits times its repeats).
  int in_bits(HwDim in) const { return in_bits_[static_cast<std::size_t>(in)]; }
  int size(HwDim in) const;
  int registers() const { return size(HwDim::Register); }
  Dims basis(HwDim in, int bit) const { return unpack(packed_basis(in, bit)); }
  BitVector packed_basis(HwDim in, int bit) const;
  std::span<const BitVector> packed_bases(HwDim in) const;
  /// Returns all bases as one matrix; inputs are register, lane, warp, block bits in that order.
  BitMatrix matrix() const;
  /// Returns the position of bit 0 of a coordinate among the matrix's inputs.
  int first_input(HwDim in) const;

  Dims apply(const HardwareCoord& place) const;
  /// Returns true for indices that exist only as padding.
  bool is_absent(const Dims& index) const;
  /// Returns the canonical coordinate of an element (free bits and copies zero), or nothing if no
  /// coordinate holds it.
  std::optional<HardwareCoord> locate(const Dims& index) const;

  bool is_surjective() const;
  /// Returns true if every covered element is held exactly once.
  bool is_bijective() const;
  /// Returns the bits of a coordinate whose toggling revisits elements reachable with earlier bits
  /// (registers first). Coordinates in which all of them are zero hold every element once, up to
  /// repeats without a dimension.
  std::uint32_t free_bits(HwDim in) const;
  /// Returns true if nothing is padded: every covered element is an element of the tile.
  bool is_exact() const { return cover() == shape_; }

  BitVector pack(const Dims& index) const;
  Dims unpack(BitVector packed) const;

  std::string str() const;
  static Result<LinearLayout> parse(std::string_view text);
  friend bool operator==(const LinearLayout&, const LinearLayout&) = default;

 private:
  static constexpr std::size_t kMaxInputs = 32;
  static constexpr std::size_t kMaxRepeats = 8;

  Dims shape_;
  Dims bits_;
  std::array<std::uint8_t, 4> in_bits_{};
  std::array<Repeat, kMaxRepeats> repeats_{};
  std::size_t repeat_count_ = 0;
  std::array<BitVector, kMaxInputs> basis_{};
};

/// Map from the coordinates of one layout to coordinates of another that hold the same element.
/// Digits map by `digit_of`: repeat i of the first layout maps to repeat digit_of[i] of the second.
struct CoordMap {
  BitMatrix matrix{0, 0};
  std::vector<int> digit_of;  ///< -1 for a repeat without dimension
};

/// Finds the elements of `to` in `from`: the right inverse of `from` applied after `to`. Among
/// duplicates in `from`, the one in the same lane, warp and block is preferred. Refused if the two
/// cover the tile differently.
Result<CoordMap> coord_map(const LinearLayout& from, const LinearLayout& to);

}  // namespace tegula::ir
