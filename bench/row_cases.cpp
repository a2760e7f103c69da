// Kernels of rows: norms, softmax, gated activations, rotary embedding.
#include "bench/bench.h"
#include "tegula/kernels/gated_activation.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/rope.h"
#include "tegula/kernels/softmax.h"

namespace tegula::bench {
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

}  // namespace

void add_row_cases(std::vector<Case>& list) {
  list.push_back({"softmax", [](const Stream& s, Tensors t, double) { softmax(s, t[0], t[1]); }});
  list.push_back({"softmax_backward", [](const Stream& s, Tensors t, double) {
                    softmax_backward(s, t[0], t[1], t[2]);
                  }});
  add_norms(list);
  // gate, up, y; the number is the activation's. With gradients: gate, up, dy, dgate, dup.
  list.push_back({"gated_activation", [](const Stream& s, Tensors t, double which) {
                    const auto activation = static_cast<GateActivation>(which);
                    if (t.size() == 3)
                      gated_activation(s, activation, t[0], t[1], t[2]);
                    else
                      gated_activation_backward(s, activation, t[0], t[1], t[2], t[3], t[4]);
                  }});
  // x, cos, sin, y, and positions if there are any; 1: neighbours are pairs.
  list.push_back({"rope", [](const Stream& s, Tensors t, double pairs) {
                    rope(s, static_cast<RopePairs>(pairs), t[0],
                         {.cos = t[1], .sin = t[2], .positions = t.size() > 4 ? t[4] : Tensor()},
                         t[3]);
                  }});
}

}  // namespace tegula::bench
