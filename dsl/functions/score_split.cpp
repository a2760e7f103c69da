// Splits a score function into the condition for -inf and the score elsewhere.
#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "dsl/functions/traced_function.h"
#include "dsl/tracer.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

bool is_minus_infinity(const ir::Kernel& k, ir::Value v) {
  ir::OpId def = k[v].def;
  while (def && (k[def].opcode == ir::Opcode::Broadcast || k[def].opcode == ir::Opcode::Cast))
    def = k[k[def].operands[0]].def;
  return def && k[def].opcode == ir::Opcode::Const &&
         k[def].attrs.f(ir::AttrName::value) == -INFINITY;
}

bool depends_on(const ir::Kernel& k, ir::Value v, ir::Value on,
                std::unordered_set<ir::Value>& seen) {
  if (v == on) return true;
  const ir::OpId def = k[v].def;
  if (!def || !seen.insert(v).second) return false;
  // The result of a branch or a loop may depend on anything in it.
  if (!k[def].regions.empty()) return true;
  return std::ranges::any_of(k[def].operands,
                             [&](ir::Value o) { return depends_on(k, o, on, seen); });
}

/// Returns the select that defines a value, directly or through broadcasts, or none. A select
/// between whole rows has a smaller tile, which is broadcast before a select between pairs uses it.
ir::OpId select_of(const ir::Kernel& k, ir::Value v) {
  ir::OpId def = k[v].def;
  while (def && k[def].opcode == ir::Opcode::Broadcast) def = k[k[def].operands[0]].def;
  return def && k[def].opcode == ir::Opcode::Select ? def : ir::OpId();
}

/// The outermost selects of a score, as long as one of their values is -inf: their conditions, and
/// the remaining value. Scalars and tiles of one score have the same chain.
struct SelectChain {
  struct Condition {
    ir::Value value;
    bool hides;  ///< -inf if the condition is true, not if it is false
  };
  std::vector<Condition> conditions;
  ir::Value rest;

  SelectChain(const ir::Kernel& k, ir::Value score) : rest(score) {
    while (const ir::OpId def = select_of(k, rest)) {
      const auto& operands = k[def].operands;
      const bool hides_else = is_minus_infinity(k, operands[2]);
      if (!hides_else && !is_minus_infinity(k, operands[1])) return;
      conditions.push_back({operands[0], !hides_else});
      rest = operands[hides_else ? 1 : 2];
    }
  }
};

/// The parts of a score, in the kernel that is being traced.
struct RecordedParts {
  Tile score;
  std::optional<Tile> is_visible;

  explicit RecordedParts(const Tile& whole) {
    dsl::Tracer& t = dsl::Tracer::at({}, "split_score");
    const SelectChain chain(t.kernel, t.value(whole));
    for (const auto& [value, hides] : chain.conditions) {
      const Tile condition = t.tile(value), visible = hides ? !condition : condition;
      is_visible = is_visible ? *is_visible && visible : visible;
    }
    score = t.tile(chain.rest);
  }
};

}  // namespace

ScoreFunction::ScoreFunction(Score score) : score_(std::move(score)) {
  try {
    traced_ = std::make_shared<const TracedFunction>(score_);
  } catch (const CompileError&) {  // NOLINT(bugprone-empty-catch)
  }
}

std::optional<SplitScore> ScoreFunction::split() const {
  if (!traced_) return std::nullopt;
  const ir::Kernel& k = traced_->function().body;
  const ir::Value s = traced_->argument(TracedFunction::kScore);
  const SelectChain chain(k, traced_->function().result);
  std::unordered_set<ir::Value> seen;
  const bool looks_at_score = std::ranges::any_of(
      chain.conditions, [&](const auto& c) { return depends_on(k, c.value, s, seen); });
  if (chain.conditions.empty() || looks_at_score) return std::nullopt;
  SplitScore parts;
  parts.is_visible = [score = score_](const Tile& b, const Tile& h, const Tile& q, const Tile& kv) {
    return RecordedParts(score(full<f32>(0), b, h, q, kv)).is_visible.value_or(kv == kv);
  };
  if (chain.rest != s)
    parts.score = [score = score_](const Tile& x, const Tile& b, const Tile& h, const Tile& q,
                                   const Tile& kv) {
      return RecordedParts(score(x, b, h, q, kv)).score;
    };
  return parts;
}

}  // namespace tegula
