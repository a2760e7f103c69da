// Decoding from pages, with and without a work list, and dense decoding of as many keys: ms per
// call and GB/s of keys and values, on GPU 0.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

using namespace kernels;

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kDim = 128;

template <class Call>
void report(const Stream& stream, const std::string& name, double bytes, const Call& call) {
  constexpr int kCalls = 20;
  for (int i = 0; i < 3; ++i) call();
  Event begin, end;
  begin.record(stream);
  for (int i = 0; i < kCalls; ++i) call();
  end.record(stream);
  stream.synchronize();
  const double ms = end.ms_since(begin) / kCalls;
  std::fputs(fmt::format("{:<32} {:8.4f} ms {:6.0f} GB/s\n", name, ms, bytes / ms / 1e6).c_str(),
             stdout);
  std::fflush(stdout);
}

Tensor normal(const Dims& shape, Device gpu) {
  return Tensor::normal(shape, DType::bf16, 0, 1, 1, gpu);
}

/// Returns tables of pages in random order.
Tensor shuffled_table(std::int64_t requests, std::int64_t columns, Device gpu) {
  std::vector<i32> table(static_cast<std::size_t>(requests * columns));
  std::iota(table.begin(), table.end(), 0);
  std::ranges::shuffle(table, std::mt19937(1));
  return Tensor::from(table, {requests, columns}, gpu);
}

void decode(const Stream& stream, std::int64_t requests, std::int64_t keys) {
  const Device gpu = stream.device();
  const double bytes = 4.0 * static_cast<double>(requests * keys * kKvHeads * kDim);
  const auto name = [&](const std::string& how) {
    return fmt::format("{} requests of {}, {}", requests, keys, how);
  };
  const Tensor Q = normal({requests, kHeads, kDim}, gpu), O = Q.clone();
  const Attention dense(AttentionSpec{}), paged({.mask = masks::causal()});
  {
    const Tensor K = normal({requests, kKvHeads, keys, kDim}, gpu), V = K.clone(),
                 q = Q.reshape({requests, kHeads, 1, kDim}),
                 o = O.reshape({requests, kHeads, 1, kDim});
    report(stream, name("dense"), bytes, [&] { dense(stream, q, K, V, o, AttentionExtras{}); });
  }
  std::vector<i32> offsets(static_cast<std::size_t>(requests + 1));
  std::iota(offsets.begin(), offsets.end(), 0);
  const std::vector<i32> lengths(static_cast<std::size_t>(requests), static_cast<i32>(keys));
  for (const std::int64_t rows : {1, 8, 16, 32, 64, 256}) {
    const Tensor k = normal({requests * keys / rows, rows, kKvHeads, kDim}, gpu), v = k.clone();
    const KvCache cache{k, v, shuffled_table(requests, keys / rows, gpu)};
    KvBatch batch{Tensor::from(offsets, gpu), Tensor::from(lengths, gpu), 1};
    const auto call = [&] { paged.paged(stream, Q, cache, O, batch); };
    report(stream, name(fmt::format("pages of {}", rows)), bytes, call);
    batch.schedule = Tensor::zeros({schedule_words(requests, gpu)}, DType::i32, gpu);
    paged.schedule(stream, Q, cache, batch, batch.schedule);
    report(stream, name(fmt::format("pages of {}, list", rows)), bytes, call);
  }
}

}  // namespace
}  // namespace tegula::bench

int main() {
  const auto stream = tegula::Stream::create(tegula::Device::cuda());
  for (const auto& [requests, keys] : {std::pair{16, 8192}, {4, 16384}, {64, 8192}, {1, 131072}})
    tegula::bench::decode(stream, requests, keys);
}
