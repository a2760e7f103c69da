#pragma once
// Problems of packed matrices, as `matmul` describes them.
#include <random>
#include <string_view>
#include <vector>

#include "tegula/matmul_config.h"

namespace tegula::test {

/// Row-major (N) or column-major (T) A and B.
inline MatmulProblem packed(std::int64_t m, std::int64_t n, std::int64_t k,
                            std::string_view layout = "NN", DType type = DType::bf16) {
  const int bytes = size_bytes(type);
  MatmulProblem p{.m = m, .n = n, .k = k};
  p.operands = type, p.result = bytes == 1 ? DType::bf16 : type;
  p.tf32 = type == DType::f32;
  const bool needs_k_major = bytes != 2;
  const bool a_k_major = layout[0] == 'N', b_k_major = layout[1] == 'T';
  const std::int64_t a_pitch = bytes * (a_k_major ? k : m), b_pitch = bytes * (b_k_major ? k : n);
  p.repacks_a = a_pitch % 16 != 0 || (needs_k_major && !a_k_major);
  p.repacks_b = b_pitch % 16 != 0 || (needs_k_major && !b_k_major);
  p.a_k_major = a_k_major || needs_k_major, p.b_k_major = b_k_major || needs_k_major;
  p.a_lines = p.repacks_a ? LinePhase::whole : line_phase(a_pitch);
  p.b_lines = p.repacks_b ? LinePhase::whole : line_phase(b_pitch);
  return p;
}

/// Problems of all kinds, the same in every run.
inline std::vector<MatmulProblem> drawn_problems(int count) {
  std::mt19937_64 bits(20261125);
  const auto below = [&](int n) { return static_cast<int>(bits() % static_cast<unsigned>(n)); };
  const auto extent = [&] {
    const std::int64_t most = std::int64_t{1} << (3 + below(12));
    return most + (below(2) == 0 ? 0 : below(static_cast<int>(most)));
  };
  constexpr std::string_view kLayouts[] = {"NN", "NT", "TN", "TT"};
  constexpr DType kTypes[] = {DType::bf16,   DType::bf16, DType::f16,
                              DType::f8e4m3, DType::i8,   DType::f32};
  std::vector<MatmulProblem> list;
  for (int i = 0; i < count; ++i) {
    MatmulProblem p = packed(extent(), extent(), extent(), kLayouts[below(4)], kTypes[below(6)]);
    if (below(5) == 0) p.batch = 1 + below(50), p.is_batched = true;
    if (below(5) == 0) p.gates = 2;
    if (p.gates == 1 && below(4) == 0) p.epilogue_matrices = 1;
    if (p.operands == DType::f32) p.tf32 = below(3) != 0;
    if (p.operands == DType::f8e4m3) p.fp32_promotion = below(2) == 0;
    list.push_back(p);
  }
  return list;
}

}  // namespace tegula::test
