#include "ir/loop.h"

#include <numeric>
#include <unordered_set>
#include <utility>

namespace tegula::ir {
namespace {

/// Returns what the memory that a loop writes depends on: the operands of its writes, and the
/// values that decide whether they run.
std::vector<Value> written_values(const Kernel& k, OpId loop) {
  std::vector<Value> all;
  for (const RegionId r : k[loop].regions)
    walk(k, r, [&](OpId op) {
      if (!info(k[op].opcode).has(kWrites)) return;
      all.insert(all.end(), k[op].operands.begin(), k[op].operands.end());
      for (OpId outer = k[k[op].parent].owner; outer != loop; outer = k[k[outer].parent].owner)
        for (const Value v : deciding_values(k, outer)) all.push_back(v);
    });
  return all;
}

}  // namespace

bool is_inside(const Kernel& k, OpId op, RegionId region) {
  for (; op; op = k[k[op].parent].owner)
    if (k[op].parent == region) return true;
  return false;
}
bool is_inside(const Kernel& k, OpId op, OpId owner) {
  return std::ranges::any_of(k[owner].regions, [&](RegionId r) { return is_inside(k, op, r); });
}

std::vector<Value> deciding_values(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  if (d.opcode == Opcode::While) return {k[k.terminator(d.regions[0])].operands[0]};
  const auto first = d.operands.begin();
  if (d.opcode == Opcode::For) return {first, first + first_init(d.opcode)};
  return d.opcode == Opcode::If ? std::vector{*first} : std::vector<Value>();
}

std::vector<std::size_t> condition_carries(const Kernel& k, OpId loop) {
  const OpData& d = k[loop];
  std::unordered_set<Value> seen;
  std::vector<Value> left = deciding_values(k, loop);
  bool has_effects = false, reads = false, follows_writes = false;
  const auto depend = [&](OpId op) {
    has_effects = has_effects || info(k[op].opcode).has(kEffects);
    reads = reads || info(k[op].opcode).has(kReads);
    left.insert(left.end(), k[op].operands.begin(), k[op].operands.end());
  };
  const auto is_inside = [&](Value v) {
    OpId owner = k[home_of(k, v)].owner;
    while (owner && owner != loop) owner = k[k[owner].parent].owner;
    return owner == loop;
  };
  while (!left.empty()) {
    const Value v = left.back();
    left.pop_back();
    if (!seen.insert(v).second || !is_inside(v)) continue;
    if (const OpId def = k[v].def) {
      depend(def);
      for (const RegionId r : k[def].regions) walk(k, r, depend);
    } else if (k[k[v].region].owner == loop) {
      left.push_back(loop_nexts(k, loop)[k[v].position]);
    }
    if (reads && !std::exchange(follows_writes, true))
      for (const Value written : written_values(k, loop)) left.push_back(written);
  }
  std::vector<std::size_t> all(loop_inits(d).size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (!has_effects)
    std::erase_if(all, [&](std::size_t i) {
      return std::ranges::none_of(d.regions,
                                  [&](RegionId r) { return seen.contains(k[r].args[i]); });
    });
  return all;
}

Value add_carry(Kernel& k, OpId loop, Value init) {
  const Type type = k.type(init);
  k[loop].operands.push_back(init);
  k.add_result(loop, type);
  Value carry;
  for (std::size_t r = 0; r < k[loop].regions.size(); ++r)
    carry = k.add_arg(k[loop].regions[r], type);
  return carry;
}

std::optional<Merge> merge_of(const Kernel& k, Value v) {
  const ValueData& d = k[v];
  const OpId op = d.def ? d.def : d.region ? k[d.region].owner : OpId();
  if (!op || !(is_loop(k[op]) || (d.def && k[op].opcode == Opcode::If))) return std::nullopt;
  const std::size_t first = d.def ? 0 : first_carry(k[op].opcode);
  return d.position < first ? std::nullopt : std::optional(Merge{op, d.position - first});
}

std::vector<Value> incoming_values(const Kernel& k, const Merge& m) {
  const OpData& d = k[m.op];
  std::vector<Value> all;
  if (is_loop(d)) all.push_back(loop_inits(d)[m.index]);
  for (RegionId r : d.regions)
    if (d.opcode != Opcode::While || r == d.regions.back())  // the other region yields a condition
      all.push_back(k[k.terminator(r)].operands[m.index]);
  return all;
}

}  // namespace tegula::ir
