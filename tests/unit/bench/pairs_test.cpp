// Pairs of cases of attention through the C interface, on tensors that are borrowed, against
// enumeration.
#include <gtest/gtest.h>

#include <functional>

#include "bench/bench.h"

namespace tegula::bench::pairs_test {
namespace {

constexpr int kQueries = 113, kKeys = 203;

/// Tensors as another library hands them over.
class Borrowed {
 public:
  explicit Borrowed(const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) capsules_.push_back(t.to_dlpack_unversioned());
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    for (void* c : capsules_) {
      auto* tensor = static_cast<dlpack::ManagedTensor*>(c);
      tensor->deleter(tensor);
    }
  }
  void* const* pointers() const { return capsules_.data(); }
  int count() const { return static_cast<int>(capsules_.size()); }

 private:
  std::vector<void*> capsules_;
};

std::vector<Tensor> tensors() {
  const auto of = [](Dims shape, DType dtype) {
    return Tensor::zeros(shape, dtype, Device::cpu());
  };
  std::vector<i32> ids(kKeys);
  for (int i = 0; i < kKeys; ++i) ids[static_cast<std::size_t>(i)] = i / 70;
  const Dims q{2, 3, kQueries, 64}, k{2, 3, kKeys, 64};
  return {of(q, DType::bf16),
          of(k, DType::bf16),
          of(k, DType::bf16),
          of(q, DType::bf16),
          of({2, 3, kQueries}, DType::f32),
          Tensor::from(ids, Device::cpu()),
          Tensor::from(std::vector<i32>{0, 70, 140}, Device::cpu())};
}

TEST(BenchPairs, AreThoseOfTheCasesMask) {
  struct Wanted {
    const char* name;
    double number;
    std::function<bool(int q, int kv)> sees;
    std::int64_t blocks;  ///< kv blocks of the one tile of queries
  };
  const Wanted wanted[]{
      {"attention_full", 0, [](int, int) { return true; }, 2},
      {"attention_causal", 0, [](int q, int kv) { return q >= kv; }, 1},
      {"attention_window", 30, [](int q, int kv) { return q >= kv && q - kv <= 30; }, 1},
      {"attention_prefix", 150, [](int q, int kv) { return kv < 150 || q >= kv; }, 2},
      {"attention_document", 0, [](int q, int kv) { return q >= kv && q / 70 == kv / 70; }, 1},
      {"attention_softcap_causal", 30, [](int q, int kv) { return q >= kv; }, 1}};
  const std::vector<Tensor> arguments = tensors();
  const Borrowed borrowed(arguments);
  for (const Wanted& w : wanted) {
    SCOPED_TRACE(w.name);
    TegulaBenchPairs got{};
    ASSERT_EQ(tegula_bench_pairs(w.name, borrowed.pointers(), borrowed.count(), w.number, &got), 0)
        << tegula_bench_error();
    std::int64_t kept = 0, cover = 0;
    for (int q0 = 0; q0 < kQueries; q0 += 64)
      for (int kv0 = 0; kv0 < kKeys; kv0 += 8) {
        std::int64_t in_block = 0;
        for (int q = q0; q < std::min(kQueries, q0 + 64); ++q)
          for (int kv = kv0; kv < std::min(kKeys, kv0 + 8); ++kv) in_block += w.sees(q, kv);
        kept += in_block;
        cover += in_block > 0 ? 64 * 8 : 0;
      }
    EXPECT_EQ(got.kept, kept);
    EXPECT_EQ(got.cover, cover);
    EXPECT_EQ(got.tile_queries, 128);
    EXPECT_EQ(got.computed, w.blocks * got.tile_queries * got.tile_keys);
  }
}

TEST(BenchPairs, OtherKernelsAreAnError) {
  TegulaBenchPairs got{};
  EXPECT_EQ(tegula_bench_pairs("softmax", nullptr, 0, 0, &got), 1);
  EXPECT_NE(std::string(tegula_bench_error()).find("is not attention"), std::string::npos);
}

}  // namespace
}  // namespace tegula::bench::pairs_test
