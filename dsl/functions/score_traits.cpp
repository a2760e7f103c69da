// The registers that a score function needs, derived from its trace.
#include "tegula/functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "dsl/functions/traced_function.h"
#include "ir/access.h"
#include "ir/analysis/tma_access.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"
#include "tegula/error.h"

namespace tegula {
namespace {

/// Returns true for memory accesses, functions of many steps, and correctly rounded functions that
/// are calls.
bool is_long(const ir::Kernel& k, ir::OpId op) {
  using enum ir::Opcode;
  const auto& d = k[op];
  const ir::Opcode o = d.opcode;
  const ir::OpId divisor = o == Div ? k[d.operands[1]].def : ir::OpId();
  if (divisor && k[divisor].opcode == Const) return false;
  if (o == Rcp || o == Div || o == Sqrt)
    return is_float(k.type(d.results[0]).dtype()) && d.attrs.find(ir::AttrName::approx) == nullptr;
  return o == Load || o == LoadView || o == Tanh || o == Erf || o == Sin || o == Cos;
}

/// Finds values that depend on the pair of key and query, and those that depend only on their
/// distance.
class Dependence {
 public:
  explicit Dependence(const TracedFunction& f)
      : key(f.argument(TracedFunction::kKey)),
        k_(f.function().body),
        query_(f.argument(TracedFunction::kQuery)),
        of_key_{key, f.argument(TracedFunction::kScore)} {}

  /// Returns true if a result differs from key to key, like the score itself.
  bool visit(ir::OpId op) {
    const auto& d = k_[op];
    const auto is_key_or_query = [&](ir::Value v) { return v == key || v == query_; };
    const auto is_free = [&](ir::Value v) {
      return of_distance_.contains(v) || !(of_key_.contains(v) || of_query_.contains(v));
    };
    const auto is_in = [](const std::unordered_set<ir::Value>& set) {
      return [&set](ir::Value v) { return set.contains(v); };
    };
    const bool is_distance = d.opcode == ir::Opcode::Sub && d.operands[0] != d.operands[1] &&
                             std::ranges::all_of(d.operands, is_key_or_query);
    const bool of_key = std::ranges::any_of(d.operands, is_in(of_key_));
    const auto results = [&](std::unordered_set<ir::Value>& set) {
      set.insert(d.results.begin(), d.results.end());
    };
    if (of_key) results(of_key_);
    if (std::ranges::any_of(d.operands, is_in(of_query_))) results(of_query_);
    const bool is_toeplitz = is_distance || (of_key && std::ranges::all_of(d.operands, is_free));
    const bool has_linear = std::ranges::any_of(d.operands, is_in(linear_));
    if (is_toeplitz && !(has_linear && is_scaled(op))) results(of_distance_);
    if (is_distance || (is_toeplitz && has_linear && keeps_steps(d.opcode))) results(linear_);
    return of_key;
  }
  bool is_of_distance(ir::OpId op) const {
    return std::ranges::all_of(k_[op].results,
                               [&](ir::Value v) { return of_distance_.contains(v); });
  }

  /// Returns the bytes of an element at (q, kv) of a tensor whose tiles TMA can load; 0 if the op
  /// is not such a load.
  int tma_bytes_per_element(ir::OpId op) const {
    const auto& d = k_[op];
    if (d.opcode != ir::Opcode::LoadView || d.parent != k_.body()) return 0;
    std::array<std::int64_t, 2> axes{-1, -1};
    const ir::BoxAccess read = ir::access_of(k_, d);
    for (std::size_t i = 0; i < read.axes.size(); ++i) {
      const ir::Value at = uncast(read.axes[i].offset);
      if (!of_key_.contains(at) && !of_query_.contains(at)) continue;
      if (at != key && at != query_) return 0;
      std::int64_t& axis = axes[at == key ? 1 : 0];
      if (axis >= 0) return 0;
      axis = static_cast<std::int64_t>(i);
    }
    const ir::Type view = k_.type(read.view);
    const bool is_of_pairs = std::ranges::all_of(axes, [](std::int64_t a) { return a >= 0; });
    constexpr std::int64_t kTile[] = {64, 64};
    const ir::Type tile = ir::Type::tile({view.dtype()}, kTile);
    const auto bytes = static_cast<int>(size_bytes(view.dtype()));
    // TMA cannot load rows of 16 bytes, which single-byte elements have for some block widths.
    const bool can = is_of_pairs && bytes > 1 && ir::why_not_tma_tile(view, axes, tile).empty();
    return can ? bytes : 0;
  }

  const ir::Value key;

 private:
  ir::Value uncast(ir::Value v) const {
    for (ir::OpId def = k_[v].def; def && k_[def].opcode == ir::Opcode::Cast; def = k_[v].def)
      v = k_[def].operands[0];
    return v;
  }
  static bool keeps_steps(ir::Opcode o) {
    using enum ir::Opcode;
    return o == Cast || o == Neg || o == Add || o == Sub;
  }
  /// Returns true for the product of a float and a distance. The product is computed from one
  /// product per row and one per column (ir/passes/hoist_broadcast_terms).
  bool is_scaled(ir::OpId op) const {
    using enum ir::Opcode;
    const ir::Opcode o = k_[op].opcode;
    return is_float(k_.type(k_[op].results[0]).dtype()) && (o == Mul || o == Div || o == Fma);
  }
  const ir::Kernel& k_;
  ir::Value query_;
  std::unordered_set<ir::Value> of_key_, of_query_{query_}, of_distance_;
  std::unordered_set<ir::Value> linear_;  ///< distances that change by one per unit step
};

/// Returns true if, for equal dot products, the first of many keys scores higher than the last one.
/// Unknown for functions that captured device memory or values that change later, or that the host
/// cannot compute.
bool grows_with_distance(const ir::Kernel& k) try {
  constexpr std::int64_t kQuery = 1024;
  constexpr std::size_t kOwn = 6;
  if (k.params().size() != kOwn) return false;
  const auto at = [&](std::int64_t kv) {
    float score = 0;
    const auto number = [](std::int64_t n) { return ir::EvalArg(ir::Cell{.i = n}); };
    const ir::EvalArg args[] = {ir::Cell{.f = 0}, number(0),
                                number(0),        number(kQuery),
                                number(kv),       ir::TensorArg{&score, {1}, {1}, DType::f32}};
    return ir::evaluate(k, args).clean() ? score : NAN;
  };
  return at(0) > at(kQuery);
} catch (const Error&) {
  return false;
}

}  // namespace

ScoreTraits ScoreFunction::cost() const {
  ScoreTraits cost;
  if (!traced_) return cost;
  const ir::Kernel& k = traced_->function().body;
  Dependence pairs(*traced_);
  bool has_others = false;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (!pairs.visit(op)) return;
    const auto& d = k[op];
    // Quotients of distances are computed once per diagonal only if other such values exist
    // (ir/analysis/diagonals).
    const bool is_toeplitz = pairs.is_of_distance(op),
               is_costly = is_long(k, op) && !(is_toeplitz && d.opcode == ir::Opcode::Div),
               has_per_element_state = is_costly && !is_toeplitz;
    const int tma_bytes_per_element = pairs.tma_bytes_per_element(op);
    cost.has_per_element_state = cost.has_per_element_state || has_per_element_state;
    cost.tma_bytes_per_element += tma_bytes_per_element;
    has_others = has_others || (has_per_element_state && tma_bytes_per_element == 0);
    cost.is_toeplitz = cost.is_toeplitz || (is_costly && is_toeplitz);
    cost.reads_kv_index = cost.reads_kv_index || std::ranges::count(d.operands, pairs.key) > 0;
  });
  if (has_others) cost.tma_bytes_per_element = 0;
  cost.grows_with_distance = cost.reads_kv_index && grows_with_distance(k);
  return cost;
}

}  // namespace tegula
