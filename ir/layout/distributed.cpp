// Builds distributed layouts bit by bit from the innermost bit outwards.
#include "ir/layout/distributed.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <utility>

#include "ir/layout/layout_ops.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

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

LayoutBuilder& LayoutBuilder::take(HwDim in, int dim, int bits) {
  steps_.push_back({in, dim, bits, 1, false});
  return *this;
}

LayoutBuilder& LayoutBuilder::fix(HwDim in, int dim, int bits) {
  steps_.push_back({in, dim, bits, 1, true});
  return *this;
}

LayoutBuilder& LayoutBuilder::spread(HwDim in, int dim, int count) {
  const int bits = std::countr_zero(static_cast<unsigned>(count));
  steps_.push_back({in, dim, bits, count >> bits, false});
  return *this;
}

LayoutBuilder& LayoutBuilder::copy(HwDim in, int bits) {
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
      // The threads cover the extent without their odd digit, or even without some bits, which hold
      // copies.
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
  const auto give = [&](HwDim in, int dim) {
    Dims basis = Dims::filled(rank, 0);
    const bool covered = dim == Repeat::kNoDim || used[dim] >= spec.bits[dim];
    if (covered && in == HwDim::Register) return;
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
    while (used[d] < spec.bits[d]) give(HwDim::Register, d);
  for (int d : fill_order) spec.repeats.push_back({d, register_digit[d], HwDim::Register});
  return LinearLayout(spec);
}

LinearLayout blocked(const Dims& shape, const Dims& elems_per_thread, const Dims& lanes,
                     const Dims& warps, const Dims& order) {
  LayoutBuilder builder(shape);
  for (int d : order) builder.take(HwDim::Register, d, log2_exact(elems_per_thread[d]));
  for (int d : order) builder.take(HwDim::Lane, d, log2_exact(lanes[d]));
  for (int d : order) builder.spread(HwDim::Warp, d, warps[d]);
  return builder.build(order);
}

namespace {

/// Returns the power of two up to `most` that causes the least padding, the largest if there are
/// several. It is at least 4 if there are that many vectors.
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
    return LayoutBuilder(shape)
        .copy(HwDim::Lane, 5)
        .spread(HwDim::Warp, Repeat::kNoDim, warps)
        .build({});
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

namespace {

/// Assigns bits of lanes and warps, and the odd digit of warps, to lines along the dimensions other
/// than `axis`. Bits that no line needs hold copies.
LinearLayout with_other_lines(LayoutBuilder builder, const Dims& shape, int axis, int lanes,
                              int warp_bits, int warps) {
  int odd = warps >> std::countr_zero(static_cast<unsigned>(warps));
  Dims order;
  order.push_back(axis);
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (d == axis) continue;
    order.push_back(d);
    const int lines = log2_ceil(shape[d]), more = std::min(lanes, lines),
              more_warps = std::min(warp_bits, lines - more);
    builder.take(HwDim::Lane, d, more).take(HwDim::Warp, d, more_warps);
    lanes -= more, warp_bits -= more_warps;
    if (shape[d] <= 1 << (more + more_warps)) continue;
    builder.spread(HwDim::Warp, d, odd);
    odd = 1;
  }
  builder.copy(HwDim::Lane, lanes).copy(HwDim::Warp, warp_bits);
  builder.spread(HwDim::Warp, Repeat::kNoDim, odd);
  return builder.build(order);
}

}  // namespace

LinearLayout scan_layout(const Dims& shape, int axis, int warps) {
  constexpr int kMinOfWarp = 128;
  const int bits = log2_ceil(shape[axis]);
  const int warp_bits = std::countr_zero(static_cast<unsigned>(warps));
  const int along = std::min(warp_bits, log2_ceil(ceil_div(shape[axis], kMinOfWarp)));
  const int lanes = std::min(5, bits);
  LayoutBuilder builder(shape);
  builder.fix(HwDim::Register, axis, bits - along - lanes)
      .fix(HwDim::Lane, axis, lanes)
      .fix(HwDim::Warp, axis, along);
  return with_other_lines(builder, shape, axis, 5 - lanes, warp_bits - along, warps);
}

bool is_in_scan_order(const LinearLayout& layout, int axis) {
  constexpr int kOfOtherLines = -1;
  const auto steps = [&](HwDim in) {
    std::vector<int> steps;
    for (int bit = 0; bit < layout.in_bits(in); ++bit) {
      const Dims basis = layout.basis(in, bit);
      const bool leaves_line = std::ranges::count(basis, 0) + 1 < static_cast<long>(basis.size());
      steps.push_back(basis[axis] != 0 && leaves_line ? kOfOtherLines : basis[axis]);
    }
    return steps;
  };
  std::vector<int> registers = steps(HwDim::Register), lanes = steps(HwDim::Lane);
  std::erase(registers, 0);
  std::ranges::sort(registers);
  while (!lanes.empty() && lanes.back() == 0) lanes.pop_back();
  int next = 1;
  const auto continues = [&](int step) { return step == std::exchange(next, 2 * next); };
  return std::ranges::all_of(registers, continues) && std::ranges::all_of(lanes, continues) &&
         next == layout.cover()[axis];
}

LinearLayout order_layout(const Dims& shape, int axis, int warps, int kept) {
  constexpr int kMaxRegisterBits = 5;
  const int bits = log2_ceil(shape[axis]);
  const int warp_bits = std::countr_zero(static_cast<unsigned>(warps));
  int all = 0;
  for (int extent : shape) all += log2_ceil(extent);
  // Registers are assigned first: their elements are compared without a shuffle.
  const int wanted = std::clamp(all - 5 - warp_bits, 0, std::min(bits, kMaxRegisterBits));
  const int lanes = std::min(5, bits - wanted);
  const int along = std::min(warp_bits, bits - wanted - lanes);
  const int registers = bits - lanes - along;
  const int low = std::min(registers, std::max(3, log2_ceil(kept)));
  LayoutBuilder builder(shape);
  builder.fix(HwDim::Register, axis, low)
      .fix(HwDim::Lane, axis, lanes)
      .fix(HwDim::Register, axis, registers - low)
      .fix(HwDim::Warp, axis, along);
  return with_other_lines(builder, shape, axis, 5 - lanes, warp_bits - along, warps);
}

namespace {

/// Returns the mask of the index bits along `axis` that registers hold, or nothing unless each bit
/// is one bit of a register or a lane and moves along no other dimension.
std::optional<int> registers_of_line(const LinearLayout& layout, int axis) {
  int found = 0, registers = 0;
  for (const HwDim in : {HwDim::Register, HwDim::Lane, HwDim::Warp})
    for (int bit = 0; bit < layout.in_bits(in); ++bit) {
      const Dims basis = layout.basis(in, bit);
      const int step = basis[axis];
      if (step == 0) continue;
      const bool is_pure = std::ranges::count(basis, 0) + 1 == static_cast<long>(basis.size()) &&
                           std::has_single_bit(static_cast<unsigned>(step)) && (found & step) == 0;
      if (!is_pure || in == HwDim::Warp) return std::nullopt;
      found |= step;
      if (in == HwDim::Register) registers |= step;
    }
  if (found + 1 != layout.cover()[axis]) return std::nullopt;
  return registers;
}

}  // namespace

bool is_in_topk_order(const LinearLayout& layout, int axis, int kept) {
  const auto registers = registers_of_line(layout, axis);
  const int run = (1 << log2_ceil(kept)) - 1;
  return registers && (*registers & run) == run;
}

bool is_in_word_order(const LinearLayout& layout, int axis, int kept) {
  constexpr int kMinBits = 5, kMaxBits = 11, kMaxKeptBits = 5;
  const auto registers = registers_of_line(layout, axis);
  const int bits = layout.bits(axis);
  return registers && log2_ceil(kept) <= kMaxKeptBits && bits >= kMinBits && bits <= kMaxBits &&
         std::popcount(static_cast<unsigned>(*registers)) >= log2_ceil(kept);
}

LinearLayout rank_layout(int extent, int warps) {
  const int bits = std::max(5, log2_ceil(extent));
  const int along = std::min(std::countr_zero(static_cast<unsigned>(warps)), bits - 5);
  LayoutBuilder builder({extent});
  builder.fix(HwDim::Lane, 0, 5)
      .fix(HwDim::Register, 0, bits - 5 - along)
      .fix(HwDim::Warp, 0, along);
  return with_other_lines(builder, {extent}, 0, 0,
                          std::countr_zero(static_cast<unsigned>(warps)) - along, warps);
}

LinearLayout first_elements(const LinearLayout& layout, int axis, int count) {
  LayoutSpec spec = layout.spec();
  spec.shape[axis] = count;
  spec.bits[axis] = log2_ceil(count);
  const int kept = 1 << spec.bits[axis];
  for (HwDim in : kIns) {
    auto& bases = spec.of(in);
    const auto is_beyond = [&](const Dims& basis) { return basis[axis] >= kept; };
    if (in == HwDim::Register)
      std::erase_if(bases, is_beyond);
    else
      for (Dims& basis : bases)
        if (is_beyond(basis)) basis[axis] = 0;
  }
  return LinearLayout(spec);
}

LinearLayout shared_first_elements(const LinearLayout& layout, int axis, int count) {
  LayoutSpec spec = first_elements(layout, axis, count).spec();
  auto& registers = spec.of(HwDim::Register);
  const int kept = 1 << spec.bits[axis];
  std::vector<std::size_t> lanes;
  for (std::size_t bit = 0; bit < spec.of(HwDim::Lane).size(); ++bit)
    if (layout.basis(HwDim::Lane, static_cast<int>(bit))[axis] >= kept) lanes.push_back(bit);
  std::vector<int> steps;
  for (const Dims& basis : registers)
    if (basis[axis] != 0) steps.push_back(basis[axis]);
  std::ranges::sort(steps, std::greater());
  steps.resize(std::min(steps.size(), lanes.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::erase_if(registers, [&](const Dims& basis) { return basis[axis] == steps[i]; });
    spec.of(HwDim::Lane)[lanes[steps.size() - 1 - i]][axis] = steps[i];
  }
  return LinearLayout(spec);
}

LinearLayout shared_best_elements(const LinearLayout& layout, int axis, int count) {
  LayoutSpec spec = layout.spec();
  spec.shape[axis] = count;
  spec.bits[axis] = log2_ceil(count);
  auto &registers = spec.of(HwDim::Register), &lanes = spec.of(HwDim::Lane);
  std::erase_if(registers, [&](const Dims& basis) { return basis[axis] != 0; });
  std::vector<Dims*> along;
  for (Dims& basis : lanes)
    if (basis[axis] != 0) along.push_back(&basis), basis[axis] = 0;
  const int named = std::min(static_cast<int>(along.size()), spec.bits[axis]),
            held = spec.bits[axis] - named;
  for (int i = 0; i < named; ++i) (*along[static_cast<std::size_t>(i)])[axis] = 1 << (held + i);
  for (int bit = held - 1; bit >= 0; --bit) {
    Dims basis = Dims::filled(layout.rank(), 0);
    basis[axis] = 1 << bit;
    registers.insert(registers.begin(), basis);
  }
  return LinearLayout(spec);
}

LinearLayout unpadded(const Dims& shape, int vector, int warps, const Dims& order) {
  LayoutBuilder builder(shape);
  Dims left = shape;
  const auto take = [&](HwDim in, int d, int most) {
    const int part = std::min(most, left[d] & -left[d]);
    const int bits = std::countr_zero(static_cast<unsigned>(part));
    builder.take(in, d, bits);
    left[d] >>= bits;
    return bits;
  };
  take(HwDim::Register, order[0], vector);
  int lanes = 5, warp_bits = std::countr_zero(static_cast<unsigned>(warps));
  for (int d : order) lanes -= take(HwDim::Lane, d, 1 << lanes);
  builder.copy(HwDim::Lane, lanes);
  for (int d : order) warp_bits -= take(HwDim::Warp, d, 1 << warp_bits);
  builder.copy(HwDim::Warp, warp_bits);
  builder.spread(HwDim::Warp, Repeat::kNoDim,
                 warps >> std::countr_zero(static_cast<unsigned>(warps)));
  return builder.build(order);
}

namespace {

constexpr int kM = 0, kN = 1;

/// Adds the 16x8 tile that every accumulator of mma.m16n8 and wgmma consists of: g = lane>>2 rows,
/// 2t columns, then 8 rows.
LayoutBuilder& accumulator_fragment(LayoutBuilder& builder) {
  return builder.fix(HwDim::Register, kN, 1)
      .fix(HwDim::Lane, kN, 2)
      .fix(HwDim::Lane, kM, 3)
      .fix(HwDim::Register, kM, 1);
}

/// Adds the operand tile. A 32-bit register holds consecutive k; `row_dim` is M for A (two register
/// halves) or N for B (one).
LayoutBuilder& operand_fragment(LayoutBuilder& builder, int k_dim, int row_dim, int element_bits,
                                bool two_halves) {
  builder.fix(HwDim::Register, k_dim, log2_exact(32 / element_bits)).fix(HwDim::Lane, k_dim, 2);
  builder.fix(HwDim::Lane, row_dim, 3);
  if (two_halves) builder.fix(HwDim::Register, row_dim, 1);
  return builder.fix(HwDim::Register, k_dim, 1);
}

/// Makes the columns of a warp adjacent if their number is a power of two, so that the B operand of
/// an instruction is one contiguous part of the tile.
void adjacent_columns(LayoutBuilder& builder, int n, int warps_n) {
  const int tiles = n / 8 / warps_n;
  if (warps_n > 1 && n % (8 * warps_n) == 0 && std::has_single_bit(static_cast<unsigned>(tiles)))
    builder.fix(HwDim::Register, kN, log2_exact(tiles));
}

}  // namespace

LinearLayout mma_m16n8k16_acc(const Dims& shape, int warps_m, int warps_n) {
  LayoutBuilder builder(shape);
  accumulator_fragment(builder).spread(HwDim::Warp, kM, warps_m).spread(HwDim::Warp, kN, warps_n);
  return builder.build({kN, kM});
}

LinearLayout mma_operand(Operand operand, const Dims& shape, int element_bits, int warps_m,
                         int warps_n, WarpColumns columns) {
  LayoutBuilder builder(shape);
  if (operand == Operand::A) {
    operand_fragment(builder, 1, 0, element_bits, true);
    builder.spread(HwDim::Warp, 0, warps_m).spread(HwDim::Warp, Repeat::kNoDim, warps_n);
    return builder.build({1, 0});
  }
  operand_fragment(builder, 0, 1, element_bits, false);
  builder.spread(HwDim::Warp, Repeat::kNoDim, warps_m);
  if (columns == WarpColumns::Adjacent) adjacent_columns(builder, shape[1], warps_n);
  builder.spread(HwDim::Warp, 1, warps_n);
  return builder.build({0, 1});
}

LinearLayout wgmma_acc(int m, int n, int warpgroups, int warpgroups_n) {
  LayoutBuilder builder({m, n});
  accumulator_fragment(builder).fix(HwDim::Warp, kM, 2);
  builder.spread(HwDim::Warp, kM, warpgroups);
  adjacent_columns(builder, n, warpgroups_n);
  builder.spread(HwDim::Warp, kN, warpgroups_n);
  return builder.build({kN, kM});
}

Result<LinearLayout> fma_operand(Operand operand, const LinearLayout& acc, int k) {
  using LayoutRefusal = Result<LinearLayout>;
  if (acc.rank() != 2) return LayoutRefusal::refused("the accumulator of a dot has rank 2");
  const int k_dim = operand == Operand::A ? 1 : 0;
  return broadcast(expand_dim(slice(acc, operand == Operand::A ? 1 : 0), k_dim), k_dim, k);
}

}  // namespace tegula::ir
