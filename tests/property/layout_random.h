#pragma once
// Random distributed layouts of a given shape, of every kind that lowering produces and some that
// it never would.

#include <algorithm>
#include <bit>
#include <random>

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"

namespace tegula::ir::testing {

class RandomLayouts {
 public:
  /// `warps` is 4 or 12, so that any two layouts may be converted into each other.
  explicit RandomLayouts(unsigned seed, int warps = 4) : rng_(seed), warps_(warps) {}

  int pick(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

  Dims shape() {
    constexpr std::array kExtents{1,  2,  8,  16,  24,  32,  40,  48, 64,
                                  72, 80, 96, 100, 112, 128, 160, 7,  33};
    for (;;) {
      Dims s{kExtents[static_cast<std::size_t>(pick(kExtents.size()))],
             kExtents[static_cast<std::size_t>(pick(kExtents.size()))]};
      if (s.product() > 8192) continue;
      if (warps_ == 12 && pick(3) == 0) s[0] = 192, s[1] = std::min(s[1], 48);
      return s;
    }
  }

  LinearLayout layout(const Dims& shape) {
    switch (pick(8)) {
      case 0:
        return mma(shape);
      case 1:
        return mma_operand(Operand::A, shape, 8 << pick(3), warps_ / 2, 2);
      case 2:
        return mma_operand(Operand::B, shape, 8 << pick(3), warps_, 1);
      case 3:
        return wgmma_acc(shape[0], shape[1], warps_ / 4);
      case 4:
        return shuffled(any(shape));
      default:
        return any(shape);
    }
  }

  /// A random bijection: columns of a random invertible matrix assigned to registers, 32 lanes and
  /// 4 warps. The shape has powers of two only.
  LinearLayout scrambled(const Dims& shape) {
    LayoutSpec spec;
    spec.shape = shape;
    int total = 0;
    for (int e : shape) {
      spec.bits.push_back(std::countr_zero(static_cast<unsigned>(e)));
      total += spec.bits[spec.bits.size() - 1];
    }
    BitBasis columns;
    Echelon echelon;
    while (static_cast<int>(columns.size()) < total) {
      const BitVector v = rng_() & ((BitVector{1} << total) - 1);
      if (echelon.add(v)) columns.push_back(v);
    }
    for (int i = 0; i < total; ++i) {
      Dims basis;
      int shift = total;
      for (int d = 0; d < shape.size(); ++d) {
        shift -= spec.bits[d];
        basis.push_back(static_cast<int>(columns[static_cast<std::size_t>(i)] >> shift &
                                         ((BitVector{1} << spec.bits[d]) - 1)));
      }
      spec.of(i < 5 ? HwDim::Lane : i < 7 ? HwDim::Warp : HwDim::Register).push_back(basis);
    }
    return LinearLayout(spec);
  }

  /// Same layout with the bits of registers (and of lanes, if they may move) permuted at random.
  LinearLayout shuffled_within(const LinearLayout& l, bool lanes) {
    LayoutSpec spec = l.spec();
    std::vector<Dims*> bases;
    for (Dims& b : spec.of(HwDim::Register)) bases.push_back(&b);
    if (lanes)
      for (Dims& b : spec.of(HwDim::Lane)) bases.push_back(&b);
    for (std::size_t i = 1; i < bases.size(); ++i)
      std::swap(*bases[i], *bases[static_cast<std::size_t>(pick(static_cast<int>(i) + 1))]);
    return LinearLayout(spec);
  }

  /// Same layout with the bits of registers, lanes and warps exchanged at random.
  LinearLayout shuffled(const LinearLayout& l) {
    LayoutSpec spec = l.spec();
    for (int i = 0; i < 4; ++i) {
      auto& a = pick(2) ? spec.of(HwDim::Register) : spec.of(HwDim::Lane);
      auto& b = pick(4) ? spec.of(HwDim::Lane) : spec.of(HwDim::Warp);
      if (!a.empty() && !b.empty())
        std::swap(a[static_cast<std::size_t>(pick(static_cast<int>(a.size())))],
                  b[static_cast<std::size_t>(pick(static_cast<int>(b.size())))]);
    }
    return LinearLayout(spec);
  }

 private:
  LinearLayout mma(const Dims& shape) {
    const int m = odd_part() << pick(3);
    return mma_m16n8k16_acc(shape, m, warps_ / m);
  }
  LinearLayout any(const Dims& shape) {
    const int along = 1 << pick(6), warps = odd_part() << pick(3);
    return blocked(shape, {1 << pick(2), 1 << pick(4)}, {32 / along, along},
                   {warps_ / warps, warps}, pick(2) ? Dims{1, 0} : Dims{0, 1});
  }
  /// The odd digit on either dimension.
  int odd_part() { return warps_ == 4 ? 1 : pick(2) ? 3 : 1; }

  std::mt19937 rng_;
  int warps_;
};

}  // namespace tegula::ir::testing
