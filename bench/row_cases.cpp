// Kernels of rows: norms, softmax, gated activations, rotary embedding, losses, quantisation,
// Hadamard, embedding, AdamW.
#include <cmath>
#include <map>
#include <vector>

#include "bench/bench.h"
#include "tegula/kernels/adamw.h"
#include "tegula/kernels/cross_entropy.h"
#include "tegula/kernels/embedding.h"
#include "tegula/kernels/gated_activation.h"
#include "tegula/kernels/hadamard.h"
#include "tegula/kernels/linear_cross_entropy.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/quantise.h"
#include "tegula/kernels/rope.h"
#include "tegula/kernels/softmax.h"

namespace tegula::bench {
using namespace kernels;
namespace {

void add_norms(std::vector<Case>& list) {
  // x, weight, y; with the residual: x, weight, y, residual, sum, rstd.
  list.push_back({"rms_norm", [](const Stream& s, Tensors t, double e) {
                    const NormExtras extras =
                        t.size() > 3 ? NormExtras{.residual = t[3], .sum = t[4], .rstd = t[5]}
                                     : NormExtras{};
                    rms_norm(s, t[0], t[1], t[2], static_cast<float>(e), extras);
                  }});
  // x, weight, bias, y, mean, rstd.
  list.push_back({"layer_norm", [](const Stream& s, Tensors t, double e) {
                    layer_norm(s, t[0], t[1], t[2], t[3], static_cast<float>(e),
                               {.mean = t[4], .rstd = t[5]});
                  }});
  // x, weight, rstd, dy, dx, dweight.
  list.push_back({"rms_norm_backward", [](const Stream& s, Tensors t, double) {
                    rms_norm_backward(s, {.x = t[0], .weight = t[1], .rstd = t[2]}, t[3],
                                      {.x = t[4], .weight = t[5]});
                  }});
  // x, weight, mean, rstd, dy, dx, dweight, dbias.
  list.push_back({"layer_norm_backward", [](const Stream& s, Tensors t, double) {
                    layer_norm_backward(s, {.x = t[0], .weight = t[1], .mean = t[2], .rstd = t[3]},
                                        t[4], {.x = t[5], .weight = t[6], .bias = t[7]});
                  }});
}

void add_losses(std::vector<Case>& list) {
  // logits, labels, loss, lse; followed by dloss and dlogits, the gradient from that lse.
  list.push_back({"cross_entropy", [](const Stream& s, Tensors t, double) {
                    if (t.size() == 4)
                      cross_entropy(s, t[0], t[1], t[2], t[3]);
                    else
                      cross_entropy_backward(s, t[0], t[1], t[3], t[4], t[5]);
                  }});
  // x, weight, labels, logits of some tokens, loss, lse, dloss, dx, dweight.
  list.push_back({"linear_cross_entropy", [](const Stream& s, Tensors t, double) {
                    linear_cross_entropy(s, t[0], t[1], t[2], t[3], t[4], t[5],
                                         {.dloss = t[6], .x = t[7], .weight = t[8]});
                  }});
}

/// Returns one optimizer per list of tensors: w, g, m, v, w, g, m, v, ..
const AdamW& adamw_of(Tensors t) {
  static std::map<const void*, AdamW> made;
  const auto found = made.find(t[0].data());
  if (found != made.end()) return found->second;
  std::vector<AdamWTensors> tensors;
  for (std::size_t i = 0; i + 3 < t.size(); i += 4)
    tensors.push_back({t[i], t[i + 1], t[i + 2], t[i + 3]});
  return made.try_emplace(t[0].data(), tensors).first->second;
}

}  // namespace

void add_row_cases(std::vector<Case>& list) {
  list.push_back({"softmax", [](const Stream& s, Tensors t, double) { softmax(s, t[0], t[1]); }});
  list.push_back({"softmax_backward", [](const Stream& s, Tensors t, double) {
                    softmax_backward(s, t[0], t[1], t[2]);
                  }});
  add_norms(list);
  add_losses(list);
  // gate, up, y; number: the activation. For gradients: gate, up, dy, dgate, dup.
  list.push_back({"gated_activation", [](const Stream& s, Tensors t, double which) {
                    const auto activation = static_cast<GateActivation>(which);
                    if (t.size() == 3)
                      gated_activation(s, activation, t[0], t[1], t[2]);
                    else
                      gated_activation_backward(s, activation, t[0], t[1], t[2], t[3], t[4]);
                  }});
  // x, cos, sin, y, and optionally positions; number 1: neighbours form pairs.
  list.push_back({"rope", [](const Stream& s, Tensors t, double pairs) {
                    rope(s, static_cast<RopePairs>(pairs), t[0],
                         {.cos = t[1], .sin = t[2], .positions = t.size() > 4 ? t[4] : Tensor()},
                         t[3]);
                  }});
  // x, bytes of q, scales; number: the block.
  list.push_back({"quantise_fp8", [](const Stream& s, Tensors t, double block) {
                    quantise_fp8(s, t[0], as_fp8(t[1]), t[2],
                                 {.block = static_cast<ScaleBlock>(block)});
                  }});
  list.push_back({"hadamard", [](const Stream& s, Tensors t, double scale) {
                    hadamard(s, t[0], t[1], static_cast<float>(scale));
                  }});
  // table, ids, y; for number 1 or 2: dy, ids, dtable, in any order or in token order.
  list.push_back({"embedding", [](const Stream& s, Tensors t, double backward) {
                    if (backward == 0)
                      embedding(s, t[0], t[1], t[2]);
                    else
                      embedding_backward(s, t[0], t[1], t[2],
                                         backward == 1 ? ScatterOrder::any : ScatterOrder::tokens);
                  }});
  // number: the step; if negative, rounding is stochastic.
  list.push_back({"adamw", [](const Stream& s, Tensors t, double step) {
                    AdamWOptions options;
                    if (step < 0) options.rounding_seed = 1;
                    adamw_of(t).step(s, static_cast<std::int64_t>(std::abs(step)), options);
                  }});
}

}  // namespace tegula::bench
