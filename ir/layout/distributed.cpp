// Distributed layouts, built bit by bit from the innermost outwards.
#include "ir/layout/distributed.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/layout/layout_ops.h"
#include "tegula/error.h"
#include "tegula/quotients.h"

namespace tegula::ir {
namespace {

int log2_exact(int v) {
  if (v <= 0 || !std::has_single_bit(static_cast<unsigned>(v)))
    throw InternalError(fmt::format("layout: {} is not a power of two", v));
  return std::countr_zero(static_cast<unsigned>(v));
}
int log2_ceil(int v) { return static_cast<int>(std::bit_width(static_cast<unsigned>(v - 1))); }

}  // namespace

LayoutBuilder::LayoutBuilder(Dims shape) : shape_(shape) {}

LayoutBuilder& LayoutBuilder::take(In in, int dim, int bits) {
  steps_.push_back({in, dim, bits, 1, false});
  return *this;
}

LayoutBuilder& LayoutBuilder::fix(In in, int dim, int bits) {
  steps_.push_back({in, dim, bits, 1, true});
  return *this;
}

LayoutBuilder& LayoutBuilder::spread(In in, int dim, int count) {
  const int bits = std::countr_zero(static_cast<unsigned>(count));
  steps_.push_back({in, dim, bits, count >> bits, false});
  return *this;
}

LayoutBuilder& LayoutBuilder::copy(In in, int bits) {
  steps_.push_back({in, Repeat::kNoDim, bits, 1, false});
  return *this;
}

LinearLayout LayoutBuilder::build(const Dims& fill_order) const {
  const int rank = shape_.size();
  LayoutSpec spec;
  spec.shape = shape_;
  Dims used = Dims::filled(rank, 0);
  Dims taken = Dims::filled(rank, 0), fixed = taken, digit = Dims::filled(rank, 1);
  for (const Step& s : steps_) {
    if (s.dim == Repeat::kNoDim) continue;
    taken[s.dim] += s.bits;
    if (s.fixed) fixed[s.dim] = taken[s.dim];
    digit[s.dim] *= s.digit;
  }
  Dims register_digit = Dims::filled(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int unit = digit[d] << taken[d];
    if (shape_[d] <= unit >> 1 || shape_[d] <= 1 << taken[d]) {
      // The threads suffice without their odd digit, or even without some bits: these hold copies.
      const bool keep_digit = digit[d] > 1 && shape_[d] > 1 << taken[d];
      if (!keep_digit) digit[d] = 1;
      const int per_digit = ceil_div(shape_[d], digit[d]);
      spec.bits.push_back(std::max(fixed[d], log2_ceil(per_digit)));
      continue;
    }
    const int times = ceil_div(shape_[d], unit);
    const int doublings = std::countr_zero(static_cast<unsigned>(times));
    spec.bits.push_back(taken[d] + doublings);
    register_digit[d] = times >> doublings;
  }
  const auto give = [&](In in, int dim) {
    Dims basis = Dims::filled(rank, 0);
    const bool covered = dim == Repeat::kNoDim || used[dim] >= spec.bits[dim];
    if (covered && in == In::Register) return;
    if (!covered) basis[dim] = 1 << used[dim]++;
    spec.of(in).push_back(basis);
  };
  for (const Step& s : steps_) {
    for (int b = 0; b < s.bits; ++b) give(s.in, s.dim);
    if (s.digit == 1) continue;
    const bool copies = s.dim == Repeat::kNoDim || digit[s.dim] == 1;
    spec.repeats.push_back({copies ? Repeat::kNoDim : s.dim, s.digit, s.in});
  }
  for (int d : fill_order)
    while (used[d] < spec.bits[d]) give(In::Register, d);
  for (int d : fill_order) spec.repeats.push_back({d, register_digit[d], In::Register});
  return LinearLayout(spec);
}

LinearLayout blocked(const Dims& shape, const Dims& elems_per_thread, const Dims& lanes,
                     const Dims& warps, const Dims& order) {
  LayoutBuilder builder(shape);
  for (int d : order) builder.take(In::Register, d, log2_exact(elems_per_thread[d]));
  for (int d : order) builder.take(In::Lane, d, log2_exact(lanes[d]));
  for (int d : order) builder.spread(In::Warp, d, warps[d]);
  return builder.build(order);
}

namespace {

/// Of the powers of two up to `most`, but not below 4 where there is that much to do, the largest
/// that pads least.
int lanes_along(int vectors, int most) {
  int best = std::min({most, 4, 1 << log2_ceil(vectors)});
  const auto padded = [vectors](int lanes) { return round_up(vectors, lanes); };
  for (int lanes = best; lanes <= most && lanes < 2 * vectors; lanes *= 2)
    if (padded(lanes) <= padded(best)) best = lanes;
  return best;
}

}  // namespace

LinearLayout coalesced(const Dims& shape, int vector, int warps, const Dims& order) {
  const int rank = shape.size();
  Dims elems = Dims::filled(rank, 1), lanes = elems, warps_per_dim = elems;
  if (rank == 0)
    return LayoutBuilder(shape).copy(In::Lane, 5).spread(In::Warp, Repeat::kNoDim, warps).build({});
  int lanes_left = 32, warps_left = warps;
  const auto threads_for = [&](int d) {
    return 1 << log2_ceil(std::max(1, (shape[d] + elems[d] - 1) / elems[d]));
  };
  elems[order[0]] = std::min(vector, 1 << log2_ceil(shape[order[0]]));
  for (int d : order) {
    lanes[d] = lanes_along((shape[d] + elems[d] - 1) / elems[d], lanes_left);
    lanes_left /= lanes[d];
  }
  lanes[order[rank - 1]] *= lanes_left;
  for (int i = rank - 1; i >= 0; --i) {
    const int d = order[i];
    const int room = std::max(1, threads_for(d) / lanes[d]);
    while (warps_left % 2 == 0 && warps_per_dim[d] < room) {
      warps_per_dim[d] *= 2;
      warps_left /= 2;
    }
  }
  warps_per_dim[order[rank - 1]] *= warps_left;
  return blocked(shape, elems, lanes, warps_per_dim, order);
}

LinearLayout unpadded(const Dims& shape, int vector, int warps, const Dims& order) {
  LayoutBuilder builder(shape);
  Dims left = shape;
  const auto take = [&](In in, int d, int most) {
    const int part = std::min(most, left[d] & -left[d]);
    const int bits = std::countr_zero(static_cast<unsigned>(part));
    builder.take(in, d, bits);
    left[d] >>= bits;
    return bits;
  };
  take(In::Register, order[0], vector);
  int lanes = 5, warp_bits = std::countr_zero(static_cast<unsigned>(warps));
  for (int d : order) lanes -= take(In::Lane, d, 1 << lanes);
  builder.copy(In::Lane, lanes);
  for (int d : order) warp_bits -= take(In::Warp, d, 1 << warp_bits);
  builder.copy(In::Warp, warp_bits);
  builder.spread(In::Warp, Repeat::kNoDim, warps >> std::countr_zero(static_cast<unsigned>(warps)));
  return builder.build(order);
}

LinearLayout replicated(const Dims& shape, int warps) {
  LayoutBuilder builder(shape);
  builder.copy(In::Lane, 5).spread(In::Warp, Repeat::kNoDim, warps);
  Dims order;
  for (int d = shape.size() - 1; d >= 0; --d) order.push_back(d);
  return builder.build(order);
}

namespace {

constexpr int kM = 0, kN = 1;

/// The 16x8 tile that every accumulator of mma.m16n8 and wgmma is made of: g = lane>>2 rows, 2t
/// columns, then 8 rows.
LayoutBuilder& accumulator_fragment(LayoutBuilder& builder) {
  return builder.fix(In::Register, kN, 1)
      .fix(In::Lane, kN, 2)
      .fix(In::Lane, kM, 3)
      .fix(In::Register, kM, 1);
}

/// The operand tile: a 32-bit register holds consecutive k; `rows` is M of A (two register halves)
/// or N of B (one).
LayoutBuilder& operand_fragment(LayoutBuilder& builder, int k_dim, int row_dim, int element_bits,
                                bool two_halves) {
  builder.fix(In::Register, k_dim, log2_exact(32 / element_bits)).fix(In::Lane, k_dim, 2);
  builder.fix(In::Lane, row_dim, 3);
  if (two_halves) builder.fix(In::Register, row_dim, 1);
  return builder.fix(In::Register, k_dim, 1);
}

}  // namespace

LinearLayout mma_m16n8k16_acc(const Dims& shape, int warps_m, int warps_n) {
  LayoutBuilder builder(shape);
  accumulator_fragment(builder).spread(In::Warp, kM, warps_m).spread(In::Warp, kN, warps_n);
  return builder.build({kN, kM});
}

LinearLayout mma_operand(Operand operand, const Dims& shape, int element_bits, int warps_m,
                         int warps_n) {
  LayoutBuilder builder(shape);
  if (operand == Operand::A) {
    operand_fragment(builder, 1, 0, element_bits, true);
    builder.spread(In::Warp, 0, warps_m).spread(In::Warp, Repeat::kNoDim, warps_n);
    return builder.build({1, 0});
  }
  operand_fragment(builder, 0, 1, element_bits, false);
  builder.spread(In::Warp, Repeat::kNoDim, warps_m).spread(In::Warp, 1, warps_n);
  return builder.build({0, 1});
}

LinearLayout wgmma_acc(int m, int n, int warpgroups, int warpgroups_n) {
  LayoutBuilder builder({m, n});
  accumulator_fragment(builder).fix(In::Warp, kM, 2);
  builder.spread(In::Warp, kM, warpgroups).spread(In::Warp, kN, warpgroups_n);
  return builder.build({kN, kM});
}

LinearLayout wgmma_a_reg(int m, int k, int element_bits, int warpgroups) {
  LayoutBuilder builder({m, k});
  operand_fragment(builder, 1, 0, element_bits, true)
      .fix(In::Warp, 0, 2)
      .spread(In::Warp, 0, warpgroups);
  return builder.build({1, 0});
}

LinearLayout ldmatrix_fragment(const Dims& shape, bool transposed, int warps) {
  const int row = transposed ? 1 : 0, col = 1 - row;
  LayoutBuilder builder(shape);
  builder.fix(In::Register, col, 1)
      .fix(In::Lane, col, 2)
      .fix(In::Lane, row, 3)
      .spread(In::Warp, 0, warps);
  return builder.build({1, 0});
}

Result<LinearLayout> fma_operand(Operand operand, const LinearLayout& acc, int k) {
  using Refused = Result<LinearLayout>;
  if (acc.rank() != 2) return Refused::refused("the accumulator of a dot has rank 2");
  const int k_dim = operand == Operand::A ? 1 : 0;
  return broadcast(expand_dim(slice(acc, operand == Operand::A ? 1 : 0), k_dim), k_dim, k);
}

}  // namespace tegula::ir
