#include "ir/passes/dot_graph/dot_graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

#include "ir/access.h"
#include "ir/analysis/tma_access.h"
#include "ir/analysis/toeplitz_tiles.h"
#include "ir/layout/shared_layout.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/dot_graph/live_registers.h"
#include "ir/passes/layouts/warp_grid.h"
#include "ir/passes/schedule/producer_warps.h"
#include "ir/schedule/graph.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

std::int64_t bytes_of(Type tile) { return tile.count() * size_bytes(tile.dtype()); }

const OperandLoad* load_in(const std::vector<OperandLoad>& loads, OpId load) {
  const auto it = std::ranges::find(loads, load, &OperandLoad::load);
  return it == loads.end() ? nullptr : &*it;
}

bool uses_tma(const DotOperand& operand) {
  return operand.form == OperandForm::Ring || operand.form == OperandForm::Stationary;
}

/// Returns true if the operand is loaded before the loop, by TMA or, into registers, by the
/// threads.
bool is_loaded_before_loop(const Kernel& k, const DotOperand& operand) {
  const OpId def = k[operand.tile].def;
  return operand.form == OperandForm::Stationary ||
         (operand.form == OperandForm::Register && def && k[def].opcode == Opcode::LoadView);
}

bool is_made_by_threads(const Kernel& k, const DotOperand& operand) {
  return operand.form == OperandForm::Shared ||
         (operand.form == OperandForm::Register && !is_loaded_before_loop(k, operand));
}

class Analysis {
 public:
  Analysis(const Kernel& k, OpId loop, int num_warps, PassContext& context)
      : k_(k), body_(k[loop].regions[0]), context_(context), uses_(k) {
    graph_.loop = loop;
    graph_.num_warps = num_warps;
    load_remarks_.pass = context.pass;
  }

  Result<DotGraph> run() {
    for (OpId op : k_.ops(body_)) {
      if (k_[op].opcode == Opcode::Dot) graph_.dots.push_back({op, {}});
    }
    if (graph_.dots.empty()) return refused("no dots");
    for (const GraphDot& dot : graph_.dots)
      if (const std::string_view why = why_not_shape(dot); !why.empty()) return refused(why);
    graph_.loads = tile_loads(k_, graph_.loop, load_remarks_);
    for (GraphDot& dot : graph_.dots)
      for (std::size_t i : {0U, 1U})
        if (const std::string_view why = find_source(dot, i); !why.empty()) return refused(why);
    if (is_gemm()) graph_.rings = RingGrouping::Single;
    resolve_operand_forms();
    DotNeeds needs;
    graph_.add_needs(k_, needs);
    if (needs.live_registers + kNonAccumulatorRegisters > budget()) share_fragments();
    if (!graph_.is_gemm() && has_inner_mma(k_, graph_.loop))
      return refused("dots in a loop or branch within it");
    for (const GraphDot& dot : graph_.dots)
      if (const std::string_view why = why_not_operands(dot); !why.empty()) return refused(why);
    if (!graph_.is_gemm())
      for (OperandLoad& load : graph_.loads) load.dots.clear();
    if (graph_.loads.empty() && graph_.gathers.empty())
      return refused("it has a load that neither TMA nor cp.async supports");
    if (!graph_.is_gemm() || sort_loads())
      std::ranges::move(load_remarks_.remarks, std::back_inserter(context_.remarks));
    return std::move(graph_);
  }

 private:
  static Result<DotGraph> refused(std::string_view why) {
    return Result<DotGraph>::refused(std::string(why));
  }

  /// Moves a GEMM's operands to the front, and drops other loads that TMA may not perform. Returns
  /// true if TMA may perform loads of other tiles.
  bool sort_loads() {
    const bool takes_others = !context_.plan || context_.plan->tma_aux_loads;
    std::ranges::stable_partition(graph_.loads,
                                  [](const auto& load) { return !load.dots.empty(); });
    std::erase_if(graph_.loads, [&](const OperandLoad& load) {
      return load.dots.empty() && (!takes_others || load.tile.rank() != 2);
    });
    return takes_others;
  }

  // ---- GEMMs
  bool is_gemm() {
    if (writes_memory(k_, graph_.loop)) return false;
    return std::ranges::all_of(graph_.dots, [&](const GraphDot& d) { return is_of_gemm(d); }) &&
           std::ranges::all_of(graph_.loads, [&](OperandLoad& l) { return is_one_operand(l); });
  }

  /// Returns true if TMA loads share one ring although there are gathered rows. Clusters that
  /// multicast release a slot in both CTAs, so all TMA loads must be released together.
  bool joins_gathers() const {
    return context_.plan && context_.plan->multicast && !graph_.loads.empty();
  }

  /// Returns true for a dot of a GEMM. A has 16 rows per warp, or, in shared memory, a multiple of
  /// that.
  bool is_of_gemm(const GraphDot& dot) const {
    const auto is_copied = [&](const DotOperand& operand) {
      return operand.form == OperandForm::Ring ||
             (operand.form == OperandForm::Gathered && joins_gathers());
    };
    if (!is_copied(dot.b()) || (dot.a().form == OperandForm::Gathered && !joins_gathers()))
      return false;
    const bool is_shared = uses_tma(dot.a()) || is_copied(dot.a());
    const std::int64_t at_once = kWarpRows * graph_.num_warps;
    return is_shared ? rows(dot) % at_once == 0 : rows(dot) == at_once;
  }

  /// Records the dots that read a load. Returns true if all take it as the same operand and nothing
  /// else reads it, or if no dot reads it.
  bool is_one_operand(OperandLoad& load) const {
    const Value tile = k_[load.load].results[0];
    std::optional<std::pair<std::size_t, bool>> operand;
    for (const GraphDot& dot : graph_.dots)
      for (std::size_t i : {0U, 1U}) {
        if (dot.operands[i].tile != tile) continue;
        const std::pair place(i, dot.operands[i].is_transposed);
        if (operand.value_or(place) != place) return false;
        operand = place;
        load.dots.push_back(dot.op);
      }
    return load.dots.empty() || is_for_dots(tile);
  }

  /// Finds the tile that an operand is made from. Returns an empty string, or why no form is
  /// possible.
  std::string_view find_source(GraphDot& dot, std::size_t i) {
    DotOperand& operand = dot.operands[i];
    const OperandSource source = source_of(k_, dot.op, i);
    operand.tile = source.tile;
    operand.is_transposed = source.transposed;
    if (source.op && k_[source.op].opcode == Opcode::LoadView) return find_load(dot, i, source.op);
    const bool is_inside = source.kind == OperandSource::Kind::Computed;
    operand.form = is_inside || i == 1 ? OperandForm::Shared : OperandForm::Register;
    return {};
  }

  std::string_view find_load(GraphDot& dot, std::size_t i, OpId load) {
    DotOperand& operand = dot.operands[i];
    if (k_[load].parent == body_) {
      operand.form = OperandForm::Ring;
      if (graph_.ring_load(k_, operand.tile)) return {};
      auto found = tile_load(k_, graph_.loop, load);
      if (!found) return find_gather(dot, i, load);
      graph_.loads.push_back(std::move(*found));
      graph_.runs_ahead = false;
      return {};
    }
    operand.form = OperandForm::Stationary;
    if (load_in(graph_.stationary, load)) return {};
    auto found = stationary_load(k_, graph_.loop, load);
    if (found && is_for_dots(operand.tile)) {
      graph_.stationary.push_back(std::move(*found));
      if (is_readable(dot, i)) return {};
      graph_.stationary.pop_back();
    }
    operand.form = i == 0 ? OperandForm::Register : OperandForm::Shared;
    return {};
  }

  std::string_view find_gather(GraphDot& dot, std::size_t i, OpId load) {
    DotOperand& operand = dot.operands[i];
    operand.form = OperandForm::Gathered;
    if (graph_.gather_of(k_, operand.tile)) return {};
    auto found = copied_load(k_, graph_.loop, load);
    if (!found || !is_for_dots(operand.tile))
      return i == 0 ? "TMA does not support the layout of its first operand"
                    : "TMA does not support the layout of its second operand";
    graph_.gathers.push_back(std::move(*found));
    return {};
  }

  bool is_for_dots(Value v) const {
    return std::ranges::all_of(uses_.of(v), [&](const Uses::Use& use) {
      const OpData& d = k_[use.op];
      return d.is(Opcode::Permute, Opcode::ConvertLayout)
                 ? is_for_dots(d.results[0])
                 : d.opcode == Opcode::Dot && d.parent == body_ && use.operand < 2;
    });
  }

  /// Keeps computed tiles of a GEMM in registers, and other ones only if a single dot reads them
  /// and they are in the layout of A there. All others are stored to shared memory.
  void resolve_operand_forms() {
    std::unordered_map<Value, int> readers;
    for (const GraphDot& dot : graph_.dots)
      for (const DotOperand& operand : dot.operands) ++readers[operand.tile];
    for (GraphDot& dot : graph_.dots)
      for (std::size_t i : {0U, 1U}) {
        DotOperand& operand = dot.operands[i];
        if (operand.form != OperandForm::Shared) continue;
        if (graph_.is_gemm() || (i == 0 && readers[operand.tile] == 1 && is_in_layout_of_a(dot))) {
          operand.form = OperandForm::Register;
        } else if (std::ranges::find(graph_.shared, operand.tile) == graph_.shared.end()) {
          graph_.shared.push_back(operand.tile);
        }
      }
  }

  /// Returns the registers per thread that the consumers of such a kernel can have.
  std::int64_t budget() const {
    const TargetRow& target = *k_.info.target;
    const int available = target.max_consumer_registers(graph_.num_warps, kWarpgroupWarps,
                                                        static_cast<int>(target.least_setmaxnreg));
    return std::max(available, target.registers_at_entry(graph_.num_warps + 1));
  }

  /// Moves fragments that do not fit next to the accumulators to shared memory, from which all
  /// warpgroups read them.
  void share_fragments() {
    graph_.rings = RingGrouping::PerDot;
    for (GraphDot& dot : graph_.dots) {
      DotOperand& a = dot.operands[0];
      const OpId def = k_[a.tile].def;
      if (a.form != OperandForm::Register || !def || k_[def].parent != body_) continue;
      a.form = OperandForm::Shared;
      graph_.shared.push_back(a.tile);
    }
  }

  bool is_in_layout_of_a(const GraphDot& dot) const {
    return rows(dot) == kWarpRows * graph_.num_warps && is_in_operand_layout(k_, dot.op, 0);
  }

  std::int64_t rows(const GraphDot& dot) const { return k_.type(k_[dot.op].results[0]).shape()[0]; }

  // ---- legality
  std::string_view why_not_shape(const GraphDot& dot) const {
    const OpData& d = k_[dot.op];
    const MatrixType* type = matrix_type(k_, d);
    if (!type) return "tensor cores do not support its types";
    const Type acc = k_.type(d.results[0]);
    const std::int64_t m = acc.shape()[0], n = acc.shape()[1];
    const WarpGrid warps = warp_grid(m, n, graph_.num_warps, graph_.num_warps);
    if (const std::string_view why = why_not_divided(m, n, warps); !why.empty()) return why;
    if (!type->has_columns(n / warps.columns)) return "no instruction has that many columns";
    if (k_.type(d.operands[0]).shape()[1] % type->step() != 0)
      return "an iteration is not a multiple of an instruction's depth";
    return {};
  }

  std::string_view why_not_operands(const GraphDot& dot) const {
    if (dot.a().form == OperandForm::Register && rows(dot) != kWarpRows * graph_.num_warps)
      return "its first operand, in registers, does not have 16 rows per warp";
    for (std::size_t i : {0U, 1U})
      if (dot.operands[i].form != OperandForm::Register && !is_readable(dot, i))
        return "an operand has no layout in shared memory that wgmma supports";
    return {};
  }

  /// Returns true if wgmma can read the operand from shared memory: swizzled lines, with k
  /// contiguous or elements of 16 bits.
  bool is_readable(const GraphDot& dot, std::size_t i) const {
    const DotOperand& operand = dot.operands[i];
    const MatrixType* type = matrix_type(k_, k_[dot.op]);
    if (!type || k_.type(operand.tile).rank() != 2) return false;
    const SharedLayout& layout = *slots_of(operand).shared_layout();
    const int k_dim = (i == 0) != operand.is_transposed ? 1 : 0;
    const auto& pieces = layout.piece_list();
    const bool is_swizzled = pieces.size() == 1 && pieces.front().swizzle != 0;
    return is_swizzled && (type->any_major() || layout.order()[0] == k_dim + 1);
  }

  Type slots_of(const DotOperand& operand) const {
    if (operand.form == OperandForm::Shared) return stored_type(k_.type(operand.tile), 1);
    if (operand.form == OperandForm::Gathered)
      return ring_type(k_, *graph_.gather_of(k_, operand.tile), 1);
    const bool is_inside = operand.form == OperandForm::Ring;
    const auto& loads = is_inside ? graph_.loads : graph_.stationary;
    return tma_ring_type(k_, *load_in(loads, k_[operand.tile].def), 1);
  }

  const Kernel& k_;
  RegionId body_;
  PassContext& context_;
  Uses uses_;
  DotGraph graph_;
  PassContext load_remarks_;  ///< receives why TMA cannot perform loads
};

std::int64_t bytes_by_tma(const Kernel& k, const std::vector<OperandLoad>& loads) {
  std::int64_t bytes = 0;
  for (const OperandLoad& load : loads) bytes += tma_tile_bytes(k, k[load.load]);
  return bytes;
}

/// Returns the registers of accumulators and fragments with two accumulators that no iteration
/// carries at a time: one is computed while another is read.
std::int64_t live_in_pairs(const Kernel& k, const DotGraph& graph) {
  const int threads = 32 * graph.num_warps;
  std::int64_t live = 0, most_fragments = 0;
  std::vector<std::int64_t> others{0, 0};
  for (const GraphDot& dot : graph.dots) {
    const OpData& d = k[dot.op];
    const std::int64_t own = k.type(d.results[0]).count() / threads;
    if (k[d.operands[2]].region == d.parent)
      live += own;
    else
      others.push_back(own);
    const Type a = k.type(d.operands[0]);
    if (dot.a().form == OperandForm::Register)
      most_fragments = std::max(most_fragments, a.count() * size_bits(a.dtype()) / 32 / threads);
  }
  std::ranges::sort(others, std::ranges::greater());
  return live + others[0] + others[1] + most_fragments;
}

/// The order of a step separates accumulators that pairs of the largest ones count together. But
/// ptxas also moves computations across dots, so that pairs are a bound where the order needs more.
/// In a GEMM's loop one dot may run one iteration late, which pairs account for.
void add_registers(const Kernel& k, const DotGraph& graph, DotNeeds& needs) {
  for (const GraphDot& dot : graph.dots) {
    const OpData& d = k[dot.op];
    needs.accumulators += k.type(d.results[0]).shape()[1] / 2;
    const Type a = k.type(d.operands[0]);
    if (is_made_by_threads(k, dot.a())) needs.fragments += a.shape()[1] * size_bits(a.dtype()) / 64;
  }
  std::int64_t live = live_in_pairs(k, graph);
  if (!graph.is_gemm()) live = std::min(live, live_registers(k, graph));
  needs.live_registers = std::max(needs.live_registers, live);
}

void add_bytes(const Kernel& k, const DotGraph& graph, DotNeeds& needs) {
  std::unordered_set<OpId> read;
  std::int64_t operands = 0, largest = 0;
  for (const GraphDot& dot : graph.dots) {
    needs.mma1_bytes = 0;
    for (const DotOperand& operand : dot.operands)
      if (const OperandLoad* load = graph.ring_load(k, operand.tile);
          load && read.insert(load->load).second)
        needs.mma1_bytes += tma_tile_bytes(k, k[load->load]);
    operands += needs.mma1_bytes;
    if (is_loaded_before_loop(k, dot.a())) {
      const OpData& load = k[k[dot.a().tile].def];
      needs.stationary_bytes += why_not_tma_load(k, load).empty() ? tma_tile_bytes(k, load)
                                                                  : bytes_of(k.type(dot.a().tile));
    }
  }
  needs.operand_bytes += operands;
  needs.other_bytes += bytes_by_tma(k, graph.loads) - operands;
  for (const OperandLoad& gather : graph.gathers) needs.other_bytes += bytes_of(gather.tile);
  needs.fixed_bytes += bytes_by_tma(k, graph.stationary);
  for (Value tile : graph.shared) {
    needs.fixed_bytes += bytes_of(k.type(tile));
    if (!graph.is_invariant(k, tile)) largest = std::max(largest, bytes_of(k.type(tile)));
  }
  needs.second_slot_bytes += largest;
}

/// Returns the bytes that the lowering reserves after the rings: staging buffers of TMA stores and
/// the memory of Toeplitz tiles. If there are any, the exchange of a tile that threads convert
/// before its store cannot use the rings' memory and follows, too.
std::int64_t bytes_after_rings(const Kernel& k, int num_warps) {
  std::int64_t staged = 0, exchanged = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::StoreView) return;
    const Value tile = k[op].operands[1];
    const OpId made_by = k[tile].def;
    if (k[op].attrs.i(AttrName::tma) == 1)
      staged = std::max(staged, bytes_of(k.type(tile)));
    else if (made_by && k[made_by].opcode == Opcode::ConvertLayout)
      exchanged = std::max(exchanged, bytes_of(k.type(tile)));
  });
  const std::int64_t reserved =
      staged + num_warps * ToeplitzTiles(k, /*has_memory=*/true).bytes_per_warp();
  return reserved > 0 ? reserved + exchanged : 0;
}

}  // namespace

bool contains_mma(const Kernel& k, OpId op) {
  return std::ranges::any_of(k[op].regions, [&](RegionId r) {
    return any_op(k, r, [&](OpId o) { return k[o].is(Opcode::Dot, Opcode::DotAsync); });
  });
}

bool has_inner_mma(const Kernel& k, OpId loop) {
  bool found = false;
  for (OpId op : k.ops(k[loop].regions[0])) found |= contains_mma(k, op);
  return found;
}

std::string name(const DotOperand& operand) {
  constexpr std::array kNames{"ring", "gathered", "stationary", "register", "shared"};
  return std::string(kNames[static_cast<std::size_t>(operand.form)]) +
         (operand.is_transposed ? "^T" : "");
}

const GraphDot* DotGraph::find(OpId dot) const {
  const auto it = std::ranges::find(dots, dot, &GraphDot::op);
  return it == dots.end() ? nullptr : &*it;
}

const OperandLoad* DotGraph::ring_load(const Kernel& k, Value tile) const {
  return load_in(loads, k[tile].def);
}

const OperandLoad* DotGraph::gather_of(const Kernel& k, Value tile) const {
  return load_in(gathers, k[tile].def);
}

bool DotGraph::is_invariant(const Kernel& k, Value tile) const {
  return home_of(k, tile) != k[loop].regions[0];
}

bool DotGraph::is_copied(OpId load) const { return load_in(loads, load) || load_in(gathers, load); }

bool DotGraph::computes_indices(const Kernel& k, OpId op) const {
  const auto needs = [&](const OperandLoad& load) {
    return load.offset_ops.contains(op) && std::ranges::any_of(load.offset_ops, [&](OpId other) {
             return k.type(k[other].results[0]).is_tile();
           });
  };
  return std::ranges::any_of(gathers, needs) || std::ranges::any_of(loads, needs);
}

bool DotGraph::is_plain() const {
  return dots.size() == 1 && gathers.empty() &&
         dots.front().operands[0].form != OperandForm::Register &&
         dots.front().operands[1].form != OperandForm::Stationary;
}

void DotGraph::add_needs(const Kernel& k, DotNeeds& all) const {
  const auto is_row_stacked = [&](const GraphDot& dot) {
    const auto columns = static_cast<std::uint64_t>(k.type(k[dot.op].results[0]).shape()[1]);
    return !is_made_by_threads(k, dot.a()) && std::has_single_bit(columns);
  };
  add_bytes(k, *this, all);
  add_registers(k, *this, all);
  all.are_gemms &=
      std::ranges::all_of(dots, &GraphDot::is_loaded_by_tma) && !writes_memory(k, loop);
  all.are_plain &= is_plain();
  all.are_row_stacked &= std::ranges::all_of(dots, is_row_stacked);
  all.can_expand &= runs_ahead && (!has_channels() || is_in_counted_loops(k, loop));
  all.has_channels |= has_channels();
  all.has_gathers |= !gathers.empty();
}

std::int64_t DotGraph::shared_bytes(const Kernel& k, int stages) const {
  DotNeeds n;
  add_needs(k, n);
  return stages * n.stage_bytes() + n.fixed_bytes + n.second_slot_bytes +
         bytes_after_rings(k, num_warps);
}

int DotGraph::first_shared_slots(const Kernel& k, int stages) const {
  return shared_bytes(k, stages) <= k.info.target->ring_bytes() ? 2 : 1;
}

int DotGraph::gather_slots(const Kernel& k, const Plan& plan) const {
  if (gathers.empty()) return 0;
  if (const int requested = gathers.front().slots; requested != 0) return requested;
  std::int64_t slot = 0;
  for (const OperandLoad& gather : gathers) slot += bytes_of(gather.tile);
  const bool is_only_loop = !any_op(k, k.body(), [&](OpId op) {
    return k[op].is(Opcode::Dot, Opcode::DotAsync) && k[k[op].parent].owner != loop;
  });
  const bool has_room = is_only_loop && has_channels() && plan.min_ctas_per_sm == 1 &&
                        shared_bytes(k, plan.stages) + slot <= k.info.target->ring_bytes();
  return plan.stages + (has_room ? 1 : 0);
}

Type stored_type(Type tile, int slots) { return slots_type(tile.with_layout(nullptr), 1, slots); }

Result<DotGraph> dot_graph(const Kernel& k, OpId loop, int num_warps, PassContext& context) {
  return Analysis(k, loop, num_warps, context).run();
}

Result<DotNeeds> dot_needs(const Kernel& k, int num_warps) {
  DotNeeds needs;
  PassContext unused;
  std::size_t dots = 0, found = 0;
  walk(k, k.body(), [&](OpId op) { dots += k[op].opcode == Opcode::Dot ? 1 : 0; });
  for (OpId loop : loops_of(k)) {
    if (!first_dot(k, k[loop].regions[0])) continue;
    const auto graph = dot_graph(k, loop, num_warps, unused);
    if (!graph) return Result<DotNeeds>::refused(graph.reason());
    found += graph->dots.size();
    graph->add_needs(k, needs);
  }
  if (found < dots) return Result<DotNeeds>::refused("it is in no loop");
  return needs;
}

}  // namespace tegula::ir
