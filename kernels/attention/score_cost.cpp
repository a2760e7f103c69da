#include "kernels/attention/score_cost.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/eval/eval.h"
#include "ir/kernel.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

bool is_long(ir::Opcode o) {
  using enum ir::Opcode;
  return o == Load || o == LoadView || o == Tanh || o == Erf || o == Sin || o == Cos;
}

/// Of alike products, what the first of many keys scores is more than what the last one does: not
/// known of functions that captured what a GPU holds, or what changes later, or that the host
/// cannot compute.
bool rises_away(const ir::Kernel& k) try {
  constexpr std::int64_t kQuery = 1024;
  constexpr std::size_t kOwn = 6;
  if (k.params().size() != kOwn) return false;
  const auto at = [&](std::int64_t kv) {
    float score = 0;
    const auto number = [](std::int64_t n) { return ir::EvalArg(ir::Cell{.i = n}); };
    const ir::EvalArg args[] = {number(kv),       number(0),
                                number(0),        number(kQuery),
                                ir::Cell{.f = 0}, ir::TensorArg{&score, {1}, {1}, DType::f32}};
    return ir::evaluate(k, args).clean() ? score : NAN;
  };
  return at(0) > at(kQuery);
} catch (const CompileError&) {
  return false;
}

}  // namespace

ScoreCost score_cost(const Score& score) {
  const auto alone = kernel("score", [score](Scalar<i32> kv, Scalar<i32> b, Scalar<i32> h,
                                             Scalar<i32> q, Scalar<f32> s, Out<f32, 1> out) {
    for (auto i : grid(out, 1)) out(i) = score(s, b, h, q, kv);
  });
  try {
    const Trace trace =
        alone.trace(0, 0, 0, 0, 0.0f, Tensor::zeros({1}, DType::f32, Device::cpu()));
    const ir::Kernel& k = trace.kernel();
    // The score itself differs from key to key.
    const ir::Value position = k.params()[0].value;
    std::unordered_set<ir::Value> of_key{position, k.params()[4].value};
    ScoreCost cost;
    ir::walk(k, k.body(), [&](ir::OpId op) {
      const auto& d = k[op];
      const auto is_of_key = [&](ir::Value v) { return of_key.contains(v); };
      if (std::ranges::none_of(d.operands, is_of_key)) return;
      of_key.insert(d.results.begin(), d.results.end());
      cost.of_element = cost.of_element || is_long(d.opcode);
      cost.of_position = cost.of_position || std::ranges::count(d.operands, position) > 0;
    });
    cost.rises_away = cost.of_position && rises_away(k);
    return cost;
  } catch (const CompileError&) {
    return {};
  }
}

}  // namespace tegula
