// Products of random shapes, types, layouts, tiles and plans on the simulator, whose detectors turn
// any race, deadlock, missing fence or wait into an error; sums of small integers must be exact.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

constexpr int kDraws = 200;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : bits_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool flip() { return between(0, 1) == 1; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[between(0, static_cast<int>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 bits_;
};

struct Drawn {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  MatmulConfig config;
  MatmulOptions options;
  std::string plan;

  std::string str() const {
    return Dims{m, n, k}.str() + (a_transposed ? " T" : " N") + (b_transposed ? "T " : "N ") +
           config.str() + (options.promoted ? " promoted " : " ") + plan;
  }
};

Drawn draw(Draws& d, int element_bytes) {
  Drawn out;
  const int per_step = 128 / element_bytes;
  out.m = d.flip() ? 8 * d.between(1, 25) : d.between(1, 200);
  out.n = d.between(0, 3) != 0 ? 8 * d.between(1, 25) : d.between(1, 200);
  out.k = d.between(0, 3) != 0 ? 16 * d.between(0, 30) : d.between(0, 400);
  // Mostly as wgmma takes 8 and 32 bits.
  out.a_transposed = element_bytes == 2 ? d.flip() : d.between(0, 4) == 0;
  out.b_transposed = element_bytes == 2 ? d.flip() : d.between(0, 4) != 0;
  MatmulConfig& c = out.config;
  c.bk = d.of({per_step / 2, per_step});
  c.swapped = d.between(0, 3) == 0;
  c.bm = c.swapped ? d.of({8, 16, 32}) : d.of({64, 128, 192});
  c.bn = c.swapped ? d.of({64, 128}) : 8 * d.between(1, 20);
  c.splits = d.of({1, 1, 1, 2, 3});
  c.direct = element_bytes == 2 && d.between(0, 5) == 0;
  if (d.between(0, 5) == 0) c.streamed = d.between(1, 12);
  out.options.promoted = element_bytes == 1 && d.flip();
  out.options.tf32 = element_bytes == 4;
  // Mostly with what it needs.
  c.alternate = d.between(0, 4) < 2;
  const bool in_turn = c.alternate && d.between(0, 9) != 0;
  out.plan = "stages=" + std::to_string(d.between(2, 4)) +
             " persistent=" + std::to_string(in_turn || d.between(0, 2) != 0) +
             " dynamic=" + std::to_string(!in_turn && d.between(0, 7) < 6) +
             " stage_stores=" + std::to_string(d.between(0, 1)) +
             " copy_warps=" + std::to_string(in_turn || d.flip()) + " registers=0" +
             " multicast=" + std::to_string(d.between(0, 5) != 0);
  return out;
}

Tensor integers(std::int64_t rows, std::int64_t cols, DType dtype, std::uint64_t seed,
                bool transposed) {
  const std::int64_t low = dtype == DType::u8 ? 0 : -2;
  return transposed
             ? Tensor::integers({cols, rows}, dtype, low, 3, seed, Device::sim()).transpose(0, 1)
             : Tensor::integers({rows, cols}, dtype, low, 3, seed, Device::sim());
}

std::vector<double> product(const Tensor& A, const Tensor& B) {
  const auto a = A.to_doubles(), b = B.to_doubles();
  const auto m = static_cast<std::size_t>(A.size(0)), k = static_cast<std::size_t>(A.size(1)),
             n = static_cast<std::size_t>(B.size(1));
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

/// Of the forms a product can take, how often each was seen.
using Seen = std::map<std::string, int>;

/// Runs the product by a kernel of its own; gives what explain says.
template <class T>
std::string run(const Drawn& x, const Tensor& A, const Tensor& B, const Tensor& C) {
  Env with_plan = env();
  with_plan.plan = x.plan;
  const EnvOverride scope(with_plan);
  const auto fused =
      fused_matmul<T, SumOf<T>>([](Tile acc, Index, Index) { return acc; }, x.options);
  fused.run(x.config, Stream(Device::sim()), A, B, C);
  return fused.explain(x.config);
}

template <class T>
void check(Draws& d, Seen& seen) {
  const Drawn x = draw(d, sizeof(T));
  SCOPED_TRACE(std::string(name(dtype_of<T>)) + " " + x.str());
  const Tensor A = integers(x.m, x.k, dtype_of<T>, 1, x.a_transposed),
               B = integers(x.k, x.n, dtype_of<T>, 2, x.b_transposed),
               C = Tensor::empty({x.m, x.n}, dtype_of<SumOf<T>>, Device::sim());
  const std::string said = run<T>(x, A, B, C);
  const auto want = product(A, B), got = C.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "element " << i;
  ++seen[said.find("dot by wgmma") != std::string::npos ? "wgmma" : "mma.sync or FMA"];
  ++seen[said.find("persistent=1") != std::string::npos ? "persistent" : "one tile a program"];
  ++seen[said.find("shared=1") != std::string::npos ? "operands shared" : "operands not shared"];
  if (said.find("dynamic=1") != std::string::npos) ++seen["tiles by a counter"];
  if (x.config.bm == 192 && said.find("dot by wgmma") != std::string::npos)
    ++seen["three warpgroups"];
  if (said.find("alternate=1") != std::string::npos) ++seen["tiles in turn"];
  if (x.config.streamed > 0)
    ++seen["steps dealt evenly"];
  else
    ++seen[x.config.splits > 1 ? "divided" : "whole"];
  ++seen[x.config.swapped ? "swapped" : "as it is"];
}

TEST(MatmulPlans, AreExactAndWithoutFindings) {
  const char* seed = std::getenv("TEGULA_TEST_SEED");
  Draws d(seed ? std::strtoull(seed, nullptr, 10) : 20261120);
  Seen seen;
  for (int i = 0; i < kDraws && !HasFailure(); ++i) switch (d.between(0, 5)) {
      case 0:
        check<bf16>(d, seen);
        break;
      case 1:
        check<f16>(d, seen);
        break;
      case 2:
        check<f32>(d, seen);
        break;
      case 3:
        check<f8e4m3>(d, seen);
        break;
      case 4:
        check<i8>(d, seen);
        break;
      default:
        check<u8>(d, seen);
        break;
    }
  for (const auto& [form, count] : seen) {
    std::printf("%s: %d\n", form.c_str(), count);
    EXPECT_GE(count, kDraws / 16) << form;
  }
}

}  // namespace
}  // namespace tegula
