#pragma once
// Constructors of the distributed layouts that lowering starts from.

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Builds a layout from the innermost bits outwards: each call assigns the next index bits of one
/// dimension to one coordinate. Extents need not be powers of two. A dimension larger than the
/// extent that the calls cover is rounded up to a multiple of it, and the multiple (odd x 2^k)
/// becomes register bits and a repeat digit; a smaller dimension is padded to the next power of
/// two, and the remaining threads hold copies.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(Dims shape);

  /// Assigns the next `bits` index bits of `dim` to `in`.
  LayoutBuilder& take(HwDim in, int dim, int bits);
  /// Like `take`, but pads the tile to these bits instead of clipping them, as the shape of an
  /// instruction requires.
  LayoutBuilder& fix(HwDim in, int dim, int bits);
  /// Assigns `count` (odd x 2^k) adjacent warps or blocks along `dim`.
  LayoutBuilder& spread(HwDim in, int dim, int count);
  /// Adds `bits` bits of a coordinate that hold copies.
  LayoutBuilder& copy(HwDim in, int bits);
  /// Covers the rest with registers, in the dimension order `fill_order` (low to high register
  /// bits).
  LinearLayout build(const Dims& fill_order) const;

 private:
  struct Step {
    HwDim in;
    int dim;
    int bits;
    int digit;  // odd repeat count above the bits
    bool fixed;
  };
  Dims shape_;
  std::vector<Step> steps_;
};

/// Returns a blocked layout: each thread holds `elems_per_thread`, a warp consists of `lanes`
/// threads, and the tile of `warps` warps (the products of the latter two are 32 and the number of
/// warps). The pattern is repeated in registers if the tile is larger, and copied if it is smaller.
/// `order` lists the dimensions from fastest to slowest, for registers, lanes and warps alike.
LinearLayout blocked(const Dims& shape, const Dims& elems_per_thread, const Dims& lanes,
                     const Dims& warps, const Dims& order);

/// Returns a blocked layout for accesses of `vector` consecutive elements along order[0], with
/// lanes first along it and warps along the slowest dimensions.
LinearLayout coalesced(const Dims& shape, int vector, int warps, const Dims& order);

/// Like coalesced(), but without padding: threads that the powers of two in the extents do not use
/// hold copies.
LinearLayout unpadded(const Dims& shape, int vector, int warps, const Dims& order);

/// Returns a layout for scans: along `axis` a thread holds a run of 2^n elements, and consecutive
/// lanes, then warps, hold consecutive runs. A warp along the axis holds at least 128 of its
/// elements. The remaining lanes and warps hold other lines.
LinearLayout scan_layout(const Dims& shape, int axis, int warps);
/// Returns true if each line along `axis` is a run of registers in consecutive lanes of one warp,
/// starting at the first lane. Other warps hold other lines or copies.
bool is_in_scan_order(const LinearLayout& layout, int axis);

/// Returns a layout for sorts: every bit of an index along `axis`, padded to a power of two, is one
/// bit of a register, lane or warp. The lowest bits, at least those of `kept` elements, are
/// registers, followed by lanes, registers and, for long lines, warps. The remaining lanes and
/// warps hold other lines.
LinearLayout order_layout(const Dims& shape, int axis, int warps, int kept);
/// Returns true if the best `kept` elements along `axis` can be found in this layout: every bit of
/// an index is one bit of a register or a lane, and runs of `kept` elements are in registers.
bool is_in_topk_order(const LinearLayout& layout, int axis, int kept);
/// Like is_in_topk_order(), for elements that are ordered by one word: any registers may form a
/// run.
bool is_in_word_order(const LinearLayout& layout, int axis, int kept);
/// Returns a layout for the ranks of a line: lanes hold consecutive elements, registers repeat that
/// pattern, and warps hold consecutive parts.
LinearLayout rank_layout(int extent, int warps);
/// Returns the layout of the first `count` elements along `axis` of an order_layout after all
/// threads along it hold them. The remaining registers are dropped.
LinearLayout first_elements(const LinearLayout& layout, int axis, int count);
/// Like first_elements(), but the elements are distributed over the lanes along `axis` as far as
/// possible: the lowest of these lane bits are the upper bits of an element's index, and registers
/// are the rest.
LinearLayout shared_first_elements(const LinearLayout& layout, int axis, int count);
/// Like shared_first_elements(), for a layout in word order: the lane bits become the upper index
/// bits, whichever elements the lanes held before.
LinearLayout shared_best_elements(const LinearLayout& layout, int axis, int count);

/// Operand of an MMA.
enum class Operand : std::uint8_t { A, B };
/// How warps that share rows divide the columns: in alternating groups of 8, or in one contiguous
/// part per warp.
enum class WarpColumns : std::uint8_t { Interleaved, Adjacent };

/// Returns the accumulator [M, N] of mma.m16n8* for f32 and s32, not f64. A warp's tile is 16x8;
/// warps are along M first.
LinearLayout mma_m16n8k16_acc(const Dims& shape, int warps_m, int warps_n);
/// Returns the layout of A [M, K] or B [K, N] of mma.m16n8, with K = 256 / element bits: k16 for
/// 16-bit, k32 for 8-bit, k8 for tf32. Warps are arranged as in the accumulator; warps that need
/// the same elements hold copies.
LinearLayout mma_operand(Operand operand, const Dims& shape, int element_bits, int warps_m,
                         int warps_n, WarpColumns columns = WarpColumns::Interleaved);

/// Returns the wgmma accumulator [m, n] of `warpgroups` warpgroups (128 threads each) along m and
/// `warpgroups_n` along n, each of which has adjacent columns; m is a multiple of 64, n of 8 (else
/// padded). Register r of a 64-row tile is at row 16w + g + 8 (r>>1 & 1), column 8 (r>>2) + 2t +
/// (r&1), with g = lane>>2, t = lane&3.
LinearLayout wgmma_acc(int m, int n, int warpgroups = 1, int warpgroups_n = 1);

/// Returns the layout of A [M, K] or B [K, N] of a dot computed by FMA with accumulator `acc` [M,
/// N]: each thread holds all of K for its rows (columns).
Result<LinearLayout> fma_operand(Operand operand, const LinearLayout& acc, int k);

}  // namespace tegula::ir
