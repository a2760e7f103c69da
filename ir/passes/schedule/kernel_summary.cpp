#include "ir/passes/schedule/kernel_summary.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "ir/analysis/access_width.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/tma_access.h"
#include "ir/analysis/tma_store.h"
#include "ir/gathered_box.h"
#include "ir/matrix_type.h"
#include "ir/schedule/graph.h"

namespace tegula::ir {
namespace {

/// The narrowest swizzle: TMA loads multiples of it of a row.
constexpr std::int64_t kSwizzleBytes = 32;
/// Registers that column terms take: a factor, and the terms added to rows.
constexpr int kColumnTermRegisters = 4;

/// Why this dot cannot be a wgmma; empty if it can: B (and A, unless computed) loaded by TMA in a
/// loop that writes no memory, 64 rows a warpgroup.
std::string_view why_not_wgmma(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  const OpId loop = k[d.parent].owner;
  if (!loop || k[loop].opcode != Opcode::For) return "it is in no loop";
  const MatrixType* type = matrix_type(k, d);
  const Type acc = k.type(d.results[0]);
  const std::int64_t m = acc.shape()[0], depth = k.type(d.operands[0]).shape()[1];
  if (!type) return "tensor cores do not take its types";
  if (m % kWgmmaRows != 0) return "its rows are no multiple of 64";
  if (m > kMaxMmaRows) return "it has more than 256 rows";
  if (!type->has_columns(acc.shape()[1])) return "no instruction has as many columns";
  if (depth % type->step() != 0) return "a step is no multiple of an instruction's depth";
  if (any_op(k, d.parent, [&](OpId o) { return info(k[o].opcode).has(kWrites); }))
    return "its loop writes memory";
  if (!load_of(k, op, 1)) return "its second operand is not loaded in the loop";
  if (!is_tma_operand(k, op, 1)) return "TMA does not take its second operand as it lies";
  if (load_of(k, op, 0) && !is_tma_operand(k, op, 0))
    return "TMA does not take its first operand as it lies";
  return "";
}

/// A dot whose first operand is computed from another dot's result.
bool depends_on_dot(const Kernel& k, Value v, int depth) {
  const OpId def = k[v].def;
  if (!def || depth > 24) return false;
  if (k[def].opcode == Opcode::Dot) return true;
  if (k[def].opcode == Opcode::LoadView) return false;
  const auto depends = [&](Value o) {
    return k.type(o).is_tile() && depends_on_dot(k, o, depth + 1);
  };
  if (k[def].opcode != Opcode::If) return std::ranges::any_of(k[def].operands, depends);
  const std::size_t i = k[v].position;
  return std::ranges::any_of(k[def].regions, [&](RegionId r) {
    const OpId yield = k.terminator(r);
    return yield && depends(k[yield].operands[i]);
  });
}

/// Shared memory of what the op loads if TMA does.
std::int64_t bytes_by_tma(const Kernel& k, OpId load) {
  const OpData& d = k[load];
  const Type view = k.type(d.operands[0]), tile = k.type(d.results[0]);
  const auto axes = d.attrs.ints(AttrName::axes);
  return gathered_dim(k, d) < 0 && is_tma_loadable(view, axes, tile)
             ? tma_tile_bytes(view, axes, tile)
             : tile.count() * size_bytes(tile.dtype());
}

/// The load of A in front of the loop, or none.
OpId hoisted_load(const Kernel& k, OpId dot) {
  const OperandSource a = source_of(k, dot, 0);
  const bool is_load = a.op && k[a.op].opcode == Opcode::LoadView;
  return is_load && a.kind == OperandSource::Kind::Invariant ? a.op : OpId();
}

/// A row of numbers with which the accumulator begins in each outer iteration: a thread keeps its
/// columns.
bool is_repeated_row(const Kernel& k, Value acc, RegionId loop_body) {
  const OpId def = k[acc].def;
  return def && k[def].opcode == Opcode::Broadcast && k[def].parent != loop_body &&
         k.type(k[def].operands[0]).shape()[0] == 1;
}

/// The value is computed from what is read from memory.
bool is_read(const Kernel& k, Value v, std::unordered_set<Value>& seen) {
  const OpId def = k[v].def;
  if (!def || !seen.insert(v).second) return false;
  const auto any = [&](const auto& values) {
    return std::ranges::any_of(values, [&](Value o) { return is_read(k, o, seen); });
  };
  return info(k[def].opcode).has(kReads) || any(k[def].operands) ||
         std::ranges::any_of(k[def].regions, [&](RegionId r) {
           const OpId yield = k.terminator(r);
           return yield && any(k[yield].operands);
         });
}

}  // namespace

OpId load_of(const Kernel& k, OpId dot, std::size_t i) {
  using Kind = OperandSource::Kind;
  const OperandSource source = source_of(k, dot, i);
  return source.kind == Kind::Memory || source.kind == Kind::Gather ? source.op : OpId();
}

bool has_mma(const Kernel& k, RegionId r) {
  bool found = false;
  for (OpId op : k.ops(r)) found = found || k[op].opcode == Opcode::Dot;
  return found;
}

bool is_in_counted_loops(const Kernel& k, OpId op) {
  OpId owner = k[k[op].parent].owner;
  while (owner && k[owner].opcode == Opcode::For) owner = k[k[owner].parent].owner;
  return !owner;
}

bool is_aux_load(const Kernel& k, OpId load) {
  const OpData& d = k[load];
  const OpId loop = k[d.parent].owner;
  if (d.opcode != Opcode::LoadView || !loop || k[loop].opcode != Opcode::For ||
      !k.type(d.results[0]).is_tile())
    return false;
  for (OpId op : k.ops(d.parent))
    for (std::size_t i : {0U, 1U})
      if (k[op].opcode == Opcode::Dot && load_of(k, op, i) == load) return false;
  return has_mma(k, d.parent);
}

bool is_tma_operand(const Kernel& k, OpId dot, std::size_t i) {
  const OpId op = load_of(k, dot, i);
  const MatrixType* type = matrix_type(k, k[dot]);
  if (!op || !type || gathered_dim(k, k[op]) >= 0) return false;
  const OpData& load = k[op];
  const Type tile = k.type(load.results[0]);
  const int fast = contiguous_dim(k, load);
  if (fast < 0 || !is_tma_loadable(k.type(load.operands[0]), load.attrs.ints(AttrName::axes), tile))
    return false;
  const int k_dim = (i == 0) != source_of(k, dot, i).transposed ? 1 : 0;
  return tile.shape()[static_cast<std::size_t>(fast)] * type->bits / 8 % kSwizzleBytes == 0 &&
         (type->any_major() || fast == k_dim);
}

PlanPatch wanted_fields(const Kernel& k, const PassContext& context) {
  return merged(k.info.preferred, context.planned.fields());
}

bool wants_tma_aux_loads(const Kernel& k, const PassContext& context) {
  if (context.plan) return context.plan->tma_aux_loads;
  return wanted_fields(k, context).tma_aux_loads.value_or(false) && k.info.target->has_tma;
}

KernelSummary summarize(const Kernel& k, bool tma_aux_loads) {
  KernelSummary s;
  const IndexFacts bounds(k);
  std::unordered_set<OpId> counted;  // several dots may share a load
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (d.opcode == Opcode::For)
      s.stages = std::max(s.stages, static_cast<int>(d.attrs.i(AttrName::stages, 0)));
    for (Value v : d.results)
      if (k.type(v).is_tile()) s.max_tile_elems = std::max(s.max_tile_elems, k.type(v).count());
    if (is_aux_load(k, op)) {
      const Type tile = k.type(d.results[0]);
      if (gathered_dim(k, d) < 0 &&
          why_not_tma_tile(k.type(d.operands[0]), d.attrs.ints(AttrName::axes), tile).empty())
        s.aux_bytes += bytes_by_tma(k, op);
    }
    if (d.opcode != Opcode::Dot) return;
    const Type acc = k.type(d.results[0]);
    if (acc.count() > s.max_accumulator_elems) s.mma_rows = acc.shape()[0];
    s.max_accumulator_elems = std::max(s.max_accumulator_elems, acc.count());
    s.common_rows = std::gcd(s.common_rows, acc.shape()[0]);
    s.common_columns = std::gcd(s.common_columns, acc.shape()[1]);
    s.back_to_back = s.back_to_back || depends_on_dot(k, d.operands[0], 0);
    if (const OpId loop = k[d.parent].owner; loop && k[loop].opcode == Opcode::For)
      s.has_trip = bounds.is_less(k[loop].operands[0], k[loop].operands[1]);
    if (s.wgmma) s.why_not_wgmma = why_not_wgmma(k, op);
    s.wgmma = s.wgmma && s.why_not_wgmma.empty();
    const OpId hoisted = hoisted_load(k, op);
    s.is_row_stacked = s.is_row_stacked &&
                       std::has_single_bit(static_cast<std::uint64_t>(acc.shape()[1])) &&
                       (is_tma_operand(k, op, 0) || hoisted);
    s.accumulators += acc.shape()[1] / 2;
    if (is_repeated_row(k, d.operands[2], d.parent))
      s.accumulator_init_registers += acc.shape()[1] / 4 + kColumnTermRegisters;
    const Type a = k.type(d.operands[0]);
    if (hoisted)
      s.stationary_bytes += bytes_by_tma(k, hoisted);
    else if (!is_tma_operand(k, op, 0))
      s.fragments += a.shape()[1] * size_bits(a.dtype()) / 64;
    s.mma1_bytes = 0;
    for (std::size_t i : {0U, 1U})
      if (is_tma_operand(k, op, i) && counted.insert(load_of(k, op, i)).second)
        s.mma1_bytes += bytes_by_tma(k, load_of(k, op, i));
    s.stage_bytes += s.mma1_bytes;
  });
  if (tma_aux_loads) s.stage_bytes += s.aux_bytes;
  return s;
}

std::int64_t staged_bytes(const Kernel& k, const Plan& p) {
  std::int64_t most = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::StoreView || !why_not_tma_store(k, k[op]).empty()) return;
    const Type tile = k.type(k[op].operands[1]);
    const std::int64_t rows = tile.shape()[0], columns = tile.shape()[1];
    const bool in_blocks = p.epilogue_tile_n > 0 && columns % p.epilogue_tile_n == 0;
    most = std::max(most, rows * (in_blocks ? p.epilogue_tile_n : columns) *
                              size_bytes(tile.dtype()) * p.groups());
  });
  return most;
}

bool has_data_dependent_trips(const Kernel& k) {
  std::unordered_set<Value> seen;
  return any_op(k, k.body(), [&](OpId op) {
    const OpId loop = k[k[op].parent].owner;
    if (k[op].opcode != Opcode::Dot || !loop || k[loop].opcode != Opcode::For) return false;
    return is_read(k, k[loop].operands[0], seen) || is_read(k, k[loop].operands[1], seen);
  });
}

bool uses_pdl(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::GridDependencyWait; });
}

}  // namespace tegula::ir
