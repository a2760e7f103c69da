// Turns gathers in a mainloop whose indices form a box of a view into loads of that box, so that
// TMA can perform them. It runs only if the plan will have `tma_aux_loads`, for example for a
// tensor that a score function reads at each pair.
//
// Before:  p = addptr (view_ptr V), q * (view_stride V 0) + kv * (view_stride V 1)
//          x = load p, (0 <= q < view_dim V 0 and 0 <= kv < view_dim V 1), 0
// After:   x = fill_absent (load_view V, q0, kv0), 0
// Here q is q0 plus the row, and kv is kv0 plus the column.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/affine_index.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/tma_access.h"
#include "ir/builder.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// An index into one dimension of a view: it varies along one dimension of the tile, or along none.
struct Position {
  AffineIndex index;
  DType dtype;
};

/// Collects the operands of nested ops of this kind.
void flatten(const Kernel& k, Value v, Opcode opcode, std::vector<Value>& leaves) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != opcode) return leaves.push_back(v);
  for (Value operand : k[def].operands) flatten(k, operand, opcode, leaves);
}

struct RecoveredBox {
  Value view;
  std::vector<Position> positions;  ///< position in each dimension of the view
  Ints axes;                        ///< view dimension of each tile dimension
};

/// Addresses and mask of a gather.
class Gather {
 public:
  Gather(const Kernel& k, OpId load) : k_(k), d_(k[load]), positions_(k) {}

  std::optional<RecoveredBox> box() {
    if (d_.operands.size() != 3 || !is_zero(k_, d_.operands[2])) return std::nullopt;
    const OpId sum = k_[d_.operands[0]].def;
    if (!sum || k_[sum].opcode != Opcode::AddPtr) return std::nullopt;
    const OpId base = k_[k_[sum].operands[0]].def;
    if (!base || k_[base].opcode != Opcode::ViewPtr) return std::nullopt;
    box_.view = k_[base].operands[0];
    indices_.resize(static_cast<std::size_t>(k_.type(box_.view).rank()));
    if (!find_indices(k_[sum].operands[1]) || !is_guarded() || !find_positions())
      return std::nullopt;
    return box_;
  }

 private:
  /// Returns the axis whose extent or stride (`fact`) `v` is.
  std::optional<std::size_t> axis_of(Value v, Opcode fact) const {
    const OpId def = k_[v].def;
    if (!def || k_[def].opcode != fact || k_[def].operands[0] != box_.view) return std::nullopt;
    return static_cast<std::size_t>(k_[def].attrs.i(AttrName::axis));
  }

  /// Finds the index of each dimension: the offset must be the sum of indices times strides.
  bool find_indices(Value offset) {
    std::vector<Value> terms;
    flatten(k_, offset, Opcode::Add, terms);
    for (Value term : terms) {
      const OpId def = k_[term].def;
      if (!def || k_[def].opcode != Opcode::Mul) return false;
      const auto axis = axis_of(k_[def].operands[1], Opcode::ViewStride);
      if (!axis || indices_[*axis]) return false;
      indices_[*axis] = k_[def].operands[0];
    }
    return std::ranges::all_of(indices_, [](Value v) { return static_cast<bool>(v); });
  }

  /// Returns true if exactly the elements outside of the view are masked.
  bool is_guarded() const {
    std::vector<Value> conditions;
    flatten(k_, d_.operands[1], Opcode::And, conditions);
    std::vector<bool> from(indices_.size()), to(indices_.size());
    for (Value condition : conditions) {
      const OpId def = k_[condition].def;
      if (!def || k_[def].opcode != Opcode::Cmp) return false;
      const Value index = k_[def].operands[0], limit = k_[def].operands[1];
      const std::string_view pred = k_[def].attrs.s(AttrName::pred);
      if (pred == "ge" && is_zero(k_, limit)) {
        if (std::ranges::find(indices_, index) == indices_.end()) return false;
        for (std::size_t i = 0; i < indices_.size(); ++i) from[i] = from[i] || indices_[i] == index;
        continue;
      }
      const auto axis = axis_of(limit, Opcode::ViewDim);
      if (pred != "lt" || !axis || indices_[*axis] != index) return false;
      to[*axis] = true;
    }
    return std::ranges::count(from, false) + std::ranges::count(to, false) == 0;
  }

  /// Finds the positions in the view. Each dimension of the tile must be one of the view.
  bool find_positions() {
    const auto shape = k_.type(d_.results[0]).shape();
    box_.axes.assign(shape.size(), -1);
    for (std::size_t axis = 0; axis < indices_.size(); ++axis) {
      const auto& position = positions_.of(indices_[axis]);
      if (!position) return false;
      if (!position->is_uniform()) {
        const auto dim = position->single_dim();
        if (!dim || box_.axes[*dim] >= 0) return false;
        box_.axes[*dim] = static_cast<std::int64_t>(axis);
      }
      box_.positions.push_back({*position, k_.type(indices_[axis]).dtype()});
    }
    return std::ranges::all_of(box_.axes, [](std::int64_t axis) { return axis >= 0; });
  }

  const Kernel& k_;
  const OpData& d_;
  AffineIndices positions_;
  RecoveredBox box_;
  std::vector<Value> indices_;
};

void load_box(Kernel& k, OpId load, const RecoveredBox& box) {
  Builder b(k, load);
  std::vector<Value> offsets;
  const auto itself = [](Value v) { return v; };
  for (const Position& p : box.positions) offsets.push_back(first_of(b, p.index, p.dtype, itself));
  const Type tile = k.type(k[load].results[0]);
  const Value fill = k[load].operands[2];
  const OpId made =
      create_access(b, Opcode::LoadView, box_of(box.view, offsets, box.axes), k[load].attrs, tile);
  const Value filled = b.op(Opcode::FillAbsent, {k[made].results[0], fill}, tile);
  k.replace_all_uses(k[load].results[0], filled);
  k.erase(load);
}

/// Returns true for a load of a tile of rows and columns in a mainloop.
bool is_of_pairs(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  const OpId loop = k[d.parent].owner;
  if (d.opcode != Opcode::Load || !loop || k[loop].opcode != Opcode::For) return false;
  const Type tile = k.type(d.results[0]);
  return tile.is_tile() && tile.rank() == 2 && tile.shape()[0] > 1 && tile.shape()[1] > 1 &&
         first_dot(k, d.parent);
}

}  // namespace

bool gathers_to_boxes(Kernel& kernel, PassContext& context) {
  if (!prefers_tma_aux_loads(kernel, context)) return false;
  const std::vector<OpId> gathers =
      ops_where(kernel, kernel.body(), [&](OpId op) { return is_of_pairs(kernel, op); });
  bool changed = false;
  for (OpId load : gathers) {
    const auto box = Gather(kernel, load).box();
    const Type tile = kernel.type(kernel[load].results[0]);
    const std::string_view why_not =
        !box ? "its elements are not a box of a tensor"
             : why_not_tma_tile(kernel.type(box->view), box->axes, tile);
    const bool can = why_not.empty();
    context.remark(can ? Remark::Kind::Applied : Remark::Kind::Missed, kernel[load].loc,
                   can ? "gathered box loaded as one"
                       : fmt::format("loaded element by element, not by TMA: {}", why_not),
                   {{"tile", tile.str()}});
    if (can) load_box(kernel, load, *box);
    changed |= can;
  }
  return changed;
}

}  // namespace tegula::ir
