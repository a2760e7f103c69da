// User kernels with the names of library functions, in a file that includes all headers of
// the library and `using namespace tegula`.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/adamw.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/block_list.h"
#include "tegula/kernels/block_patterns.h"
#include "tegula/kernels/call_place.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/cross_entropy.h"
#include "tegula/kernels/device_histogram.h"
#include "tegula/kernels/device_scan.h"
#include "tegula/kernels/device_searchsorted.h"
#include "tegula/kernels/device_segment_sum.h"
#include "tegula/kernels/device_select.h"
#include "tegula/kernels/device_sort.h"
#include "tegula/kernels/device_topk.h"
#include "tegula/kernels/embedding.h"
#include "tegula/kernels/export.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/gated_activation.h"
#include "tegula/kernels/hadamard.h"
#include "tegula/kernels/linear_cross_entropy.h"
#include "tegula/kernels/log_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/matmul_kernels.h"
#include "tegula/kernels/moe.h"
#include "tegula/kernels/moe_balance.h"
#include "tegula/kernels/moe_routers.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/quantise.h"
#include "tegula/kernels/rope.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/softmax.h"
#include "tegula/kernels/vector_add.h"
#include "tegula/tegula.h"
using namespace tegula;

// README's first kernel.
static auto softmax = kernel("softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
  for (auto r : grid(rows(y), 1)) {
    auto v = cast<f32>(x(r, all));
    auto e = exp(v - max(v));
    y(r, all) = e / sum(e);
  }
});

static auto doubled(const char* name) {
  return kernel(name, [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(rows(y), 32)) y(i) = x(i) * 2.f;
  });
}
static auto matmul = doubled("matmul");
static auto rope = doubled("rope");
static auto attention = doubled("attention");
static auto moe = doubled("moe");
static auto rms_norm = doubled("rms_norm");
static auto layer_norm = doubled("layer_norm");
static auto sort_rows = doubled("sort_rows");
static auto cross_entropy = doubled("cross_entropy");
static auto embedding = doubled("embedding");
static auto hadamard = doubled("hadamard");
static auto copy = doubled("copy");
static auto device_sort = doubled("device_sort");
static auto swiglu = doubled("swiglu");
static auto router = doubled("router");
static auto vector_add = doubled("vector_add");
static auto masks = doubled("masks");

// Functions of the language are in tegula itself: a kernel with such a name needs a namespace.
namespace own {
static auto dropout = doubled("dropout");
static auto histogram = doubled("histogram");
static auto interleave = doubled("interleave");
static auto searchsorted = doubled("searchsorted");

static void call_all(const Tensor& x, const Tensor& y) {
  dropout(x, y);
  histogram(x, y);
  interleave(x, y);
  searchsorted(x, y);
}
}  // namespace own

TEST(Names, SoftmaxOfReadme) {
  const Tensor x = Tensor::normal({3, 9}, DType::bf16, 0, 1, 1, Device::sim()),
               y = Tensor::empty({3, 9}, DType::bf16, Device::sim()),
               of_library = Tensor::empty({3, 9}, DType::bf16, Device::sim());
  softmax(x, y);
  kernels::softmax(Stream(Device::sim()), x, of_library);
  const auto mine = y.to_doubles(), expected = of_library.to_doubles();
  for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_NEAR(mine[i], expected[i], 1e-2) << i;
}

TEST(Names, KernelsOfUser) {
  const Tensor x = Tensor::from(std::vector<f32>{1, 2, 3}, Device::cpu()),
               y = Tensor::empty({3}, DType::f32, Device::cpu());
  matmul(x, y);
  rope(x, y);
  attention(x, y);
  moe(x, y);
  rms_norm(x, y);
  layer_norm(x, y);
  sort_rows(x, y);
  cross_entropy(x, y);
  embedding(x, y);
  hadamard(x, y);
  copy(x, y);
  device_sort(x, y);
  swiglu(x, y);
  router(x, y);
  vector_add(x, y);
  masks(x, y);
  own::call_all(x, y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{2, 4, 6}));
}

TEST(Names, NamesOfLibrary) {
  const auto attend =
      kernels::attention({.mask = kernels::masks::causal(), .score = kernels::scores::softcap(30)});
  const auto layer = kernels::moe({.router = kernels::routers::mixtral(2), .experts = 8});
  EXPECT_EQ(layer.options().experts, 8);
}
