#include "dsl/liveness.h"

#include <unordered_set>
#include <vector>

#include "ir/loop.h"
#include "ir/reduce_kind.h"

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
      if (ir::info(k_[op].opcode).has(ir::kWrites | ir::kEffects) || waits_for_memory(op)) keep(op);
    });
    while (!values_.empty()) {
      const Value v = values_.back();
      values_.pop_back();
      follow(v);
    }
    sweep(k_.body());
  }

 private:
  /// Returns true for a while loop whose condition reads memory: it may wait for another program,
  /// so it stays even if nothing uses its results.
  bool waits_for_memory(OpId op) const {
    return k_[op].opcode == Opcode::While && ir::any_op(k_, k_[op].regions[0], [&](OpId inner) {
             return ir::info(k_[inner].opcode).has(ir::kReads);
           });
  }

  void need(Value v) {
    if (live_.insert(v).second) values_.push_back(v);
  }

  /// Keeps an op that is executed, the ops that own its region, and the operands that control them.
  void keep(OpId op) {
    if (!kept_.insert(op).second) return;
    const ir::OpData& d = k_[op];
    const std::size_t own = is_loop(d) ? first_init(d.opcode) : d.operands.size();
    for (std::size_t i = 0; i < own; ++i) need(d.operands[i]);
    if (d.opcode == Opcode::While) need(k_[k_.terminator(d.regions[0])].operands[0]);
    if (const OpId owner = k_[d.parent].owner) keep(owner);
  }

  void carry(OpId op, std::size_t i) {
    const ir::OpData& d = k_[op];
    need(d.results[i]);
    for (Value v : ir::incoming_values(k_, {op, i})) need(v);
    if (is_loop(d))
      for (RegionId r : d.regions) need(ir::loop_carries(k_, r)[i]);
  }

  void follow(Value v) {
    const ir::ValueData& d = k_[v];
    if (d.def) {
      keep(d.def);
      if (k_[d.def].regions.empty()) return;
      if (is_fold_by_function(k_[d.def].opcode)) {
        for (std::size_t i = 0; i < k_[d.def].results.size(); ++i) carry(d.def, i);
      } else {
        carry(d.def, d.position);
      }
    } else if (const auto merge = ir::merge_of(k_, v)) {
      carry(merge->op, merge->index);
    }
  }

  void sweep(RegionId region) {
    for (OpId op : k_.ops(region)) {
      if (k_[op].opcode == Opcode::Yield) continue;
      if (!kept_.contains(op)) {
        k_.erase(op);
        continue;
      }
      if (!is_fold_by_function(k_[op].opcode) && !k_[op].regions.empty()) drop_results(op);
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
    const bool loop = is_loop(k_[op]);
    const Opcode opcode = k_[op].opcode;
    drop(k_[op].results, 0, dead);
    renumber(k_[op].results);
    if (loop) drop(k_[op].operands, first_init(opcode), dead);
    for (RegionId r : k_[op].regions) {
      if (loop) {
        drop(k_[r].args, first_carry(opcode), dead);
        renumber(k_[r].args);
      }
      const bool yields_condition = opcode == Opcode::While && r == k_[op].regions.front();
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
