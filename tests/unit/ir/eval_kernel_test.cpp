// Whole kernels against plain C++: sizes that do not fit, every order of programs, and fast enough
// for tests.
#include <chrono>
#include <cmath>
#include <random>

#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_kernel_test {
namespace {

template <class T>
HostTensor<T> random(Ints shape, unsigned seed) {
  HostTensor<T> t(std::move(shape));
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (T& v : t.storage) v = T(uniform(engine));
  return t;
}

constexpr const char* kMatmul =
    R"(kernel @matmul tile (%a: view<?x?xbf16, in>, %b: view<?x?xbf16, in>, %c: view<?x?xbf16, out>) {
    launch {
      %gm = view_dim %c [axis = 0] : i32  %gn = view_dim %c [axis = 1] : i32
      %g63 = const [value = 63] : i32  %g64 = const [value = 64] : i32  %g1 = const [value = 1] : i32
      %gm1 = add %gm, %g63  %gm2 = div %gm1, %g64  %gn1 = add %gn, %g63  %gn2 = div %gn1, %g64
      yield %gn2, %gm2, %g1
    }
    %z = const [value = 0] : i32
    %bm = const [value = 64] : i32
    %bk = const [value = 32] : i32
    %pn = program_id [axis = 0] : i32
    %pm = program_id [axis = 1] : i32
    %m = mul %pm, %bm
    %n = mul %pn, %bm
    %kk = view_dim %a [axis = 1] : i32
    %acc0 = const [value = 0.0] : tile<64x64xf32>
    %acc = for %z, %kk, %bk, %acc0 : tile<64x64xf32> { (%k: i32, %s: tile<64x64xf32>)
      %x = load_view %a, %m, %k [axes = [0, 1]] : tile<64x32xbf16>
      %y = load_view %b, %k, %n [axes = [0, 1]] : tile<32x64xbf16>
      %d = dot %x, %y, %s
      yield %d
    }
    %r = cast %acc : tile<64x64xbf16>
    store_view %c, %r, %m, %n [axes = [0, 1]]
  })";

void check_matmul(std::int64_t m, std::int64_t n, std::int64_t k, const EvalOptions& options = {}) {
  HostTensor<bf16> a = random<bf16>({m, k}, 1), b = random<bf16>({k, n}, 2), c({m, n});
  run_clean(kMatmul, {a.view(), b.view(), c.view()}, options);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a.storage[static_cast<std::size_t>(i * k + l)]) *
               b.storage[static_cast<std::size_t>(l * n + j)];
      ASSERT_NEAR(c.storage[static_cast<std::size_t>(i * n + j)], sum,
                  std::abs(sum) * 0x1p-8 + 1e-6)
          << i << ", " << j;
    }
}

TEST(EvalKernel, MatmulOfSizesThatDoNotFit) {
  check_matmul(64, 64, 64);
  check_matmul(65, 63, 33);
  check_matmul(1, 1, 1);
  check_matmul(130, 7, 100);
  check_matmul(5, 5, 0);
  check_matmul(0, 5, 5);
}

TEST(EvalKernel, OrderAndThreadsDoNotMatter) {
  for (const std::uint64_t seed : {1, 2}) {
    EvalOptions options;
    options.shuffle_seed = seed;
    options.threads = static_cast<int>(seed);
    check_matmul(150, 150, 40, options);
  }
}

TEST(EvalKernel, Matmul256IsFastEnough) {
  HostTensor<bf16> a = random<bf16>({256, 256}, 1), b = random<bf16>({256, 256}, 2), c({256, 256});
  const Kernel kernel = parse(kMatmul);
  const std::vector<EvalArg> args{a.view(), b.view(), c.view()};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(evaluate(kernel, args).clean());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1e3));
  EXPECT_LT(seconds.count(),
            5.0);  // 0.03 s on one idle core; wide, for sanitizers and busy machines
}

// One head of causal attention with an online softmax, block 64 x 64, d = 64.
constexpr const char* kAttention =
    R"(kernel @attention tile (%q: view<?x64xbf16, in>, %k: view<?x64xbf16, in>, %v: view<?x64xbf16, in>, %o: view<?x64xf32, out>, %scale: f32) {
    launch {
      %gs = view_dim %q [axis = 0] : i32
      %g63 = const [value = 63] : i32  %g64 = const [value = 64] : i32  %g1 = const [value = 1] : i32
      %gs1 = add %gs, %g63  %gs2 = div %gs1, %g64
      yield %gs2, %g1, %g1
    }
    %z = const [value = 0] : i32
    %b = const [value = 64] : i32
    %p = program_id [axis = 0] : i32
    %m = mul %p, %b
    %qt = load_view %q, %m, %z [axes = [0, 1]] : tile<64x64xbf16>
    %len = view_dim %k [axis = 0] : i32
    %last = add %m, %b
    %hi = min %last, %len
    %o0 = const [value = 0.0] : tile<64x64xf32>
    %m0 = const [value = -inf] : tile<64xf32>
    %l0 = const [value = 0.0] : tile<64xf32>
    %r0 = arange [start = 0] : tile<64xi32>
    %rows1 = add %r0, %m
    %rows2 = expand_dims %rows1 [axis = 1]
    %rows = broadcast %rows2 : tile<64x64xi32>
    %ninf = const [value = -inf] : f32
    %of, %mf, %lf = for %z, %hi, %b, %o0, %m0, %l0 : tile<64x64xf32>, tile<64xf32>, tile<64xf32> { (%j: i32, %oc: tile<64x64xf32>, %mc: tile<64xf32>, %lc: tile<64xf32>)
      %kt = load_view %k, %j, %z [axes = [0, 1]] : tile<64x64xbf16>
      %ktt = permute %kt [order = [1, 0]]
      %s0 = dot %qt, %ktt, %o0
      %s1 = mul %s0, %scale
      %cols1 = add %r0, %j
      %cols2 = expand_dims %cols1 [axis = 0]
      %cols = broadcast %cols2 : tile<64x64xi32>
      %see = cmp %rows, %cols [pred = "ge"]
      %s = select %see, %s1, %ninf
      %mj = reduce %s [axis = 1, kind = "max"]
      %mn = max %mc, %mj
      %mne = expand_dims %mn [axis = 1]
      %mnb = broadcast %mne : tile<64x64xf32>
      %sd = sub %s, %mnb
      %pt = exp2 %sd
      %md = sub %mc, %mn
      %alpha = exp2 %md
      %lj = reduce %pt [axis = 1, kind = "sum"]
      %ls = mul %lc, %alpha
      %ln = add %ls, %lj
      %ae = expand_dims %alpha [axis = 1]
      %ab = broadcast %ae : tile<64x64xf32>
      %os = mul %oc, %ab
      %pb = cast %pt : tile<64x64xbf16>
      %vt = load_view %v, %j, %z [axes = [0, 1]] : tile<64x64xbf16>
      %on = dot %pb, %vt, %os
      yield %on, %mn, %ln
    }
    %le = expand_dims %lf [axis = 1]
    %lb = broadcast %le : tile<64x64xf32>
    %y = div %of, %lb
    store_view %o, %y, %m, %z [axes = [0, 1]]
  })";

void check_attention(std::int64_t s) {
  HostTensor<bf16> q = random<bf16>({s, 64}, 1), k = random<bf16>({s, 64}, 2),
                   v = random<bf16>({s, 64}, 3);
  HostTensor<f32> o({s, 64});
  const double scale = 1.4426950408889634 / 8;
  run_clean(kAttention,
            {q.view(), k.view(), v.view(), o.view(), float_arg(static_cast<float>(scale))});
  const auto at = [](const HostTensor<bf16>& t, std::int64_t i, std::int64_t d) {
    return static_cast<double>(t.storage[static_cast<std::size_t>(i * 64 + d)]);
  };
  for (std::int64_t i = 0; i < s; i += 37) {
    std::vector<double> out(64, 0.0);
    double total = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int d = 0; d < 64; ++d) score += at(q, i, d) * at(k, j, d);
      const double weight = std::exp2(score * scale);
      total += weight;
      for (int d = 0; d < 64; ++d) out[static_cast<std::size_t>(d)] += weight * at(v, j, d);
    }
    for (int d = 0; d < 64; ++d)
      ASSERT_NEAR(o.storage[static_cast<std::size_t>(i * 64 + d)],
                  out[static_cast<std::size_t>(d)] / total, 4e-3)
          << i << ", " << d;
  }
}

TEST(EvalKernel, AttentionWithARaggedLength) { check_attention(200); }

TEST(EvalKernel, AttentionOfAThousandKeysIsFastEnough) {
  const auto start = std::chrono::steady_clock::now();
  check_attention(1024);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1e3));
  EXPECT_LT(seconds.count(), 20.0);
}

}  // namespace
}  // namespace tegula::ir::eval_kernel_test
