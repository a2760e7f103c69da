#include "ir/analysis/toeplitz_tiles.h"

#include <algorithm>
#include <ranges>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {
namespace {

/// Minimum ratio of tile registers to computed registers for an exchange between lanes.
constexpr std::int64_t kWorthwhile = 2;

}  // namespace

std::optional<WarpToeplitz> WarpToeplitz::of(const LinearLayout& layout) {
  WarpToeplitz d{index_fn(layout, 0), index_fn(layout, 1)};
  // Padding would add diagonals without elements.
  if (!layout.is_exact() || layout.in_bits(HwDim::Block) > 0) return std::nullopt;
  for (const IndexFn* fn : {&d.rows, &d.columns})
    if (!fn->is_additive || !fn->thread.is_disjoint()) return std::nullopt;
  std::vector<std::int64_t> lanes, registers;
  for (int lane = 0; lane < WarpToeplitz::kLanes; ++lane)
    lanes.push_back(d.columns.thread({.lane = lane}) - d.rows.thread({.lane = lane}));
  for (int r = 0; r < layout.registers(); ++r) registers.push_back(d.of_register(r));
  const auto of_lanes = std::ranges::minmax(lanes), of_registers = std::ranges::minmax(registers);
  d.first = of_lanes.min + of_registers.min;
  d.count = of_lanes.max + of_registers.max - d.first + 1;
  d.lane_first = of_lanes.min;
  d.lane_count = of_lanes.max - of_lanes.min + 1;
  return d;
}

bool WarpToeplitz::is_for_shuffles() const { return lane_count <= WarpToeplitz::kLanes; }

ToeplitzTiles::ToeplitzTiles(const Kernel& k, bool has_memory) : has_memory_(has_memory) {
  std::vector<OpId> ops;
  walk(k, k.body(), [&](OpId op) { ops.push_back(op); });
  const Uses uses(k);
  ToeplitzAnalysis diagonals(k);
  for (OpId op : std::views::reverse(ops))
    if (k[op].results.size() == 1 && k.type(k[op].results[0]).is_tile())
      find(k, op, uses, diagonals);
}

/// Finds the values to compute by diagonal. Visits users before the values that they use.
void ToeplitzTiles::find(const Kernel& k, OpId op, const Uses& uses, ToeplitzAnalysis& diagonals) {
  const Value v = k[op].results[0];
  if (uses.count(v) == 0) return;
  const auto computes_it = [&](const Uses::Use& use) { return is_within(use.op) || at(use.op); };
  if (std::ranges::all_of(uses.of(v), computes_it)) {
    within_.insert(op);
    return;
  }
  const Type type = k.type(v);
  const bool fits_words =
      !type.is_pointer() && (size_bits(type.dtype()) == 16 || size_bits(type.dtype()) == 32);
  if (!fits_words || !type.layout() || !diagonals.is_costly(v)) return;
  const auto here = WarpToeplitz::of(*type.layout());
  if (here && kWorthwhile * here->registers() <= type.layout()->registers() &&
      (has_memory_ || here->is_for_shuffles()))
    roots_.emplace(op, *here);
}

const WarpToeplitz* ToeplitzTiles::at(OpId op) const {
  const auto it = roots_.find(op);
  return it == roots_.end() ? nullptr : &it->second;
}

std::int64_t ToeplitzTiles::bytes_per_warp() const {
  std::int64_t most = 0;
  for (const auto& [op, here] : roots_) most = std::max(most, here.registers());
  return most * WarpToeplitz::kLanes * size_bytes(DType::f32);
}

}  // namespace tegula::ir
