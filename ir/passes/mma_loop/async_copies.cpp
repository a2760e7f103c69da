#include "ir/passes/mma_loop/async_copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/loop_end.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/copy_layout.h"

namespace tegula::ir {

AsyncCopies::AsyncCopies(Kernel& k, OpId loop, int slots, std::vector<OperandLoad> loads)
    : k_(k),
      loop_(loop),
      body_(k[loop].regions[0]),
      slots_(slots),
      may_pass_(may_pass_indices(Facts(k), k, loop, slots)),
      loads_(std::move(loads)) {}

void AsyncCopies::allocate(Builder& b, PassContext& context) {
  for (OperandLoad& load : loads_) {
    b.loc = k_[load.load].loc;
    load.ring = b.op(Opcode::SmemAlloc, {}, ring_type(k_, load, slots_));
    place_indices(load);
    context.remark(Remark::Kind::Applied, k_[load.load].loc, "pipelined by cp.async",
                   {{"stages", fmt::format("{}", slots_)}, {"ring", k_.type(load.ring).str()}});
  }
  find_entries();
}

namespace {

/// Returns true if both ops read the same elements of memory, which does not change.
bool are_equal_reads(const Kernel& k, OpId a, OpId b) {
  const OpData &p = k[a], &q = k[b];
  AttrList of_a = p.attrs, of_b = q.attrs;
  of_a.erase(AttrName::label), of_b.erase(AttrName::label);
  return p.opcode == q.opcode && of_a == of_b &&
         std::ranges::equal(p.operands, q.operands,
                            [&](Value x, Value y) { return is_same(k, x, y); });
}

}  // namespace

void AsyncCopies::find_entries() {
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    if (!loads_[i].lines) continue;
    for (OpId op : k_.ops(body_)) {
      if (!loads_[i].offset_ops.contains(op) || info(k_[op].opcode).has(kPure) ||
          !k_.type(k_[op].results[0]).is_tile())
        continue;
      const auto equal = std::ranges::find_if(entries_, [&](const Entry& entry) {
        return loads_[entry.load].lines == loads_[i].lines &&
               are_equal_reads(k_, entry.reads.front(), op);
      });
      if (equal == entries_.end())
        entries_.push_back({i, {op}});
      else
        equal->reads.push_back(op);
    }
  }
}

std::vector<Value> AsyncCopies::read_entries(Builder& b, IterationOffsets& offsets) const {
  std::vector<Value> entries;
  for (const Entry& entry : entries_) {
    entries.push_back(offsets.read(b, loads_[entry.load], entry.reads.front()));
    for (OpId op : entry.reads)
      offsets.define(loads_[entry.load], k_[op].results[0], entries.back());
  }
  return entries;
}

std::vector<Value> AsyncCopies::read_entries(Builder& b, Value iv, int steps) const {
  if (entries_.empty()) return {};
  const Value ahead = iteration_after(b, iv, steps);
  std::vector<Type> types;
  for (const Entry& entry : entries_)
    types.push_back(
        k_.type(k_[entry.reads.front()].results[0]).with_layout(loads_[entry.load].lines));
  const OpId branch = b.make_if(has_iteration(b, loop_, ahead, may_pass_), types);
  Builder inner(k_, k_[branch].regions[0]), other(k_, k_[branch].regions[1]);
  inner.loc = other.loc = b.loc;
  IterationOffsets offsets(k_, body_, ahead);
  inner.yield(read_entries(inner, offsets));
  std::vector<Value> none;
  for (Type type : types) none.push_back(other.zero(type));
  other.yield(none);
  return {k_[branch].results.begin(), k_[branch].results.end()};
}

/// Returns the tile from before the loop in another layout.
Value AsyncCopies::placed(Value tile, const LinearLayout* lines) const {
  const Type type = k_.type(tile);
  if (!type.is_tile() || type.layout() == lines) return tile;
  return Builder(k_, loop_).op(Opcode::ConvertLayout, {tile}, type.with_layout(lines));
}

/// Makes each thread hold the indices of the rows that it copies. Index tiles from before the loop,
/// and tiles from which the body computes index tiles, are converted once.
void AsyncCopies::place_indices(OperandLoad& c) {
  const OpId load = c.load;
  BoxAccess a = access_of(k_, k_[load]);
  if (a.gathered_dim() < 0) return;
  const auto view_dim = a.along[static_cast<std::size_t>(a.gathered_dim())];
  const auto along = static_cast<int>(std::ranges::find(c.axes, view_dim) - c.axes.begin());
  const Dims shape = dims_of(c.tile.shape());
  const int vector = access_bytes(k_, load) / size_bytes(c.tile.dtype());
  const LinearLayout* lines = index_tile_layout(
      copy_layout(shape, contiguous_dim(k_, c), vector, k_.info.threads / 32), along);
  for (AccessAxis& axis : a.axes) {
    if (!axis.is_gathered()) continue;
    if (k_.is_visible_from(axis.offset, loop_))
      axis.offset = placed(axis.offset, lines);
    else
      c.lines = lines;
  }
  set_access(k_[load], a);
  if (!c.lines) return;
  for (OpId op : k_.ops(body_)) {
    if (!c.offset_ops.contains(op)) continue;
    for (Value v : std::vector<Value>(k_[op].operands.begin(), k_[op].operands.end()))
      if (k_.type(v).is_tile() && k_.is_visible_from(v, loop_) && !c.placed.contains(v))
        c.placed[v] = placed(v, lines);
  }
}

void AsyncCopies::copy(Builder& b, Value iv, Value slot, std::span<const Value> entries) const {
  const OpId branch = b.make_if(has_iteration(b, loop_, iv, may_pass_), {});
  Builder inner(k_, k_[branch].regions[0]);
  inner.loc = b.loc;
  IterationOffsets offsets(k_, body_, iv);
  if (entries.empty()) read_entries(inner, offsets);
  for (std::size_t i = 0; i < entries.size(); ++i)
    for (OpId op : entries_[i].reads)
      offsets.define(loads_[entries_[i].load], k_[op].results[0], entries[i]);
  for (const OperandLoad& load : loads_) {
    const Value into[] = {load.ring, slot};
    offsets.copy(inner, load, Opcode::CopyAsync, into);
  }
  b.effect(Opcode::AsyncCommit, {});
}

Value AsyncCopies::iteration_after(Builder& b, Value iv, int steps) const {
  for (int s = 0; s < steps; ++s) iv = b.add(iv, k_[loop_].operands[2]);
  return iv;
}

void AsyncCopies::copy_ahead(Builder& b, Value iv, int steps, Value slot,
                             std::span<const Value> entries) const {
  copy(b, iteration_after(b, iv, steps), slot, entries);
}

/// Inserts one barrier before all copies if the program may have written what they read. There
/// cannot be one per copy, because the copies are in branches.
void AsyncCopies::prologue(Builder& b, int steps) const {
  MemoryHazards hazards(k_);
  if (std::ranges::any_of(loads_, [&](const OperandLoad& l) { return hazards.access(l.load); }))
    b.effect(Opcode::CtaBarrier, {});
  Value iv = k_[loop_].operands[0];
  std::vector<std::vector<Value>> entries;
  for (int s = 0; s < steps; ++s) entries.push_back(read_entries(b, iv, s));
  for (int s = 0; s < steps; ++s) {
    copy(b, iv, b.i32(s), entries[static_cast<std::size_t>(s)]);
    iv = b.add(iv, k_[loop_].operands[2]);
  }
}

Value AsyncCopies::next(Builder& b, Value slot) const {
  const Value next = b.add(slot, b.i32(1));
  return b.select(b.cmp("eq", next, b.i32(slots_)), b.i32(0), next);
}

Value AsyncCopies::back(Builder& b, Value slot, int steps) const {
  if (steps == 1)
    return b.select(b.cmp("eq", slot, b.i32(0)), b.i32(slots_ - 1), b.sub(slot, b.i32(1)));
  return b.select(b.cmp("lt", slot, b.i32(steps)), b.add(slot, b.i32(slots_ - steps)),
                  b.sub(slot, b.i32(steps)));
}

}  // namespace tegula::ir
