#include "autotune/user/traced_work.h"

#include <algorithm>

#include "ir/analysis/memory_requests.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/schedule/live_tiles.h"
#include "ir/pipeline.h"
#include "ir/uses.h"

namespace tegula::autotune {
namespace {

using ir::GridDims;
using ir::Kernel;
using ir::MemoryRequests;
using ir::Opcode;
using ir::OpData;
using ir::OpId;
using ir::Value;

/// Trips of a loop whose bounds are read from memory.
constexpr double kUnknownTrips = 16;

std::vector<ir::EvalArg> eval_args(std::span<const dsl::HostArg> args) {
  std::vector<ir::EvalArg> list;
  for (const dsl::HostArg& a : args) {
    if (a.kind == dsl::ParamKind::View && a.tensor != nullptr) {
      const Dims &dims = a.tensor->shape(), &strides = a.tensor->strides();
      list.emplace_back(ir::TensorArg{nullptr, ir::Ints(dims.begin(), dims.end()),
                                      ir::Ints(strides.begin(), strides.end()), a.tensor->dtype()});
    } else if (a.kind == dsl::ParamKind::Scalar) {
      list.emplace_back(ir::from_bits(a.bits, a.dtype));
    } else {
      list.emplace_back(ir::PointerArg{});
    }
  }
  return list;
}

class Counting {
 public:
  Counting(const Kernel& k, const ir::Plan& plan, std::span<const ir::EvalArg> args)
      : k_(k),
        plan_(plan),
        args_(args),
        uses_(k),
        first_(k, args, 0),
        launched_(first_.programs()),
        middle_(k, args, launched_ / 2),
        grid_(k, first_) {
    if (plan.multicast) find_neighbours();
  }

  Work run() {
    find_trips(k_.body(), 1);
    w_.trips = trips_;
    w_.tiles = static_cast<double>(launched_) / k_.info.cluster;
    region(k_.body(), 1);
    w_.engine =
        has_dots_ ? (plan_.wgmma ? MmaEngine::wgmma : MmaEngine::mma_sync) : MmaEngine::none;
    w_.cluster = plan_.multicast ? 2 : k_.info.cluster;
    w_.is_multicast = plan_.multicast;
    w_.overlaps_epilogue = plan_.pingpong;
    w_.transposes = plan_.swap_ab;
    // A dot in flight occupies a slot, so that a ring of two loads one trip at a time.
    w_.slots = has_dots_ && plan_.stages > 2 ? plan_.stages : 1;
    w_.accumulator_bytes = 4 * accumulator_;
    occupy();
    order();
    return w_;
  }

 private:
  /// Finds the dimensions of the grid that the two CTAs of a cluster have in common.
  void find_neighbours() {
    ir::CallNumbers second(k_, args_, 1);
    for (std::size_t i = 0; i < grid_.dims().size(); ++i)
      if (const auto tile = first_.of(grid_.dims()[i].tile);
          tile && tile == second.of(grid_.dims()[i].tile))
        common_ |= GridDims::Set{1} << i;
  }

  double executions(const OpData& d, double times) {
    if (!ir::is_loop(d)) return times;
    const auto trips = middle_.trips(d);
    return times * (trips ? static_cast<double>(*trips) : kUnknownTrips);
  }

  /// Finds the executions of the mainloop's body: of the dots, or else of the innermost tiles.
  void find_trips(ir::RegionId r, double times) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      for (ir::RegionId inner : d.regions) find_trips(inner, executions(d, times));
      if (d.opcode == Opcode::Dot && !has_dots_) has_dots_ = true, trips_ = times;
      const bool is_work = d.opcode == Opcode::Dot || !has_dots_;
      if (is_work && !d.results.empty() && k_.type(d.results[0]).is_tile())
        trips_ = std::max(trips_, times);
    }
  }

  void region(ir::RegionId r, double times) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      for (ir::RegionId inner : d.regions) region(inner, executions(d, times));
      if (d.opcode == Opcode::Dot)
        dot(d, times);
      else if (d.is(Opcode::LoadView, Opcode::StoreView, Opcode::AtomicView))
        add(d, ir::requests_of_box(k_, d, middle_, grid_), times);
      else if (ir::mask_operand(d.opcode))
        add(d, ir::requests_by_address(k_, d, grid_), times);
      else if (!d.results.empty() && k_.type(d.results[0]).is_tile())
        computed(d, times);
    }
  }

  /// Adds what `times` executions of an op count as, per trip.
  double share(double times) const { return times / std::max(trips_, 1.0); }

  void dot(const OpData& d, double times) {
    const auto acc = k_.type(d.results[0]).shape();
    const auto m = static_cast<double>(acc[0]), n = static_cast<double>(acc[1]),
               depth = static_cast<double>(k_.type(d.operands[0]).shape()[1]);
    accumulator_ = std::max(accumulator_, m * n);
    rows_ = std::max(rows_, acc[0]);
    const ir::MatrixType* type = ir::matrix_type(k_, d);
    if (!type) {
      w_.thread_ops += share(times) * m * n * depth;
      return;
    }
    const double k_bytes = depth * type->bits / 8;
    w_.mma_bytes += share(times) * 2 * m * n * k_bytes;
    const double warpgroups = std::max(m / ir::kWgmmaRows, 1.0);
    // Each warpgroup beyond two delays the release of a slot.
    w_.exchanges += share(times) * 0.05 * std::max(warpgroups - 2, 0.0);
    // Four warpgroups of 128 columns were as fast as two of 256, not faster
    // (docs/experiments/2026-11-27-grouped-gemm.md).
    const double most = ir::kMaxWgmmaColumns,
                 columns = std::min(n * std::max(warpgroups / 2, 1.0), most);
    w_.mma_columns = std::max(w_.mma_columns, static_cast<int>(columns));
    w_.smem_bytes += share(times) * k_bytes * (m + warpgroups * n);
  }

  /// Returns true if threads execute the access, and not TMA or cp.async for a dot.
  bool is_of_threads(const OpData& d) const {
    return d.opcode != Opcode::LoadView || !reaches_dot(d.results[0]);
  }
  bool reaches_dot(Value v) const {
    return std::ranges::any_of(uses_.of(v), [&](const ir::Uses::Use& use) {
      const OpData& d = k_[use.op];
      return d.opcode == Opcode::Dot ||
             (d.is(Opcode::Permute, Opcode::FillAbsent, Opcode::Crop) && reaches_dot(d.results[0]));
    });
  }

  void add(const OpData& d, const MemoryRequests& a, double times) {
    // Threads issue a request every fourth cycle of a computation.
    constexpr double kOpsOfAccess = 4;
    const Value elements_of =
        d.opcode == Opcode::LoadView ? d.results[0] : d.operands[d.operands.size() > 1 ? 1 : 0];
    const ir::Type tile = k_.type(elements_of);
    const double elements = tile.is_tile() ? static_cast<double>(tile.count()) : 1;
    const bool is_of_threads = this->is_of_threads(d);
    if (is_of_threads)
      w_.thread_ops += share(times) * kOpsOfAccess * elements / a.elements_at_once;
    else if (!plan_.wgmma && a.elements_at_once * size_bytes(tile.dtype()) < 4)
      w_.single_elements += share(times) * elements;
    accesses_.emplace_back(a, times);
    const bool is_epilogue = has_dots_ && is_of_threads && (times < trips_ || trips_ <= 1);
    if (is_epilogue)
      w_.epilogue_bytes += a.bytes * times;
    else if (times >= trips_ || is_of_threads) {
      const bool is_multicast = !is_of_threads && plan_.multicast && (a.depends & ~common_) == 0;
      w_.l2_lines += share(times) * a.lines * (is_multicast ? 0.5 : 1);
    }
    if (!is_of_threads)
      (times >= trips_ ? stage_bytes_ : once_bytes_) += elements * size_bytes(tile.dtype());
  }

  /// Elementwise ops count by the instructions that a warp issues. Functions have an eighth of the
  /// rate, in separate units.
  void computed(const OpData& d, double times) {
    using enum Opcode;
    if (d.is(Const, Arange, Splat, Broadcast, ExpandDims, Reshape, Permute, For, While, If)) return;
    const ir::Type type = k_.type(d.operands.empty() ? d.results[0] : d.operands[0]);
    const auto elements = static_cast<double>(
        std::max(type.is_tile() ? type.count() : 1, k_.type(d.results[0]).count()));
    const bool is_function =
        d.is(Exp2, Log2, Sqrt, Rsqrt, Rcp, Div, TanhApprox, SinApprox, CosApprox);
    w_.thread_ops += share(times) * elements * (is_function ? 4 : 1);
    const bool folds = d.is(Reduce, ArgReduce, ReduceWith, Scan, ScanWith, Sort, KeyRanks);
    if (!folds) return;
    const bool is_once = times > 1 && d.opcode == Reduce && is_deferred(d.results[0]);
    const auto lines = static_cast<double>(k_.type(d.results[0]).count());
    const double steps = d.opcode == Sort ? 8 : lines >= plan_.num_warps ? 1 : 2;
    w_.exchanges += (is_once ? 1 / std::max(trips_, 1.0) : share(times)) * steps;
  }

  /// Returns true if a loop only adds the result to a carry: threads then keep partial sums.
  bool is_deferred(Value v) const {
    const auto use = uses_.only(v);
    if (!use || !k_[use->op].is(Opcode::Add, Opcode::Max, Opcode::Min, Opcode::Mul)) return false;
    const auto next = uses_.only(k_[use->op].results[0]);
    return next && k_[next->op].opcode == Opcode::Yield;
  }

  /// Counts the CTAs of an SM.
  void occupy() {
    constexpr std::int64_t kOthersOfDots = 56, kOthers = 16;
    const ir::TargetRow& target = *k_.info.target;
    const int threads = 32 * plan_.num_warps;
    const std::int64_t live = ir::live_tiles(k_, threads).registers;
    const int cap = target.registers_at_entry(plan_.num_warps * plan_.min_ctas_per_sm);
    if (!has_dots_) {
      const auto registers = static_cast<int>(std::min<std::int64_t>(live + kOthers, cap));
      w_.ctas_per_sm = std::max(1, ir::ctas_per_sm(target, {threads, registers, 0}));
    } else if (!plan_.persistent) {
      const double most = rows_ < ir::kWgmmaRows ? 8 : 4;
      const double ring = once_bytes_ + plan_.stages * stage_bytes_,
                   by_shared = ring > 0 ? static_cast<double>(target.ring_bytes()) / ring : most,
                   by_registers = static_cast<double>(target.registers_per_sm) /
                                  static_cast<double>(threads * (live + kOthersOfDots));
      w_.ctas_per_sm = static_cast<int>(std::clamp(std::min(by_shared, by_registers), 1.0, most));
    }
    // Registers that do not fit are written to memory once and read several times.
    constexpr double kLinesOfRegister = 8 * 4 / 128.0;
    const std::int64_t spilled =
        plan_.wgmma ? 0 : live + (has_dots_ ? kOthersOfDots : kOthers) - cap;
    if (spilled > 0) w_.l2_lines += kLinesOfRegister * static_cast<double>(spilled * threads);
    w_.epilogue_rows = std::max<double>(static_cast<double>(rows_) / ir::kWgmmaRows, 1);
  }

  /// Finds which tiles share what they load. Dimensions that all accesses depend on separate
  /// matrices; the others are rows and columns of tiles.
  void order() {
    GridDims::Set common = grid_.all();
    for (const auto& [a, times] : accesses_)
      if (a.depends != 0) common &= a.depends;
    const GridDims::Set shared = grid_.all() & ~common;
    GridDims::Set rows = shared & (~shared + 1);
    for (const auto& [a, times] : accesses_)
      if ((a.depends & rows) != 0 && (a.depends & shared) != shared) rows |= a.depends & shared;
    const GridDims::Set columns = shared & ~rows;
    TileOrder& t = w_.order;
    t.matrices = grid_.count(common);
    t.rows = grid_.count(rows);
    t.columns = grid_.count(columns);
    if (shared == 0) t.matrices = 1, t.rows = w_.tiles;
    t.tiles_of_sm = plan_.groups();
    t.group = group_of(columns);
    for (const auto& [a, times] : accesses_) {
      const double bytes = a.bytes * times;
      if (shared == 0)
        t.row_bytes += a.depends != 0 ? bytes : 0;
      else if ((a.depends & rows) != 0 && (a.depends & columns) != 0)
        t.result_bytes += bytes;
      else if ((a.depends & columns) != 0)
        t.column_bytes += bytes;
      else
        t.row_bytes += (a.depends & rows) != 0 ? bytes : bytes / t.rows;
    }
  }
  /// Returns the number of consecutive programs, from the first on, with the same columns.
  double group_of(GridDims::Set columns) {
    constexpr int kMaxGroup = 64;
    const auto at = [&](int program) {
      ir::CallNumbers numbers(k_, args_, program);
      std::vector<std::optional<std::int64_t>> tiles;
      for (std::size_t i = 0; i < grid_.dims().size(); ++i)
        if ((columns >> i & 1) != 0) tiles.push_back(numbers.of(grid_.dims()[i].tile));
      return tiles;
    };
    const auto first = at(0);
    int group = 1;
    while (group < kMaxGroup && group < w_.order.rows && at(group) == first) ++group;
    return group;
  }

  const Kernel& k_;
  const ir::Plan& plan_;
  std::span<const ir::EvalArg> args_;
  ir::Uses uses_;
  ir::CallNumbers first_;  ///< of the first program
  std::int64_t launched_;
  ir::CallNumbers middle_;  ///< of the middle program
  GridDims grid_;
  Work w_;
  bool has_dots_ = false;
  double trips_ = 1, accumulator_ = 0, stage_bytes_ = 0, once_bytes_ = 0;
  std::int64_t rows_ = 0;
  GridDims::Set common_ = 0;
  std::vector<std::pair<MemoryRequests, double>> accesses_;  ///< with their executions
};

std::span<const ir::Pass> passes_to_plan() {
  const auto all = ir::ir_passes();
  const auto last = std::ranges::find(all, "plan", &ir::Pass::name);
  return all.first(static_cast<std::size_t>(last - all.begin()) + 1);
}

ir::Plan plan_by(std::span<const ir::Pass> passes, ir::Kernel& kernel,
                 const ir::PlanRequest& planned) {
  ir::PassContext context;
  context.planned = planned;
  ir::run_pipeline(kernel, passes, context, {.verify = false, .after_pass = {}});
  return *context.plan;
}

}  // namespace

ir::Plan plan_of(ir::Kernel& kernel, const ir::PlanRequest& planned) {
  return plan_by(passes_to_plan(), kernel, planned);
}

ir::Plan plan_again(ir::Kernel& kernel, const ir::PlanRequest& planned,
                    const PlanPatch& preferred) {
  kernel.info.preferred = ir::merged(kernel.info.preferred, preferred);
  return plan_by(passes_to_plan().last(1), kernel, planned);
}

Work work_of(const ir::Kernel& kernel, const ir::Plan& plan, std::span<const dsl::HostArg> args) {
  const std::vector<ir::EvalArg> numbers = eval_args(args);
  return Counting(kernel, plan, numbers).run();
}

}  // namespace tegula::autotune
