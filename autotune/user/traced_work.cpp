#include "autotune/user/traced_work.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "autotune/matmul/work.h"
#include "ir/analysis/access_width.h"
#include "ir/eval/evaluate.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/schedule/live_tiles.h"
#include "ir/pipeline.h"
#include "ir/uses.h"
#include "tegula/int_math.h"

namespace tegula::autotune {
namespace {

using ir::Kernel;
using ir::OpData;
using ir::OpId;
using ir::Opcode;
using ir::Value;

/// Trips of a loop whose bounds are read from memory.
constexpr double kUnknownTrips = 16;
/// L2 sectors, the least that a request reads.
constexpr double kLine = 128, kSector = 32;

/// The call's arguments, and scalars of the kernel that follow from them and a program's number.
class Numbers {
 public:
  Numbers(const Kernel& k, std::span<const dsl::HostArg> args, std::int64_t program)
      : k_(k), args_(args), program_(program) {
    for (const ir::Param& p : k.params()) position_[p.value] = p.attrs.i(ir::AttrName::arg);
  }

  std::optional<std::int64_t> of(Value v) {
    const auto cell = cell_of(v);
    return cell ? std::optional(cell->i) : std::nullopt;
  }
  /// Returns the tensor of a view; null for other views.
  const Tensor* tensor(Value view) const {
    const auto at = position_.find(view);
    return at == position_.end() ? nullptr : args_[static_cast<std::size_t>(at->second)].tensor;
  }
  double trips(const OpData& loop) {
    if (loop.opcode != Opcode::For) return kUnknownTrips;
    const auto lo = of(loop.operands[0]), hi = of(loop.operands[1]), by = of(loop.operands[2]);
    if (!lo || !hi || !by || *by <= 0) return kUnknownTrips;
    return static_cast<double>(ceil_div(std::max<std::int64_t>(*hi - *lo, 0), *by));
  }

 private:
  std::optional<ir::Cell> cell_of(Value v) {
    if (!k_.type(v).is_scalar()) return std::nullopt;
    const auto [at, is_new] = known_.try_emplace(v, std::nullopt);
    if (!is_new) return at->second;
    const std::optional<ir::Cell> cell = compute(v);
    return known_[v] = cell;
  }
  std::optional<ir::Cell> compute(Value v) {
    const auto integer = [](std::int64_t i) { return std::optional(ir::Cell{.i = i}); };
    if (const auto at = position_.find(v); at != position_.end())
      return ir::from_bits(args_[static_cast<std::size_t>(at->second)].bits, k_.type(v).dtype());
    const OpId def = k_[v].def;
    if (!def) return first_of_loop(v);
    const OpData& d = k_[def];
    const auto axis = static_cast<std::size_t>(d.attrs.i(ir::AttrName::axis));
    switch (d.opcode) {
      case Opcode::Const:
        if (const ir::AttrValue* value = d.attrs.find(ir::AttrName::value);
            value && std::holds_alternative<std::int64_t>(*value))
          return integer(std::get<std::int64_t>(*value));
        return std::nullopt;
      case Opcode::ProgramId:
      case Opcode::ClusterId:
        return integer(axis == 0 ? program_ : 0);
      case Opcode::ViewDim:
        if (const Tensor* t = tensor(d.operands[0])) return integer(t->shape()[axis]);
        return made_extent(d.operands[0], axis);
      default:
        return ir::evaluate_scalar(k_, d, [&](Value o) { return cell_of(o); });
    }
  }
  std::optional<ir::Cell> made_extent(Value view, std::size_t axis) {
    const OpId made = k_[view].def;
    return made && k_[made].opcode == Opcode::MakeView ? cell_of(k_[made].operands[1 + axis])
                                                       : std::nullopt;
  }
  /// Returns the first number of a counted loop.
  std::optional<ir::Cell> first_of_loop(Value v) {
    const OpId loop = k_[k_[v].region].owner;
    return loop && k_[loop].opcode == Opcode::For && k_[v].position == 0
               ? cell_of(k_[loop].operands[0])
               : std::nullopt;
  }

  const Kernel& k_;
  std::span<const dsl::HostArg> args_;
  std::int64_t program_;
  std::unordered_map<Value, std::int64_t> position_;
  std::unordered_map<Value, std::optional<ir::Cell>> known_;
};

/// The dimensions of the launch grid, as sets of bits, and the values that depend on them.
class Grid {
 public:
  using Set = std::uint32_t;
  struct Dim {
    Value tile;
    double count;
  };

  Grid(const Kernel& k, Numbers& numbers) : k_(k) {
    for (OpId op : k.ops(k.body())) {
      if (k[op].opcode != Opcode::Assume || k[op].attrs.s(ir::AttrName::kind) != "count") continue;
      const OpData& less = k[k[k[op].operands[0]].def];
      known_[less.operands[0]] = Set{1} << dims.size();
      dims.push_back({less.operands[0],
                      static_cast<double>(numbers.of(less.operands[1]).value_or(1))});
    }
    all = (Set{1} << dims.size()) - 1;
  }

  Set of(Value v) {
    if (const auto at = known_.find(v); at != known_.end()) return at->second;
    known_[v] = 0;
    Set set = 0;
    if (const OpId def = k_[v].def) {
      if (k_[def].is(Opcode::ProgramId, Opcode::ClusterId)) set = all;
      for (Value o : k_[def].operands) set |= of(o);
    } else if (const OpId loop = k_[k_[v].region].owner; k_[v].region && loop) {
      for (Value o : k_[loop].operands)
        if (k_[loop].opcode != Opcode::For || o != k_[loop].operands[1]) set |= of(o);
    }
    return known_[v] = set;
  }
  double count(Set set) const {
    double n = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) n *= (set >> i & 1) != 0 ? dims[i].count : 1;
    return n;
  }

  std::vector<Dim> dims;
  Set all = 0;

 private:
  const Kernel& k_;
  std::unordered_map<Value, Set> known_;
};

/// Memory that one access of a program touches.
struct Access {
  Grid::Set depends;  ///< dimensions of the grid that select the box
  double bytes, lines, elements_at_once;
};

class Counting {
 public:
  Counting(const Kernel& k, const ir::Plan& plan, std::span<const dsl::HostArg> args)
      : k_(k), plan_(plan), args_(args), uses_(k), numbers_(k, args, 0), launched_(programs()),
        middle_(k, args, launched_ / 2), grid_(k, numbers_) {}

  Work run() {
    find_trips(k_.body(), 1);
    w_.trips = trips_;
    w_.tiles = static_cast<double>(launched_) / k_.info.cluster;
    region(k_.body(), 1);
    w_.engine = has_dots_ ? (plan_.wgmma ? MmaEngine::wgmma : MmaEngine::mma_sync)
                          : MmaEngine::none;
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
  std::int64_t programs() {
    const OpId yield = k_.terminator(k_.launch());
    std::int64_t product = 1;
    if (yield)
      for (Value v : k_[yield].operands) product *= numbers_.of(v).value_or(1);
    return std::max<std::int64_t>(product, 1);
  }

  /// Finds the executions of the mainloop's body: of the dots, or else of most loads.
  void find_trips(ir::RegionId r, double times) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      const double inner = ir::is_loop(d) ? times * middle_.trips(d) : times;
      for (ir::RegionId region : d.regions) find_trips(region, inner);
      if (d.opcode == Opcode::Dot && !has_dots_) has_dots_ = true, trips_ = times;
      const bool is_work = d.opcode == Opcode::Dot || !has_dots_;
      if (is_work && !d.results.empty() && k_.type(d.results[0]).is_tile())
        trips_ = std::max(trips_, times);
    }
  }

  void region(ir::RegionId r, double times) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      const double inner = ir::is_loop(d) ? times * middle_.trips(d) : times;
      for (ir::RegionId region_of_op : d.regions) region(region_of_op, inner);
      if (d.opcode == Opcode::Dot)
        dot(d, times);
      else if (d.is(Opcode::LoadView, Opcode::StoreView, Opcode::AtomicView))
        box(d, times);
      else if (ir::mask_operand(d.opcode))
        scattered(d, times);
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
      return d.opcode == Opcode::Dot || (d.is(Opcode::Permute, Opcode::FillAbsent, Opcode::Crop) &&
                                         reaches_dot(d.results[0]));
    });
  }

  void box(const OpData& d, double times) {
    const bool is_load = d.opcode == Opcode::LoadView;
    const ir::Type tile = is_load ? k_.type(d.results[0]) : k_.type(d.operands[1]);
    add(d, tile, access(d, tile, is_load ? 1 : 2), times);
  }

  /// Returns the access to a box, without elements outside the view. Offsets begin at an operand.
  Access access(const OpData& d, ir::Type tile, std::size_t first_offset) {
    const Value view = d.operands[0];
    const Tensor* tensor = middle_.tensor(view);
    const auto axes = d.attrs.ints(ir::AttrName::axes);
    const int along = ir::contiguous_dim(k_, d), size = size_bytes(k_.type(view).dtype());
    double run = 1, runs = 1, phase = 1;
    for (std::size_t i = 0; i < axes.size() && tile.is_tile(); ++i) {
      const std::int64_t block = tile.shape()[i];
      const auto axis = static_cast<std::size_t>(axes[i]);
      const std::int64_t extent = tensor ? std::max<std::int64_t>(tensor->shape()[axis], 1) : block;
      const double inside =
          static_cast<double>(extent) / static_cast<double>(ceil_div(extent, block));
      (static_cast<int>(i) == along ? run : runs) *= std::min<double>(inside, double(block));
      if (tensor && static_cast<int>(i) != along && block > 1)
        phase = std::max(phase, phase_of(tensor->strides()[axis] * size));
    }
    Access a{};
    for (std::size_t i = first_offset; i < d.operands.size(); ++i)
      if (k_.type(d.operands[i]).is_scalar()) a.depends |= grid_.of(d.operands[i]);
    for (std::size_t i = first_offset; i < d.operands.size(); ++i)
      if (k_.type(d.operands[i]).is_tile()) a.depends |= grid_.of(d.operands[i]);
    const double lines = runs * lines_of_run(run * size);
    a.bytes = run * size < kLine ? lines * kLine : run * runs * size;
    a.lines = lines * phase;
    a.elements_at_once = tile.is_tile() && along >= 0 ? std::max(1, ir::access_elements(k_, d)) : 1;
    return a;
  }
  /// Returns the requests of a run of bytes, of which a short one costs more than its share.
  static double lines_of_run(double bytes) {
    return bytes <= kLine ? 0.25 + 0.75 * std::max(bytes, kSector) / kLine
                          : std::ceil(bytes / kLine);
  }
  /// Returns the lines that a line's worth of a row touches, from the distance of the rows.
  static double phase_of(std::int64_t stride_bytes) {
    return stride_bytes % 128 == 0 ? 1 : stride_bytes % 64 == 0 ? 1.5 : 2;
  }

  /// Accesses by address: each element reads its own sector, unless they are known to be adjacent.
  void scattered(const OpData& d, double times) {
    const ir::Type pointers = k_.type(d.operands[0]);
    const double elements = pointers.is_tile() ? static_cast<double>(pointers.count()) : 1;
    const double size = size_bytes(pointers.dtype());
    const bool is_adjacent = d.attrs.has(ir::AttrName::axis);
    add(d, pointers,
        {grid_.of(d.operands[0]), elements * size,
         elements * (is_adjacent ? size : kSector) / kLine, is_adjacent ? 4.0 : 1.0},
        times);
  }

  void add(const OpData& d, ir::Type tile, const Access& a, double times) {
    // Threads issue a request every fourth cycle of a computation.
    constexpr double kOpsOfAccess = 4;
    const double elements = tile.is_tile() ? static_cast<double>(tile.count()) : 1;
    const bool is_of_threads = this->is_of_threads(d);
    if (is_of_threads)
      w_.thread_ops += share(times) * kOpsOfAccess * elements / a.elements_at_once;
    else if (!plan_.wgmma && a.elements_at_once * size_bytes(tile.dtype()) < 4)
      w_.single_elements += share(times) * elements;
    accesses_.push_back({a, times});
    const bool is_epilogue = has_dots_ && is_of_threads && (times < trips_ || trips_ <= 1);
    if (is_epilogue)
      w_.epilogue_bytes += a.bytes * times;
    else if (times >= trips_ || is_of_threads)
      w_.l2_lines += share(times) * a.lines;
    if (!is_of_threads)
      (times >= trips_ ? stage_bytes_ : once_bytes_) += elements * size_bytes(tile.dtype());
  }

  /// Elementwise ops count by the instructions that a warp issues. Functions have an eighth of the
  /// rate, in units of their own.
  void computed(const OpData& d, double times) {
    using enum Opcode;
    if (d.is(Const, Arange, Splat, Broadcast, ExpandDims, Reshape, Permute, For, While, If)) return;
    const ir::Type type = k_.type(d.operands.empty() ? d.results[0] : d.operands[0]);
    const auto elements = static_cast<double>(
        std::max(type.is_tile() ? type.count() : 1, k_.type(d.results[0]).count()));
    const bool is_function = d.is(Exp2, Log2, Sqrt, Rsqrt, Rcp, Div, TanhApprox, SinApprox,
                                  CosApprox);
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
    constexpr std::int64_t kMoves = 8;
    const std::int64_t spilled =
        plan_.wgmma ? 0 : live + (has_dots_ ? kOthersOfDots : kOthers) - cap;
    if (spilled > 0) w_.l2_lines += static_cast<double>(kMoves * 4 * spilled * threads) / kLine;
    w_.epilogue_rows = std::max<double>(static_cast<double>(rows_) / ir::kWgmmaRows, 1);
  }

  /// Finds which tiles share what they load. Dimensions that all accesses depend on separate
  /// matrices; the others are rows and columns of tiles.
  void order() {
    Grid::Set common = grid_.all;
    for (const auto& [a, times] : accesses_)
      if (a.depends != 0) common &= a.depends;
    const Grid::Set shared = grid_.all & ~common;
    Grid::Set rows = shared & (~shared + 1);
    for (const auto& [a, times] : accesses_)
      if ((a.depends & rows) != 0 && (a.depends & shared) != shared) rows |= a.depends & shared;
    const Grid::Set columns = shared & ~rows;
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
        (a.depends != 0 ? t.row_bytes : t.result_bytes) += a.depends != 0 ? bytes : 0;
      else if ((a.depends & rows) != 0 && (a.depends & columns) != 0)
        t.result_bytes += bytes;
      else if ((a.depends & columns) != 0)
        t.column_bytes += bytes;
      else
        t.row_bytes += (a.depends & rows) != 0 ? bytes : bytes / t.rows;
    }
  }
  /// Returns the number of consecutive programs, from the first on, with the same columns.
  double group_of(Grid::Set columns) {
    constexpr int kMost = 64;
    const auto at = [&](int program) {
      Numbers numbers(k_, args_, program);
      std::vector<std::optional<std::int64_t>> tiles;
      for (std::size_t i = 0; i < grid_.dims.size(); ++i)
        if ((columns >> i & 1) != 0) tiles.push_back(numbers.of(grid_.dims[i].tile));
      return tiles;
    };
    const auto first = at(0);
    int group = 1;
    while (group < kMost && group < w_.order.rows && at(group) == first) ++group;
    return group;
  }

  const Kernel& k_;
  const ir::Plan& plan_;
  std::span<const dsl::HostArg> args_;
  ir::Uses uses_;
  Numbers numbers_;
  std::int64_t launched_;
  Numbers middle_;
  Grid grid_;
  Work w_;
  bool has_dots_ = false;
  double trips_ = 1, accumulator_ = 0, stage_bytes_ = 0, once_bytes_ = 0;
  std::int64_t rows_ = 0;
  struct Counted {
    Access access;
    double times;
  };
  std::vector<Counted> accesses_;
};

}  // namespace

ir::Plan plan_of(ir::Kernel& kernel, const ir::PlanRequest& planned) {
  const auto all = ir::ir_passes();
  const auto last = std::ranges::find(all, "plan", &ir::Pass::name);
  ir::PassContext context;
  context.planned = planned;
  ir::run_pipeline(kernel, all.first(static_cast<std::size_t>(last - all.begin()) + 1), context,
                   {.verify = false, .after_pass = {}});
  return *context.plan;
}

Work work_of(const ir::Kernel& kernel, const ir::Plan& plan, std::span<const dsl::HostArg> args) {
  return Counting(kernel, plan, args).run();
}

}  // namespace tegula::autotune
