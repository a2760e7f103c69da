// The eight-line matmul as a user writes it, with defaults and tuned.
#include <map>
#include <utility>

#include "bench/bench.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

auto eight_lines() {
  return kernel("eight_lines", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int BM = tune("BM", {64, 128, 256}), BN = tune("BN", {64, 128, 192, 256}),
              BK = tune("BK", {32, 64, 128});
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

/// A, B, C; number 0: the defaults, 1: tuned quickly, 2: tuned in full, at the first call of a
/// shape.
void run_eight_lines(const Stream& stream, Tensors t, double number) {
  static const auto tuned = eight_lines();
  static const auto plain = eight_lines().with({{"BM", 64}, {"BN", 64}, {"BK", 32}});
  if (number == 0) return plain(stream, t[0], t[1], t[2]);
  static std::map<std::pair<std::vector<std::int64_t>, double>, bool> is_tuned;
  const std::vector<std::int64_t> shape{t[0].size(0), t[1].size(1), t[0].size(1)};
  if (!is_tuned[{shape, number}]) {
    TuneOptions options;
    options.budget = number == 2 ? TuneBudget::full : TuneBudget::quick;
    options.may_change_bits = true;
    tuned.tune(options, t[0], t[1], t[2]);
    is_tuned[{shape, number}] = true;
  }
  tuned(stream, t[0], t[1], t[2]);
}

}  // namespace

void add_tuned_cases(std::vector<Case>& list) { list.push_back({"eight_lines", run_eight_lines}); }

}  // namespace tegula::bench
