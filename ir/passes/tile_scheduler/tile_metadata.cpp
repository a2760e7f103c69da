#include "ir/passes/tile_scheduler/tile_metadata.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/invariant_load.h"
#include "ir/op.h"

namespace tegula::ir {

namespace {
/// Maximum number of values: each is a word that one thread writes and every warp reads.
constexpr std::size_t kMost = 12;
/// A selection computed by more slow ops than this, such as a search, is published itself instead
/// of its operands.
constexpr int kMaxSlow = 4;
}  // namespace

TileMetadata::TileMetadata(const Kernel& k) : k_(&k) {
  std::vector<Value> flags;
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    const bool code = d.results.size() == 1 && is_code(d.results[0]);
    if (code) return;  // reached from its users
    // Multicast flags depend on two tiles: passing the inputs of both would take twice as many
    // words.
    if (d.opcode == Opcode::MulticastFlags && is_code(d.operands[0]) && of_tile_[d.operands[0]])
      flags.push_back(d.operands[0]), facts_.push_back(d.operands[0]);
    for (Value v : d.operands) find(v);
  });
  std::ranges::stable_partition(facts_, [&](Value v) {
    return is_invariant_scalar_load(k, k[v].def) || std::ranges::find(flags, v) != flags.end();
  });
  if (facts_.size() > kMost) facts_.resize(kMost);
  // Reads keep their order, because the first one may be where a range begins.
  std::unordered_map<Value, int> place;
  for (OpId op : k.ops(k.body()))
    for (Value v : k[op].results) place[v] = static_cast<int>(place.size());
  std::ranges::sort(facts_, {}, [&](Value v) { return place.at(v); });
}

bool TileMetadata::is_code(Value v) {
  const OpId def = (*k_)[v].def;
  if (!def) {  // a parameter, if no op has the region
    const RegionId region = (*k_)[v].region;
    return !region || !(*k_)[region].owner;
  }
  if (const auto known = code_.find(v); known != code_.end()) return known->second;
  const OpData& d = (*k_)[def];
  bool code = d.parent == k_->body() && d.regions.empty() && d.results.size() == 1 &&
              k_->type(v).is_scalar() &&
              (info(d.opcode).has(kPure) || is_invariant_scalar_load(*k_, def));
  bool of_tile = d.opcode == Opcode::ProgramId;
  for (Value o : d.operands) {
    code = code && is_code(o);
    const auto it = of_tile_.find(o);
    of_tile = of_tile || (it != of_tile_.end() && it->second);
  }
  of_tile_[v] = of_tile;
  return code_[v] = code;
}

bool TileMetadata::is_slow(OpId op) const {
  const OpData& d = (*k_)[op];
  return k_->type(d.results[0]) == Type::scalar(DType::i32) && of_tile_.at(d.results[0]) &&
         (d.is(Opcode::Div, Opcode::Rem) || is_invariant_scalar_load(*k_, op));
}

bool TileMetadata::is_long_choice(Value v) {
  const OpId choice = (*k_)[v].def;
  if ((*k_)[choice].opcode != Opcode::Select || k_->type(v) != Type::scalar(DType::i32))
    return false;
  if (const auto known = long_choice_.find(v); known != long_choice_.end()) return known->second;
  int slow = 0;
  std::unordered_set<Value> seen;
  const auto count = [&](const auto& self, Value o) -> void {
    const OpId def = (*k_)[o].def;
    if (!def || slow > kMaxSlow || !seen.insert(o).second) return;
    slow += is_slow(def) ? 1 : 0;
    for (Value operand : (*k_)[def].operands) self(self, operand);
  };
  count(count, v);
  return long_choice_[v] = slow > kMaxSlow;
}

void TileMetadata::find(Value used) {
  const OpId def = (*k_)[used].def;
  if (!def || !is_code(used) || std::ranges::find(facts_, used) != facts_.end()) return;
  if (is_slow(def) || is_long_choice(used)) return facts_.push_back(used);
  for (Value o : (*k_)[def].operands) find(o);
}

std::vector<Value> TileMetadata::of(Builder& b, Value number, Value total) const {
  Kernel& k = b.kernel();
  const auto instead = [&](Value v) {
    const OpId def = k[v].def;
    if (!def) return v;
    if (k[def].opcode == Opcode::ProgramId) return number;
    return k[def].opcode == Opcode::NumPrograms ? total : Value();
  };
  ValueMap map;
  std::vector<Value> values;
  for (Value fact : facts_) values.push_back(clone_computation(b, fact, map, instead));
  return values;
}

void TileMetadata::replace(Kernel& k, std::span<const Value> values) const {
  for (std::size_t i = 0; i < facts_.size(); ++i) k.replace_all_uses(facts_[i], values[i]);
  for (Value fact : facts_) k.erase(k[fact].def);
}

}  // namespace tegula::ir
