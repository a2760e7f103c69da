// Cross entropy: a program reads the logits of a row in blocks of classes.
#include "tegula/kernels/cross_entropy.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "kernels/float_types.h"
#include "kernels/online_exponentials.h"
#include "kernels/row_tiles.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr float kLn2 = std::numbers::ln2_v<float>;
/// Classes per block: 32 per thread of eight or four warps.
constexpr std::int64_t kClassesPerStep = 8192, kClassesPerTile = 4096;

/// Parameters of a row's loss, apart from its logits.
struct LossTerms {
  Scalar<i64> ignore_index;
  Scalar<f32> label_smoothing, z_loss;
};

/// The label of a row, whether it is not ignored, and whether it is a valid class. An invalid label
/// that is not ignored gives a loss and a gradient of NaN, so that the error is visible.
struct Label {
  Tile index, counts, is_class;
};
template <class L>
Label label_of(const In<L, 1>& labels, const LossTerms& terms, const Index& r,
               const Tile& classes) {
  const Tile label = cast<i64>(labels(r)), counts = label != terms.ignore_index;
  return {where(counts, label, 0), counts, label >= 0 && label < cast<i64>(classes)};
}

template <class T, class L>
auto loss_forward_kernel() {
  return kernel("cross_entropy", [](In<T, 2> logits, In<L, 1> labels, Out<f32, 1> loss,
                                    Out<f32, 1> lse, LossTerms terms, bool is_smoothed, int block) {
    for (auto r : grid(rows(logits), 1)) {
      OnlineExponentials exponentials(block);
      Tile plain = zeros<f32>(block);
      for (auto c : steps(logits.cols(), block)) {
        const Tile x = cast<f32>(logits(r, c));
        if (is_smoothed) plain += x;
        exponentials.add(fill_absent(x, -inf));
      }
      const auto [top, total] = exponentials.of_row();
      const Tile log_total = top + log2(total) * kLn2, classes = cast<f32>(logits.cols());
      const auto [label, counts, is_class] = label_of(labels, terms, r, logits.cols());
      Tile of_row = log_total - cast<f32>(logits(r, label));
      if (is_smoothed)
        of_row += terms.label_smoothing * (cast<f32>(logits(r, label)) - sum(plain) / classes);
      of_row += terms.z_loss * log_total * log_total;
      loss(r) = where(counts, where(is_class, of_row, nan), 0.0f);
      lse(r) = log_total;
    }
  });
}

/// Returns one tile of the gradient.
template <class L>
Tile gradient_of(const Tile& x, const Index& r, const Index& c, const In<L, 1>& labels,
                 const In<f32, 1>& lse, const In<f32, 1>& dloss, const LossTerms& terms,
                 const Tile& classes) {
  const auto [label, counts, is_class] = label_of(labels, terms, r, classes);
  const Tile log_total = lse(r), share = terms.label_smoothing / cast<f32>(classes);
  const Tile p = exp_above(cast<f32>(x), log_total);
  const Tile weight = 1.0f + 2.0f * terms.z_loss * log_total;
  // Both are computed once per row; 32 bits suffice for the column of a class.
  const Tile column = cast<i32>(where(is_class, label, -1)), scale = where(is_class, dloss(r), nan);
  const Tile target = where(cast<i32>(c.indices()) == column, 1.0f - terms.label_smoothing, 0.0f);
  return where(counts, (p * weight - share - target) * scale, 0.0f);
}

template <class T, class L>
auto loss_backward_kernel() {
  return kernel("cross_entropy_backward", [](In<T, 2> logits, In<L, 1> labels, In<f32, 1> lse,
                                             In<f32, 1> dloss, Out<T, 2> dlogits, LossTerms terms,
                                             int block) {
    for (auto [r, c] : grid(dlogits, 1, block))
      dlogits(r, c) = gradient_of(logits(r, c), r, c, labels, lse, dloss, terms, logits.cols());
  });
}

template <class T, class L>
auto backward_in_place() {
  return kernel(
      "cross_entropy_backward_in_place", [](InOut<T, 2> logits, In<L, 1> labels, In<f32, 1> lse,
                                            In<f32, 1> dloss, LossTerms terms, int block) {
        for (auto [r, c] : grid(logits, 1, block))
          logits(r, c) = gradient_of(logits(r, c), r, c, labels, lse, dloss, terms, logits.cols());
      });
}

template <class T, class L>
struct LossKernels {
  decltype(loss_forward_kernel<T, L>()) forward = loss_forward_kernel<T, L>();
  decltype(loss_backward_kernel<T, L>()) backward = loss_backward_kernel<T, L>();
  decltype(backward_in_place<T, L>()) in_place = backward_in_place<T, L>();
};

/// Calls `run` with the kernels for the types of the tensors.
template <class Run>
void for_loss_types(const char* name, const Tensor& logits, const Tensor& labels, const Run& run) {
  for_float(name, logits.dtype(), [&]<class T>(T) {
    const auto with_labels = [&]<class L>(L) {
      static const auto* const kernels = new LossKernels<T, L>;  // never destroyed
      run(*kernels);
    };
    labels.dtype() == DType::i64 ? with_labels(i64()) : with_labels(i32());
  });
}

void check_cross_entropy(const char* name, const Tensor& logits, const Tensor& labels,
                         const CrossEntropyOptions& options) {
  require_rank(name, "logits", logits, 2);
  require_tensor(name, "labels", labels, labels.dtype() == DType::i64 ? DType::i64 : DType::i32,
                 {logits.size(0)});
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1))
    throw_argument_error(ErrorId::kernel_argument, name, "label_smoothing", options.label_smoothing,
                         "a number from 0 to below 1");
}

int block_of(const Tensor& logits, std::int64_t largest) {
  const auto classes =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(logits.size(1), 2, largest));
  return static_cast<int>(std::bit_ceil(classes));
}

}  // namespace

void cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& labels,
                   const Tensor& loss, const Tensor& lse, const CrossEntropyOptions& options,
                   Loc at) {
  constexpr const char* kName = "cross_entropy";
  const detail::CallPlace here(at);
  check_cross_entropy(kName, logits, labels, options);
  require_tensor(kName, "loss", loss, DType::f32, {logits.size(0)});
  require_tensor(kName, "lse", lse, DType::f32, {logits.size(0)});
  const auto& [ignore_index, smoothing, z_loss] = options;
  for_loss_types(kName, logits, labels, [&](const auto& kernels) {
    kernels.forward(stream, logits, labels, loss, lse, ignore_index, smoothing, z_loss,
                    smoothing != 0, block_of(logits, kClassesPerStep));
  });
}

void cross_entropy_backward(const Stream& stream, const Tensor& logits, const Tensor& labels,
                            const Tensor& lse, const Tensor& dloss, const Tensor& dlogits,
                            const CrossEntropyOptions& options, Loc at) {
  constexpr const char* kName = "cross_entropy_backward";
  const detail::CallPlace here(at);
  check_cross_entropy(kName, logits, labels, options);
  require_tensor(kName, "lse", lse, DType::f32, {logits.size(0)});
  require_tensor(kName, "dloss", dloss, DType::f32, {logits.size(0)});
  require_tensor(kName, "dlogits", dlogits, logits.dtype(), logits.shape());
  const auto& [ignore_index, smoothing, z_loss] = options;
  const bool in_place = dlogits.data() == logits.data() && dlogits.strides() == logits.strides();
  for_loss_types(kName, logits, labels, [&](const auto& kernels) {
    const int block = block_of(logits, kClassesPerTile);
    if (in_place)
      kernels.in_place(stream, logits, labels, lse, dloss, ignore_index, smoothing, z_loss, block);
    else
      kernels.backward(stream, logits, labels, lse, dloss, dlogits, ignore_index, smoothing, z_loss,
                       block);
  });
}

}  // namespace tegula::kernels
