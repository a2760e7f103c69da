// Kernels with tune() values as a user writes them: with the first values, tuned, and untuned.
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

template <class T>
auto column_sum() {
  return kernel("column_sum", [](In<T, 2> x, Out<f32, 1> y) {
    const int rows = tune("ROWS", {32, 64, 128, 256}), columns = tune("COLUMNS", {32, 64, 128});
    for (auto c : grid(y, columns)) {
      auto total = zeros<f32>(columns);
      for (auto r : steps(x.rows(), rows)) total += sum(cast<f32>(x(r, c)), axis(0));
      y(c) = total;
    }
  });
}

auto row_softmax() {
  return kernel("row_softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), tune("ROWS", {1, 2, 4, 8, 16}))) {
      const auto v = cast<f32>(x(keep(r), all)), e = exp(v - max(v, axis(1), keepdims));
      y(keep(r), all) = e / sum(e, axis(1), keepdims);
    }
  });
}

/// Runs one kernel in four ways, by number. 0: `first` values; 1: tuned quickly, 2: tuned in full,
/// at the first call of a shape; 3: untuned.
template <class K>
class InAllWays {
 public:
  InAllWays(const K& kernel, const Tuning& first)
      : untuned_(kernel), plain_(kernel.with(first)), tuned_(kernel.with({})) {}

  template <class... T>
  void run(const Stream& stream, double number, const T&... tensors) {
    if (number == 0) return plain_(stream, tensors...);
    if (number == 3) return untuned_(stream, tensors...);
    std::vector<std::int64_t> shape;
    for (const Tensor* t : {&tensors...})
      shape.insert(shape.end(), t->shape().begin(), t->shape().end());
    if (!std::exchange(is_tuned_[{shape, number}], true)) {
      TuneOptions options;
      options.budget = number == 2 ? TuneBudget::full : TuneBudget::quick;
      options.may_change_bits = true;
      tuned_.tune(options, tensors...);
    }
    tuned_(stream, tensors...);
  }

 private:
  K untuned_, plain_, tuned_;
  std::map<std::pair<std::vector<std::int64_t>, double>, bool> is_tuned_;
};

template <class T>
void run_column_sum(const Stream& stream, const Tensor& x, const Tensor& y, double number) {
  static InAllWays ways(column_sum<T>(), {{"ROWS", 32}, {"COLUMNS", 32}});
  ways.run(stream, number, x, y);
}

}  // namespace

void add_tuned_cases(std::vector<Case>& list) {
  list.push_back({"eight_lines", [](const Stream& stream, Tensors t, double number) {
                    static InAllWays ways(eight_lines(), {{"BM", 64}, {"BN", 64}, {"BK", 32}});
                    ways.run(stream, number, t[0], t[1], t[2]);
                  }});
  list.push_back({"user_column_sum", [](const Stream& stream, Tensors t, double number) {
                    if (t[0].dtype() == DType::f32)
                      run_column_sum<f32>(stream, t[0], t[1], number);
                    else
                      run_column_sum<bf16>(stream, t[0], t[1], number);
                  }});
  list.push_back({"user_softmax", [](const Stream& stream, Tensors t, double number) {
                    static InAllWays ways(row_softmax(), {{"ROWS", 1}});
                    ways.run(stream, number, t[0], t[1]);
                  }});
}

}  // namespace tegula::bench
