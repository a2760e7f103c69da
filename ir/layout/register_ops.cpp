// Operations that add, drop or renumber registers; see layout_ops.h.
#include <algorithm>
#include <bit>
#include <map>

#include "ir/layout/layout_ops.h"

namespace tegula::ir {
namespace {

/// The first register of thread 0 for each index held there. If two layouts agree on the threads,
/// elements that are equal in thread 0 are equal in every thread.
class ThreadZero {
 public:
  explicit ThreadZero(const LinearLayout& layout) {
    for (int r = 0; r < layout.registers(); ++r)
      registers_.try_emplace(key(layout.apply({.reg = r})), r);
  }
  /// Returns -1 if thread 0 does not hold the index.
  int find(const Dims& index) const {
    const auto it = registers_.find(key(index));
    return it == registers_.end() ? -1 : it->second;
  }

 private:
  static std::vector<int> key(const Dims& index) { return {index.begin(), index.end()}; }
  std::map<std::vector<int>, int> registers_;
};

Dims unit_dims(int rank, int dim, int value) {
  Dims d = Dims::filled(rank, 0);
  d[dim] = value;
  return d;
}

bool has_repeat(const LinearLayout& layout, HwDim in) {
  return std::any_of(layout.repeats().begin(), layout.repeats().end(),
                     [in](const Repeat& r) { return r.in == in; });
}

/// Returns index `i` with the dimensions along which `from` is broadcast set to zero.
Dims projected(const LinearLayout& from, Dims i) {
  for (int d = 0; d < i.size(); ++d)
    if (from.shape()[d] == 1) i[d] = 0;
  return i;
}

/// Returns true if both layouts hold the same element in register 0 of every thread, up to
/// broadcast dimensions.
bool same_threads(const LinearLayout& from, const LinearLayout& to) {
  for (HwDim in : kThreadIns) {
    if (from.size(in) != to.size(in)) return false;
    for (int i = 0; i < to.size(in); ++i) {
      HardwareCoord place;
      place[in] = i;
      if (from.apply(place) != projected(from, to.apply(place))) return false;
    }
    // A thread's digit is added while bits are XORed, so the boundary between the two must be the
    // same.
    if (has_repeat(from, in) || has_repeat(to, in))
      for (int d = 0; d < to.rank(); ++d)
        if (from.shape()[d] != 1 && from.bits(d) != to.bits(d)) return false;
  }
  return true;
}

}  // namespace

Result<LinearLayout> broadcast(const LinearLayout& layout, int dim, int extent) {
  using LayoutRefusal = Result<LinearLayout>;
  if (layout.cover()[dim] != 1)
    return LayoutRefusal::refused("only an unpadded extent of 1 broadcasts");
  LayoutSpec spec = layout.spec();
  spec.shape[dim] = extent;
  spec.bits[dim] = std::countr_zero(static_cast<unsigned>(extent));
  for (int b = 0; b < spec.bits[dim]; ++b)
    spec.of(HwDim::Register).push_back(unit_dims(layout.rank(), dim, 1 << b));
  spec.repeats.push_back({dim, extent >> spec.bits[dim], HwDim::Register});
  return LinearLayout(spec);
}

Result<std::vector<int>> broadcast_registers(const LinearLayout& from, const LinearLayout& to) {
  using LayoutRefusal = Result<std::vector<int>>;
  if (from.rank() != to.rank()) return LayoutRefusal::refused("the ranks differ");
  for (int d = 0; d < to.rank(); ++d)
    if (from.shape()[d] != to.shape()[d] && from.shape()[d] != 1)
      return LayoutRefusal::refused("the shapes do not broadcast");
  if (!same_threads(from, to)) return LayoutRefusal::refused("the threads hold different parts");
  const ThreadZero held(from);
  std::vector<int> out;
  for (int r = 0; r < to.registers(); ++r) {
    out.push_back(held.find(projected(from, to.apply({.reg = r}))));
    if (out.back() < 0) return LayoutRefusal::refused("an element is held by another thread");
  }
  return out;
}

namespace {

/// Cuts one dimension of the spec to `extent` elements that start at a multiple of its power-of-two
/// part. Returns the reason for refusal, or an empty string.
std::string cut(LayoutSpec& spec, int dim, int offset, int extent) {
  if (offset + extent > spec.shape[dim]) return "the box leaves the tile";
  const int bits =
      std::min(spec.bits[dim], std::countr_zero(static_cast<unsigned>(offset | extent)));
  const int block = 1 << bits;
  for (HwDim in : kThreadIns)
    for (const Dims& basis : spec.of(in))
      if (basis[dim] >= block) return "the box would leave out threads";
  auto& registers = spec.of(HwDim::Register);
  for (const Dims& basis : registers)
    if (basis[dim] >= block &&
        basis != unit_dims(basis.size(), dim, std::bit_floor(static_cast<unsigned>(basis[dim]))))
      return "a register bit mixes the box with another dimension";
  std::erase_if(registers, [&](const Dims& basis) { return basis[dim] >= block; });
  for (const Repeat& r : spec.repeats)
    if (r.dim == dim && r.in != HwDim::Register) return "the box would leave out warps";
  std::erase_if(spec.repeats, [dim](const Repeat& r) { return r.dim == dim; });
  spec.repeats.push_back({dim, extent / block, HwDim::Register});
  spec.shape[dim] = extent;
  spec.bits[dim] = bits;
  return {};
}

}  // namespace

Result<RegisterView> subtile(const LinearLayout& layout, const Dims& offset, const Dims& extents) {
  using LayoutRefusal = Result<RegisterView>;
  LayoutSpec spec = layout.spec();
  for (int d = 0; d < layout.rank(); ++d) {
    if (offset[d] == 0 && extents[d] == layout.shape()[d]) continue;
    const std::string reason = cut(spec, d, offset[d], extents[d]);
    if (!reason.empty()) return LayoutRefusal::refused(reason);
  }
  RegisterView view{LinearLayout(spec), {}};
  const ThreadZero held(layout);
  for (int r = 0; r < view.layout.registers(); ++r) {
    Dims index = view.layout.apply({.reg = r});
    for (int d = 0; d < layout.rank(); ++d) index[d] += offset[d];
    view.registers.push_back(held.find(index));
    if (view.registers.back() < 0)
      return LayoutRefusal::refused("the box is not held by every thread");
  }
  return view;
}

Result<LinearLayout> lengthen_runs(const LinearLayout& layout, int dim, int run) {
  LayoutSpec spec = layout.spec();
  const auto along = [&](const Dims& basis) {
    for (int d = 0; d < basis.size(); ++d)
      if (d != dim && basis[d] != 0) return 0;
    return basis[dim];
  };
  const auto across = [&](const Dims& basis) {
    return basis[dim] == 0 && std::ranges::any_of(basis, [](int step) { return step != 0; });
  };
  auto& registers = spec.of(HwDim::Register);
  auto& lanes = spec.of(HwDim::Lane);
  // Shuffles move words: splitting a pair of elements between lanes would require shared memory.
  const bool has_pairs = !registers.empty() && along(registers.front()) == 1;
  for (int step = 1; step < run; step *= 2) {
    const auto is_step = [&](const Dims& basis) { return along(basis) == step; };
    if (std::ranges::any_of(registers, is_step)) continue;
    const auto lane = std::ranges::find_if(lanes, is_step);
    auto beyond =
        std::ranges::find_if(registers, [&](const Dims& basis) { return along(basis) >= run; });
    if (beyond == registers.end() && has_pairs)
      beyond = std::ranges::find_if(registers, [&](const Dims& basis) { return across(basis); });
    if (lane == lanes.end() || beyond == registers.end())
      return Result<LinearLayout>::refused("lanes and registers do not hold the run");
    std::swap(*lane, *beyond);
  }
  return LinearLayout(spec);
}

}  // namespace tegula::ir
