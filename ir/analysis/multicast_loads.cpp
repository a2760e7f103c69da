#include "ir/analysis/multicast_loads.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/invariant_load.h"
#include "ir/clone_op.h"
#include "ir/eval/cell.h"
#include "ir/eval/evaluate.h"
#include "ir/lines.h"
#include "ir/op.h"

namespace tegula::ir {
namespace {

/// Value of unknown extents and scalars: large, so that the first two tiles are interior tiles.
constexpr std::int64_t kLarge = 1 << 14;

bool is_param(const Kernel& k, Value v) { return !k[v].def && k[v].region == k.body(); }

/// Evaluates pure scalars for a given tile, where possible.
class Sample {
 public:
  Sample(const Kernel& k, std::int64_t tile) : k_(k), tile_(tile) {}

  std::optional<std::int64_t> number(Value v) {
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    return known_[v] = computed(v);
  }

 private:
  std::optional<std::int64_t> computed(Value v) {
    const Type t = k_.type(v);
    if (!t.is_scalar() || t.is_pointer() || is_float(t.dtype())) return std::nullopt;
    const OpId def = k_[v].def;
    if (!def) return is_param(k_, v) ? std::optional(kLarge) : std::nullopt;
    const OpData& d = k_[def];
    if (d.opcode == Opcode::ProgramId) return tile_;
    if (d.opcode == Opcode::NumPrograms) return kLarge;
    if (d.opcode == Opcode::Const) return d.attrs.i(AttrName::value);
    if (d.opcode == Opcode::ViewDim) {
      const std::int64_t extent =
          k_.type(d.operands[0]).shape()[static_cast<std::size_t>(d.attrs.i(AttrName::axis))];
      return extent == kDynamic ? kLarge : extent;
    }
    if (is_invariant_scalar_load(k_, def)) {
      // Table entries, such as segment offsets, are assumed to ascend from 0.
      const std::vector<AccessAxis> axes = access_of(k_, d).axes;
      const auto index = axes.size() == 1 ? number(axes[0].offset) : std::nullopt;
      return index ? std::optional(*index * kLarge) : std::nullopt;
    }
    const auto result = evaluate_scalar(k_, d, [&](Value v) {
      const auto n = number(v);
      return n ? std::optional(Cell{.i = *n}) : std::nullopt;
    });
    return result ? std::optional(result->i) : std::nullopt;
  }

  const Kernel& k_;
  std::int64_t tile_;
  std::unordered_map<Value, std::optional<std::int64_t>> known_;
};

bool states_facts(const Kernel& k, RegionId body) {
  return any_op(k, body,
                [&](OpId op) { return k[op].opcode == Opcode::Assume && states_fact(k, op); });
}

/// Restricts the checks in the body to programs for which `condition` is true.
void restrict_checks(Kernel& k, RegionId body, Value condition) {
  for (OpId check : ops_where(k, body, [&](OpId op) { return k[op].opcode == Opcode::Assume; })) {
    Builder b(k, check);
    const Type type = k.type(k[check].operands[0]);
    Value without = b.op(Opcode::Not, {condition});
    if (type.is_tile()) without = b.op(Opcode::Splat, {without}, type);
    const Value holds = b.op(Opcode::Or, {k[check].operands[0], without});
    k[check].operands[0] = holds;
  }
}

}  // namespace

bool MulticastLoads::have_equal_trip_counts() {
  const auto& bounds = k_[loop_].operands;
  const auto is_equal = [&](Value v) { return varies_with(v) == VariesWith::Nothing; };
  if (!is_equal(bounds[0]) || !is_equal(bounds[2])) return false;
  const OpId select = bound();
  if (!select) return is_equal(bounds[1]);
  const Value condition = k_[select].operands[0];
  // In iterations that only the neighbour needs, an assumption of the kernel may not hold.
  return is_equal(k_[select].operands[1]) &&
         (is_equal(condition) ||
          (varies_with(condition) == VariesWith::Tile && !states_facts(k_, body_)));
}

OpId MulticastLoads::bound() const {
  const auto& operands = k_[loop_].operands;
  const OpId select = k_[operands[1]].def;
  const bool is_bound = select && k_[loop_].attrs.i(AttrName::predicated) == 1 &&
                        k_[select].opcode == Opcode::Select &&
                        ir::is_same(k_, k_[select].operands[2], operands[0]);
  return is_bound ? select : OpId();
}

void MulticastLoads::equalize_trip_counts(Builder& b, Value other) {
  const OpId select = bound();
  if (!select || varies_with(k_[select].operands[0]) == VariesWith::Nothing) return;
  const Value own_condition = k_[select].operands[0], end = k_[select].operands[1],
              begin = k_[select].operands[2];
  ValueMap map;
  const Value other_condition = clone_for(b, own_condition, other, map);
  const Value bounded = b.select(b.op(Opcode::Or, {own_condition, other_condition}), end, begin);
  b.kernel()[loop_].operands[1] = bounded;
  restrict_checks(b.kernel(), body_, own_condition);
}

bool MulticastLoads::may_multicast(OpId load) {
  for (const AccessAxis& axis : access_of(k_, k_[load]).axes)
    for (Value v : {axis.offset, axis.limit})
      if (v && varies_with(v) == VariesWith::Unknown) return false;
  Sample first(k_, 0), second(k_, 1);
  return std::ranges::all_of(of_tile(load), [&](Value v) {
    const auto number = first.number(v);
    return number && number == second.number(v);
  });
}

Value MulticastLoads::is_same(Builder& b, OpId load, Value other) {
  ValueMap map;
  Value all;
  for (Value v : of_tile(load)) all = both(b, all, b.cmp("eq", v, clone_for(b, v, other, map)));
  return all ? all : b.flag(true);
}

// ---- dependences of values
MulticastLoads::VariesWith MulticastLoads::varies_with(Value v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  return known_[v] = computed_from(v);
}

MulticastLoads::VariesWith MulticastLoads::computed_from(Value v) {
  const OpId def = k_[v].def;
  if (!def) {
    const bool is_step = k_[v].region == body_ && k_[v].position == 0;
    return is_param(k_, v) || is_step ? VariesWith::Nothing : VariesWith::Unknown;
  }
  if (is_tile(v)) return VariesWith::Tile;
  const OpData& d = k_[def];
  using enum Opcode;
  const bool of_program = d.is(ProgramId, ClusterId, ClusterRank);
  const bool repeatable = info(d.opcode).has(kPure) || is_invariant_scalar_load(k_, def);
  if (of_program || d.opcode == ProducerThread || !repeatable || !d.regions.empty() ||
      k_.type(v).is_tile())
    return VariesWith::Unknown;
  VariesWith result = VariesWith::Nothing;
  for (Value o : d.operands)
    if (!k_.type(o).is_view()) result = std::max(result, varies_with(o));
  return result;
}

bool MulticastLoads::is_tile(Value v) const {
  const OpId def = k_[v].def;
  return def && k_[def].opcode == Opcode::ProgramId && k_[def].attrs.i(AttrName::axis) == 0;
}

std::vector<Value> MulticastLoads::of_tile(OpId load) {
  std::vector<Value> found;
  std::unordered_set<Value> visited;
  const BoxAccess a = access_of(k_, k_[load]);
  for (const AccessAxis& axis : a.axes) collect(axis.offset, found, visited);
  for (const AccessAxis& axis : a.axes)
    if (axis.limit) collect(axis.limit, found, visited);
  return found;
}

void MulticastLoads::collect(Value v, std::vector<Value>& found,
                             std::unordered_set<Value>& visited) {
  if (varies_with(v) != VariesWith::Tile || !visited.insert(v).second) return;
  if (!is_inside(v)) return found.push_back(v);
  const auto operands = k_[k_[v].def].operands;
  for (Value o : operands) collect(o, found, visited);
}

bool MulticastLoads::is_inside(Value v) const { return k_[v].def && k_[k_[v].def].parent == body_; }

Value MulticastLoads::clone_for(Builder& b, Value v, Value other, ValueMap& map) {
  return clone_computation(b, v, map, [&](Value o) {
    return varies_with(o) != VariesWith::Tile ? o : is_tile(o) ? other : Value();
  });
}

}  // namespace tegula::ir
