#include "kernels/attention/score_cost.h"

#include <algorithm>
#include <unordered_set>

#include "ir/kernel.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

bool is_long(ir::Opcode o) {
  using enum ir::Opcode;
  return o == Load || o == LoadView || o == Tanh || o == Erf || o == Sin || o == Cos;
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
    return cost;
  } catch (const CompileError&) {
    return {};
  }
}

}  // namespace tegula
