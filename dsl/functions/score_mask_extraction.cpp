// A score function taken apart into where it is -inf, and what it is elsewhere.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "dsl/tracer.h"
#include "tegula/error.h"
#include "tegula/functions.h"
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

/// The selects that a score ends with, as long as one of their values is -inf: the value that is
/// left, and where it is one.
struct MaskAndScore {
  Tile score;
  std::optional<Tile> is_visible;
};

MaskAndScore parts_of(const Tile& score) {
  dsl::Tracer& t = dsl::Tracer::at({}, "split_score");
  MaskAndScore parts{score, {}};
  while (true) {
    const ir::Value v = t.value(parts.score);
    const ir::OpId def = t.kernel[v].def;
    if (!def || t.kernel[def].opcode != ir::Opcode::Select) return parts;
    const auto operands = t.kernel[def].operands;  // recording may move what it refers to
    const bool hides_else = is_minus_infinity(t.kernel, operands[2]);
    if (!hides_else && !is_minus_infinity(t.kernel, operands[1])) return parts;
    const Tile condition = t.tile(operands[0]), is_visible = hides_else ? condition : !condition;
    parts.is_visible = parts.is_visible ? *parts.is_visible && is_visible : is_visible;
    parts.score = t.tile(operands[hides_else ? 1 : 2]);
  }
}

/// Whether a score can be split, and what is left is the score as it came.
struct MaskAndScoreResult {
  bool is_split = false, is_plain = false;
};

MaskAndScoreResult split_of(const Score& score) {
  MaskAndScoreResult found;
  const auto alone = kernel("score", [&](Scalar<i32> kv, Scalar<i32> b, Scalar<i32> h,
                                         Scalar<i32> q, Scalar<f32> s, Out<f32, 1> out) {
    for (auto i : grid(out, 1)) {
      const Tile argument = s;
      const MaskAndScore parts = parts_of(score(argument, b, h, q, kv));
      dsl::Tracer& t = dsl::Tracer::at({}, "split_score");
      std::unordered_set<ir::Value> seen;
      found.is_split = parts.is_visible &&
                       !depends_on(t.kernel, t.value(*parts.is_visible), t.value(argument), seen);
      found.is_plain = t.value(parts.score) == t.value(argument);
      out(i) = parts.score;
    }
  });
  try {
    alone.trace(0, 0, 0, 0, 0.0f, Tensor::zeros({1}, DType::f32, Device::cpu()));
    return found;
  } catch (const CompileError&) {
    return {};  // the kernel's own trace reports the error
  }
}

}  // namespace

std::optional<SplitScore> split_score(const Score& score) {
  const MaskAndScoreResult split = split_of(score);
  if (!split.is_split) return std::nullopt;
  SplitScore parts;
  parts.is_visible = [score](const Tile& b, const Tile& h, const Tile& q, const Tile& kv) {
    return parts_of(score(full<f32>(0), b, h, q, kv)).is_visible.value_or(kv == kv);
  };
  if (!split.is_plain)
    parts.score = [score](const Tile& s, const Tile& b, const Tile& h, const Tile& q,
                          const Tile& kv) { return parts_of(score(s, b, h, q, kv)).score; };
  return parts;
}

}  // namespace tegula
