#include "dsl/liveness.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace tegula::dsl {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::RegionId;
using ir::Value;

class Liveness {
 public:
  explicit Liveness(ir::Kernel& k) : k_(k) {}

  void run() {
    ir::walk(k_, k_.body(), [&](OpId op) {
      if (ir::info(k_[op].opcode).has(ir::kWrites | ir::kEffects)) keep(op);
    });
    while (!values_.empty()) {
      const Value v = values_.back();
      values_.pop_back();
      follow(v);
    }
    sweep(k_.body());
  }

 private:
  std::size_t carried_from(OpId op) const { return k_[op].opcode == Opcode::For ? 3 : 0; }
  bool is_loop(OpId op) const {
    return k_[op].opcode == Opcode::For || k_[op].opcode == Opcode::While;
  }

  void need(Value v) {
    if (live_.insert(v).second) values_.push_back(v);
  }

  /// The op is executed: so are its owners, and what steers them is needed.
  void keep(OpId op) {
    if (!kept_.insert(op).second) return;
    const ir::OpData& d = k_[op];
    const bool carries = is_loop(op);
    const std::size_t own = carries ? carried_from(op) : d.operands.size();
    for (std::size_t i = 0; i < own; ++i) need(d.operands[i]);
    if (d.opcode == Opcode::While) need(k_[k_.terminator(d.regions[0])].operands[0]);
    if (const OpId owner = k_[d.parent].owner) keep(owner);
  }

  void carry(OpId op, std::size_t i) {
    const ir::OpData& d = k_[op];
    need(d.results[i]);
    if (is_loop(op)) {
      need(d.operands[carried_from(op) + i]);
      for (RegionId r : d.regions) need(k_[r].args[(d.opcode == Opcode::For ? 1 : 0) + i]);
      need(k_[k_.terminator(d.regions.back())].operands[i]);
    } else {
      for (RegionId r : d.regions) need(k_[k_.terminator(r)].operands[i]);
    }
  }

  void follow(Value v) {
    const ir::ValueData& d = k_[v];
    if (d.def) {
      keep(d.def);
      if (k_[d.def].regions.empty()) return;
      if (k_[d.def].opcode == Opcode::ReduceWith) {
        for (std::size_t i = 0; i < k_[d.def].results.size(); ++i) carry(d.def, i);
      } else {
        carry(d.def, d.position);
      }
      return;
    }
    const OpId owner = k_[d.region].owner;
    if (!owner || !is_loop(owner)) return;
    const std::size_t own = k_[owner].opcode == Opcode::For ? 1 : 0;
    if (d.position >= own) carry(owner, d.position - own);
  }

  void sweep(RegionId region) {
    for (OpId op : k_.ops(region)) {
      if (k_[op].opcode == Opcode::Yield) continue;
      if (!kept_.contains(op)) {
        k_.erase(op);
        continue;
      }
      if (k_[op].opcode != Opcode::ReduceWith && !k_[op].regions.empty()) drop_results(op);
      for (RegionId r : k_[op].regions) sweep(r);
    }
  }

  template <class List, class Dead>
  static void drop(List& list, std::size_t from, const Dead& dead) {
    std::size_t to = from;
    for (std::size_t i = from; i < list.size(); ++i)
      if (!dead(i - from)) list[to++] = list[i];
    list.resize(to);
  }

  void drop_results(OpId op) {
    const std::vector<Value> results(k_[op].results.begin(), k_[op].results.end());
    const auto dead = [&](std::size_t i) {
      return i < results.size() && !live_.contains(results[i]);
    };
    const bool loop = is_loop(op);
    drop(k_[op].results, 0, dead);
    renumber(k_[op].results);
    if (loop) drop(k_[op].operands, carried_from(op), dead);
    for (RegionId r : k_[op].regions) {
      if (loop) {
        drop(k_[r].args, k_[op].opcode == Opcode::For ? 1 : 0, dead);
        renumber(k_[r].args);
      }
      const bool yields_condition = k_[op].opcode == Opcode::While && r == k_[op].regions.front();
      if (!yields_condition) drop(k_[k_.terminator(r)].operands, 0, dead);
    }
  }

  template <class List>
  void renumber(const List& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      k_[values[i]].position = static_cast<std::uint32_t>(i);
  }

  ir::Kernel& k_;
  std::unordered_set<Value> live_;
  std::unordered_set<OpId> kept_;
  std::vector<Value> values_;
};

}  // namespace

void remove_dead(ir::Kernel& kernel) { Liveness(kernel).run(); }

}  // namespace tegula::dsl
