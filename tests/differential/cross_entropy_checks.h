#pragma once
// Cross entropy and its gradient against references in double.
#include "tegula/kernels/cross_entropy.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

struct CrossEntropyReference {
  std::int64_t classes;
  CrossEntropyOptions options;
  Doubles logits, labels, loss = {}, lse = {}, gradient = {};

  void row(std::size_t r, double dloss) {
    const double* x = logits.data() + r * classes;
    double top = -INFINITY, total = 0, plain = 0;
    for (std::int64_t i = 0; i < classes; ++i) top = std::fmax(top, x[i]);
    for (std::int64_t i = 0; i < classes; ++i) total += std::exp(x[i] - top), plain += x[i];
    const double log_total = top + std::log(total), s = options.label_smoothing;
    const auto label = static_cast<std::int64_t>(labels[r]);
    const bool counts = label != options.ignore_index;
    lse.push_back(log_total);
    if (counts && (label < 0 || label >= classes)) {
      loss.push_back(std::nan(""));
      gradient.insert(gradient.end(), static_cast<std::size_t>(classes), std::nan(""));
      return;
    }
    loss.push_back(!counts ? 0
                           : log_total - (1 - s) * x[label] - (s > 0 ? s * plain / classes : 0) +
                                 options.z_loss * log_total * log_total);
    for (std::int64_t i = 0; i < classes; ++i) {
      const double p = std::exp(x[i] - log_total) * (1 + 2 * options.z_loss * log_total);
      gradient.push_back(counts ? dloss * (p - s / classes - (i == label ? 1 - s : 0)) : 0);
    }
  }
};

inline void check_cross_entropy(const Tensor& logits, const Tensor& labels,
                                const CrossEntropyOptions& options, bool is_aligned) {
  const Device device = logits.device();
  const Stream stream(device);
  const std::int64_t rows = logits.size(0);
  const auto fresh = [&] { return unwritten_rows({rows}, DType::f32, device); };
  const Tensor loss = fresh(), lse = fresh(), dloss = random_rows({rows}, DType::f32, 5, device);
  cross_entropy(stream, logits, labels, loss, lse, options);
  CrossEntropyReference want{logits.size(1), options, logits.to_doubles(), labels.to_doubles()};
  const Doubles weights = dloss.to_doubles();
  for (std::int64_t r = 0; r < rows; ++r) want.row(r, weights[r]);
  expect_elements(lse, want.lse, 1, 2);
  expect_elements(loss, want.loss, 4, 2);
  const Tensor dlogits = unwritten_rows(logits.shape(), logits.dtype(), device, is_aligned);
  cross_entropy_backward(stream, logits, labels, lse, dloss, dlogits, options);
  expect_elements(dlogits, want.gradient, 0.02);
  cross_entropy_backward(stream, logits, labels, lse, dloss, logits, options);
  expect_elements(logits, dlogits.to_doubles(), 0, 0);
}

/// Labels of a row each, some of which do not count.
inline Tensor labels_of(std::int64_t rows, std::int64_t classes, DType dtype, Device device) {
  Doubles labels(rows);
  for (std::int64_t r = 0; r < rows; ++r)
    labels[r] = r % 4 == 3     ? -100
                : classes == 0 ? 0
                               : static_cast<double>((r * 7919 + classes - 1) % classes);
  return Tensor::from(labels, {rows}, Device::cpu()).cast(dtype).to(device);
}

inline void check_cross_entropies(Device device) {
  const CrossEntropyOptions plain, smoothed{.label_smoothing = 0.1f, .z_loss = 1e-3f};
  for_row_shapes(
      {{1, 1}, {0, 64}, {3, 0}, {9, 7}, {5, 1000}, {4, 8192}, {3, 20001}},
      [&](std::int64_t rows, std::int64_t classes, DType dtype, bool is_aligned) {
        for (const CrossEntropyOptions& options : {plain, smoothed})
          check_cross_entropy(
              random_rows({rows, classes}, dtype, 1, device, is_aligned),
              labels_of(rows, classes, dtype == DType::f16 ? DType::i64 : DType::i32, device),
              options, is_aligned);
      });
}

}  // namespace tegula::test
