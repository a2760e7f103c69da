// Triton's tutorials, written in the language as a user would (examples/triton).
#include <cmath>
#include <vector>

#include "bench/bench.h"
#include "examples/triton/attention.h"
#include "examples/triton/block_scaled_matmul.h"
#include "examples/triton/dropout.h"
#include "examples/triton/extern_function.h"
#include "examples/triton/grouped_gemm.h"
#include "examples/triton/layer_norm.h"
#include "examples/triton/matmul.h"
#include "examples/triton/persistent_matmul.h"
#include "examples/triton/softmax.h"
#include "examples/triton/vector_add.h"

namespace tegula::bench {

void add_triton_cases(std::vector<Case>& list) {
  list.push_back({"triton_01_vector_add", [](const Stream& s, Tensors t, double) {
                    static const auto add = tutorials::vector_add();
                    add(s, t[0], t[1], t[2]);
                  }});
  list.push_back({"triton_02_softmax", [](const Stream& s, Tensors t, double) {
                    static const auto softmax = tutorials::softmax();
                    softmax(s, t[0], t[1]);
                  }});
  list.push_back({"triton_03_matmul", [](const Stream& s, Tensors t, double) {
                    static const auto matmul = tutorials::matmul();
                    matmul(s, t[0], t[1], t[2]);
                  }});
  list.push_back({"triton_04_dropout", [](const Stream& s, Tensors t, double seed) {
                    static const auto dropout = tutorials::dropout_by_seed();
                    dropout(s, t[0], t[1], static_cast<std::uint64_t>(seed));
                  }});
  // x, weight, bias, y, mean, rstd.
  list.push_back({"triton_05_layer_norm", [](const Stream& s, Tensors t, double eps) {
                    static const auto norm = tutorials::layer_norm();
                    norm(s, t[0], t[1], t[2], t[3], t[4], t[5], static_cast<float>(eps));
                  }});
  // dy, x, weight, mean, rstd, dx, sums of dweight and dbias [programs, columns], dweight, dbias.
  list.push_back({"triton_05_layer_norm_backward", [](const Stream& s, Tensors t, double) {
                    static const auto rows = tutorials::layer_norm_backward();
                    static const auto weights = tutorials::layer_norm_weights();
                    rows(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
                    weights(s, t[6], t[7], t[8], t[9]);
                  }});
  // Q, K, V, O; number 1: causal.
  list.push_back({"triton_06_attention", [](const Stream& s, Tensors t, double is_causal) {
                    static const auto attention = tutorials::attention();
                    attention(s, t[0], t[1], t[2], t[3],
                              1 / std::sqrt(static_cast<float>(t[0].size(2))), is_causal != 0);
                  }});
  list.push_back({"triton_07_extern_function", [](const Stream& s, Tensors t, double) {
                    static const auto arc_sine = tutorials::arc_sine();
                    arc_sine(s, t[0], t[1]);
                  }});
  // Addresses, shapes (m, n / 8, k / 8); number: the programs.
  list.push_back({"triton_08_grouped_gemm", [](const Stream& s, Tensors t, double programs) {
                    static const auto gemm = tutorials::grouped_gemm();
                    gemm(s, t[0], t[1], static_cast<int>(programs));
                  }});
  list.push_back({"triton_09_persistent_matmul", [](const Stream& s, Tensors t, double) {
                    static const auto matmul = tutorials::persistent_matmul();
                    matmul(s, t[0], t[1], t[2]);
                  }});
  // Bytes of A, its scales, bytes of B, its scales, C.
  list.push_back({"triton_10_block_scaled_matmul", [](const Stream& s, Tensors t, double) {
                    static const auto matmul = tutorials::block_scaled_matmul();
                    matmul(s, as_fp8(t[0]), t[1], as_fp8(t[2]), t[3], t[4]);
                  }});
}

}  // namespace tegula::bench
