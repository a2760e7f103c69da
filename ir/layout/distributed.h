#pragma once
// Constructors of the distributed layouts that lowering starts from.

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Builds a layout bottom up: each call hands the next index bits of one dimension to one
/// coordinate. Extents need not be powers of two: a dimension larger than what the calls cover is
/// rounded up to a multiple of it, and the multiple (odd x 2^k) becomes register bits and a repeat
/// digit; a smaller one is padded to the next power of two, and threads left over hold copies.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(Dims shape);

  /// The next `bits` index bits of `dim` go to `in`.
  LayoutBuilder& take(HwDim in, int dim, int bits);
  /// Like `take`, but the tile is padded up to them rather than clipped: the shape of an
  /// instruction.
  LayoutBuilder& fix(HwDim in, int dim, int bits);
  /// `count` (odd x 2^k) warps or blocks side by side along `dim`.
  LayoutBuilder& spread(HwDim in, int dim, int count);
  /// `bits` bits of a coordinate that hold copies.
  LayoutBuilder& copy(HwDim in, int bits);
  /// Covers what is left with registers, dimensions of `fill_order` first to last (low to high
  /// register bits).
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

/// Threads in blocks: each thread holds `elems_per_thread`, a warp `lanes` of these, the tile
/// `warps` warps (products of the latter two: 32, number of warps), repeated in registers where the
/// tile is larger, copied where it is smaller. `order` names the dimensions from fastest to
/// slowest, for registers, lanes and warps alike.
LinearLayout blocked(const Dims& shape, const Dims& elems_per_thread, const Dims& lanes,
                     const Dims& warps, const Dims& order);

/// A blocked layout for accesses of `vector` consecutive elements along order[0], lanes first along
/// it, warps along the slowest dimensions.
LinearLayout coalesced(const Dims& shape, int vector, int warps, const Dims& order);

/// The same without padding: threads that the extents' powers of two have no use for hold copies.
LinearLayout unpadded(const Dims& shape, int vector, int warps, const Dims& order);

/// For scans: along `axis` a thread holds a run of 2^n elements, consecutive lanes and then warps
/// consecutive runs. A warp along the axis has at least 128 elements of it; the lanes and warps
/// that are left take other lines.
LinearLayout scan_layout(const Dims& shape, int axis, int warps);
/// Whether lines along `axis` lie so within a warp: runs in registers, which consecutive lanes from
/// the first on continue. Other warps have other lines or copies.
bool is_in_scan_order(const LinearLayout& layout, int axis);

/// For sorts: every bit of an index along `axis`, padded to a power of two, is one bit of a
/// register, lane or warp. The lowest ones, at least those of `kept` elements, are registers, then
/// lanes, registers and, of long lines, warps; lanes and warps that are left take other lines.
LinearLayout order_layout(const Dims& shape, int axis, int warps, int kept);
/// Whether the best `kept` elements along `axis` can be found in this layout: every bit of an index
/// is one bit of a register or a lane, and runs of that many elements are registers.
bool is_in_topk_order(const LinearLayout& layout, int axis, int kept);
/// The same where a word holds all that decides between elements: any registers may be a run.
bool is_in_word_order(const LinearLayout& layout, int axis, int kept);
/// For ranks of a line: lanes hold consecutive elements, registers rounds of them, warps
/// consecutive parts.
LinearLayout rank_layout(int extent, int warps);
/// Layout of the first `count` elements along `axis` of an order_layout, which all threads along it
/// come to hold. Registers that are left over are dropped.
LinearLayout first_elements(const LinearLayout& layout, int axis, int count);
/// The same, but the lanes along `axis` share them out as far as they go: the lowest of these lanes
/// name the upper bits of an element's index, registers the rest.
LinearLayout shared_first_elements(const LinearLayout& layout, int axis, int count);
/// The same of a layout in word order: whatever elements lanes had, they name the upper bits.
LinearLayout shared_best_elements(const LinearLayout& layout, int axis, int count);

/// Operand of an MMA.
enum class Operand : std::uint8_t { A, B };
/// How warps that share rows divide the columns: in turns of 8, or each has a part of its own.
enum class WarpColumns : std::uint8_t { Interleaved, Adjacent };

/// mma.m16n8*: f32, s32 and f64-free accumulator [M, N]; a warp's tile is 16x8, warps along M
/// first.
LinearLayout mma_m16n8k16_acc(const Dims& shape, int warps_m, int warps_n);
/// A [M, K] or B [K, N] of mma.m16n8, K = 256 / element bits: k16 for 16-bit, k32 for 8-bit, k8 for
/// tf32. Warps as in the accumulator; those that need the same elements hold copies.
LinearLayout mma_operand(Operand operand, const Dims& shape, int element_bits, int warps_m,
                         int warps_n, WarpColumns columns = WarpColumns::Interleaved);

/// wgmma accumulator [m, n] of `warpgroups` warpgroups (128 threads each) along m and
/// `warpgroups_n` along n, each of which has adjacent columns; m is a multiple of 64, n of 8 (else
/// padded). Register r of a 64-row tile: row 16w + g + 8 (r>>1 & 1), column 8 (r>>2) + 2t + (r&1),
/// with g = lane>>2, t = lane&3.
LinearLayout wgmma_acc(int m, int n, int warpgroups = 1, int warpgroups_n = 1);

/// A [M, K] or B [K, N] of a dot done by FMA with accumulator `acc` [M, N]: each thread holds all
/// of K for its rows (columns).
Result<LinearLayout> fma_operand(Operand operand, const LinearLayout& acc, int k);

}  // namespace tegula::ir
