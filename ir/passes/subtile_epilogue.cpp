// Splits an epilogue into column subtiles, each computed and stored before the next.
//
// Before:  r = load_view R; v = f(sums, cast r); store_view C, v                   (128x256)
// After:   for each subtile: r = load_view R there; v = f(tile_slice sums, cast r); store_view
// A thread then holds the accumulator and the operands and intermediate values of one subtile
// only. Loads run a few subtiles ahead: the computation in between hides their latency, and
// they cannot move past the stores that follow them. The first loads are placed before the wait for
// the last MMAs.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/builder.h"
#include "ir/erase_unused.h"
#include "ir/passes/layouts/slice_layout.h"
#include "ir/passes/layouts/split_dim.h"
#include "ir/pipeline.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

constexpr int kColumns = 1;

/// Registers per thread: maximum for loads ahead, and those for other values of a subtile.
constexpr std::int64_t kAheadRegisters = 24, kOtherRegisters = 56;

bool stores(const Kernel& k, OpId op) {
  using enum Opcode;
  return any_op(k, op, [&](OpId o) {
    return k[o].is(StoreView, Store, AtomicRmw, AtomicCas, AtomicStore, ArriveAndTestLast);
  });
}

/// One store, and the ops that it depends on.
class EpilogueSubtiles {
 public:
  EpilogueSubtiles(Kernel& k, OpId store, int columns, const Plan& plan)
      : k_(k),
        store_(store),
        region_(k[store].parent),
        columns_(columns),
        registers_(plan.registers_per_consumer(*k.info.target) - kOtherRegisters),
        hazards_(k) {}

  /// Returns true if the epilogue can be split. Changes nothing.
  bool analyze() {
    const Type tile = k_.type(stored_value(k_[store_]));
    if (tile.rank() != 2 || !tile.layout()) return false;
    blocks_ = tile.shape()[1] / columns_;
    if (blocks_ < 2 || tile.shape()[1] % columns_ != 0) return false;
    const BoxAccess stored = access_of(k_, k_[store_]);
    if (stored.along.size() != 2 || stored.gathered_dim() == kColumns) return false;
    collect_movable();
    return follow(stored.stored, kColumns) && has_sums_;
  }

  void run() {
    parts_.resize(static_cast<std::size_t>(blocks_));
    const std::int64_t ahead = blocks_ahead();
    at_ = can_load_early() ? wait_ : store_;
    for (std::int64_t block = 0; block < ahead; ++block) load_block(block);
    at_ = store_;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      load_block(block + ahead);
      const Value v = part(stored_value(k_[store_]), kColumns, block);
      Builder b = here(store_);
      BoxAccess a = box(b, store_, kColumns, block);
      a.stored = v;
      create_access(b, Opcode::StoreView, a, k_[store_].attrs);
    }
    std::vector<OpId> whole;
    for (OpId op : k_.ops(region_))
      if (is_cut(op) && followed_.contains(k_[op].results[0])) whole.push_back(op);
    k_.erase(store_);
    erase_unused(k_, std::move(whole));
  }

 private:
  static bool is_repeated(Opcode op) {
    using enum Opcode;
    return op == Const || op == Poison || op == Splat || op == Broadcast || op == ExpandDims ||
           op == Permute || op == ConvertLayout || info(op).family == Family::Elementwise;
  }

  /// Collects the loads that may move to the store, because nothing is written in between, and
  /// those that may move before the wait for the last MMAs.
  void collect_movable() {
    std::unordered_set<OpId> after_wait;
    for (OpId op : k_.ops(region_)) {
      if (op == store_) break;
      if (stores(k_, op)) loads_.clear();
      if (stores(k_, op) || k_[op].opcode == Opcode::GridDependencyWait) wait_ = OpId();
      if (k_[op].opcode == Opcode::DotWait) wait_ = op, after_wait.clear();
      after_wait.insert(op);
      if (k_[op].opcode != Opcode::LoadView) continue;
      loads_.insert(op);
      for (Value v : k_[op].operands)
        if (after_wait.contains(k_[v].def)) late_.insert(op);
    }
  }

  /// Returns true if a subtile of the load may be loaded after earlier subtiles were stored.
  bool may_be_loaded_late(OpId load) {
    const MemoryAccess *read = hazards_.access(load), *written = hazards_.access(store_);
    return !read || !written || !hazards_.may_collide(*read, *written) ||
           hazards_.is_same_box(*read, *written);
  }

  /// Returns true if an index tile selects along the dimension that subtiles divide.
  bool selects_columns(OpId load) const {
    const int along = access_of(k_, k_[load]).gathered_dim();
    return along >= 0 && (along == kColumns || k_.type(k_[load].results[0]).rank() == 1);
  }

  bool is_cut(OpId op) {
    if (!op || k_[op].parent != region_) return false;
    if (k_[op].opcode == Opcode::LoadView)
      return loads_.contains(op) && may_be_loaded_late(op) && !selects_columns(op) &&
             access_of(k_, k_[op]).along.size() == k_.type(k_[op].results[0]).shape().size();
    return is_repeated(k_[op].opcode) && k_[op].results.size() == 1;
  }

  /// Checks that every layout between the accumulator and the store can be split.
  bool follow(Value v, int dim) {
    const Type t = k_.type(v);
    if (!t.is_tile() || dim == kNotSplit || !followed_.insert(v).second) return true;
    for (std::int64_t block = 0; block < blocks_; ++block)
      if (!slice_layout(t, dim, block * columns_, columns_)) return false;
    const OpId def = k_[v].def;
    if (!is_cut(def)) {
      has_sums_ |= t.rank() == 2;
      return true;
    }
    if (k_[def].opcode == Opcode::LoadView) {
      ordered_loads_.emplace_back(v, dim);
      return true;
    }
    return std::ranges::all_of(k_[def].operands, [&](Value operand) {
      return follow(operand, dim_of_operand(k_, k_[def], operand, dim));
    });
  }

  Builder here(OpId like) {
    Builder b(k_, at_);
    b.loc = k_[like].loc;
    return b;
  }

  /// Returns the number of subtiles that are loaded ahead. The accumulator leaves few registers, so
  /// the others are loaded at the start of their subtile.
  std::int64_t blocks_ahead() const {
    std::int64_t bytes = 0;
    for (const auto& [v, dim] : ordered_loads_)
      bytes +=
          slice_layout(k_.type(v), dim, 0, columns_)->registers() * size_bytes(k_.type(v).dtype());
    const Type tile = k_.type(stored_value(k_[store_]));
    const std::int64_t available = registers_ - tile.layout()->registers();
    return std::clamp<std::int64_t>(
        4 * std::min(available, kAheadRegisters) / std::max<std::int64_t>(1, bytes), 0, blocks_);
  }

  bool can_load_early() const {
    return wait_ && std::ranges::none_of(ordered_loads_, [&](const auto& load) {
             return late_.contains(k_[load.first].def);
           });
  }

  void load_block(std::int64_t block) {
    if (block >= blocks_) return;
    for (const auto& [v, dim] : ordered_loads_) part(v, dim, block);
  }

  /// Returns the access of a subtile, without the stored value.
  BoxAccess box(Builder& b, OpId op, int dim, std::int64_t block) {
    BoxAccess a = access_of(k_, k_[op]);
    place_indices(b, a, dim);
    if (a.divisor != 0) a.divisor = std::gcd(a.divisor, columns_);
    if (block == 0) return a;
    Value& offset = a.along_dim(dim).offset;
    offset = b.add(offset, b.constant(k_.type(offset), block * columns_));
    return a;
  }

  /// Converts index tiles to the layout of the subtile's rows.
  void place_indices(Builder& b, BoxAccess& a, int dim) {
    if (a.gathered_dim() < 0) return;
    const Type part = slice_type(a.tile, dim, 0, columns_);
    const LinearLayout* lines = index_tile_layout(*part.layout(), a.gathered_dim());
    for (AccessAxis& axis : a.axes)
      if (const Type t = k_.type(axis.offset); axis.is_gathered() && t.layout() != lines)
        axis.offset = b.op(Opcode::ConvertLayout, {axis.offset}, t.with_layout(lines));
  }

  Value part(Value v, int dim, std::int64_t block) {
    if (!k_.type(v).is_tile() || dim == kNotSplit) return v;
    auto& made = parts_[static_cast<std::size_t>(block)];
    if (const auto it = made.find(v); it != made.end()) return it->second;
    const OpId def = k_[v].def;
    Builder b = here(store_);
    const Value result = !is_cut(def) ? tile_slice(b, v, dim, block * columns_, columns_)
                         : k_[def].opcode == Opcode::LoadView ? loaded(def, dim, block)
                                                              : repeated(def, dim, block);
    return parts_[static_cast<std::size_t>(block)][v] = result;
  }

  Value loaded(OpId load, int dim, std::int64_t block) {
    Builder b = here(load);
    const BoxAccess a = box(b, load, dim, block);
    const Type t = slice_type(a.tile, dim, block * columns_, columns_);
    return k_[create_access(b, Opcode::LoadView, a, k_[load].attrs, t)].results[0];
  }

  Value repeated(OpId op, int dim, std::int64_t block) {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
      const Value operand = k_[op].operands[i];
      operands.push_back(part(operand, dim_of_operand(k_, k_[op], operand, dim), block));
    }
    const Type t = slice_type(k_.type(k_[op].results[0]), dim, block * columns_, columns_);
    return k_[here(op).create(k_[op].opcode, operands, std::span(&t, 1), k_[op].attrs)].results[0];
  }

  Kernel& k_;
  OpId store_;
  RegionId region_;
  std::int64_t columns_;
  std::int64_t registers_;  ///< registers of accumulators and loads
  std::int64_t blocks_ = 0;
  bool has_sums_ = false;
  OpId wait_;  ///< the last wait before the loads
  OpId at_;    ///< position of new ops
  MemoryHazards hazards_;
  std::unordered_set<OpId> loads_, late_;
  std::unordered_set<Value> followed_;
  std::vector<std::pair<Value, int>> ordered_loads_;
  std::vector<std::unordered_map<Value, Value>> parts_;  ///< values of each subtile
};

}  // namespace

bool subtile_epilogue(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  const std::vector<OpId> stores = ops_where(
      kernel, kernel.body(), [&](OpId op) { return kernel[op].opcode == Opcode::StoreView; });
  bool changed = false;
  for (OpId store : stores) {
    const int columns =
        stored_columns(context.planned.schedule.get(), kernel[store], plan.epilogue_tile_n);
    if (columns == 0) continue;
    EpilogueSubtiles blocks(kernel, store, columns, plan);
    if (!blocks.analyze()) continue;
    context.remark(Remark::Kind::Applied, kernel[store].loc, "stored by blocks of columns",
                   {{"columns", std::to_string(columns)}});
    blocks.run();
    changed = true;
  }
  return changed;
}

}  // namespace tegula::ir
