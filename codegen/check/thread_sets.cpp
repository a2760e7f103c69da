#include "codegen/check/thread_sets.h"

#include <algorithm>
#include <span>

#include "codegen/check/index_ranges.h"
#include "ir/eval/evaluate.h"
#include "ir/loop.h"
#include "ir/op_table.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr int kLanes = 32;

}  // namespace

ThreadNumber thread_number(const OpData& d) {
  static constexpr auto kNumbers = op_table<ThreadNumber>({
      {Opcode::Tid, [](int thread) { return thread; }},
      {Opcode::LaneId, [](int thread) { return thread % kLanes; }},
      {Opcode::WarpId, [](int thread) { return thread / kLanes; }},
  });
  return kNumbers[static_cast<std::size_t>(d.opcode)];
}

Threads threads_between(int first, int end) {
  Threads t;
  for (int i = first; i < end && i < static_cast<int>(kMaxThreads); ++i)
    t.set(static_cast<std::size_t>(i));
  return t;
}

bool has_part_of_warp(const Threads& threads, int all) {
  for (int first = 0; first < all; first += kLanes) {
    const int end = std::min(all, first + kLanes);
    const std::size_t present = (threads & threads_between(first, end)).count();
    if (present != 0 && present != static_cast<std::size_t>(end - first)) return true;
  }
  return false;
}

std::uint32_t warpgroups_of(const Threads& threads) {
  std::uint32_t groups = 0;
  for (std::size_t i = threads._Find_first(); i < kMaxThreads;
       i = threads._Find_next(i | (kWarpgroupThreads - 1)))
    groups |= 1U << (i / kWarpgroupThreads);
  return groups;
}

const std::vector<Cell>* ThreadSets::by_thread(Value v) {
  const auto it = known_.find(v);
  if (it != known_.end()) return it->second.get();
  auto made = compute(v);
  return (known_[v] = std::move(made)).get();
}

std::unique_ptr<std::vector<Cell>> ThreadSets::compute(Value v) {
  const Type t = k_.type(v);
  if (!k_[v].def || !t.is_scalar() || t.is_pointer() || is_float(t.dtype())) return nullptr;
  const OpData& d = k_[k_[v].def];
  auto out = std::make_unique<std::vector<Cell>>(static_cast<std::size_t>(threads_));
  if (const auto number = thread_number(d)) {
    for (int i = 0; i < threads_; ++i) (*out)[static_cast<std::size_t>(i)].i = number(i);
    return out;
  }
  if (d.opcode == Opcode::Const) {
    std::ranges::fill(*out, Cell{.i = d.attrs.i(AttrName::value)});
    return out;
  }
  if (!elementwise_fn(d.opcode)) return nullptr;
  std::vector<std::span<const Cell>> operands;
  for (Value o : d.operands) {
    const auto* cells = by_thread(o);
    if (!cells) return nullptr;
    operands.emplace_back(*cells);
  }
  return evaluate_elementwise(k_, d, operands, *out) ? std::move(out) : nullptr;
}

Divergence ThreadSets::varies(Value v) {
  const auto [it, is_new] = varies_.try_emplace(v, Divergence::Uniform);
  if (!is_new) return it->second;
  const Divergence found = find_varies(v);
  return varies_[v] = found;
}

Divergence ThreadSets::most(std::span<const Value> values) {
  Divergence all = Divergence::Uniform;
  for (Value v : values) all = std::max(all, varies(v));
  return all;
}

/// Assumes that a load returns the same value in all threads if its address is the same.
Divergence ThreadSets::find_varies(Value v) {
  const RegionId region = k_[v].region;
  const OpId op = region ? k_[region].owner : k_[v].def;
  if (!op) return Divergence::Uniform;
  const OpData& d = k_[op];
  if (const auto merge = merge_of(k_, v)) {
    const Divergence all = most(incoming_values(k_, *merge));
    return d.opcode == Opcode::If ? std::max(all, varies(d.operands[0])) : all;
  }
  if (d.opcode == Opcode::For) return most(std::span(d.operands).first(first_init(d.opcode)));
  const Divergence all = thread_number(d) ? Divergence::PerThread : most(d.operands);
  if (all != Divergence::PerThread) return all;
  const auto* cells = by_thread(v);
  if (!cells) return all;
  for (std::size_t i = 0; i < cells->size(); ++i)
    if ((*cells)[i].i != (*cells)[i / kWarpgroupThreads * kWarpgroupThreads].i) return all;
  return Divergence::PerWarpgroup;
}

BranchThreads ThreadSets::where(Value condition) {
  BranchThreads t;
  t.varies = varies(condition);
  if (t.varies == Divergence::Uniform || !by_thread(condition)) {
    t.threads.set();
    t.is_exact = t.varies != Divergence::PerThread;
    t.is_convergent = t.varies == Divergence::Uniform;
    const OpId def = k_[condition].def;
    if (t.is_convergent || !def || k_[def].opcode != Opcode::And) return t;
    t.is_exact = t.is_convergent = true;
    for (Value part : k_[def].operands) {
      const BranchThreads one = where(part);
      t.threads &= one.threads;
      t.is_exact = t.is_exact && one.is_exact;
      t.is_convergent = t.is_convergent && one.is_convergent;
    }
    return t;
  }
  const auto* cells = by_thread(condition);
  for (std::size_t i = 0; i < cells->size(); ++i) t.threads.set(i, (*cells)[i].i != 0);
  t.by_thread_id = t.is_exact = t.is_convergent = true;
  return t;
}

}  // namespace tegula::codegen
