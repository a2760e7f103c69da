#pragma once
// Attention called again and again on the GPU by each back end, many specifications at once: the
// bits of all calls, which are to be the same.
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/env.h"
#include "support/hash.h"
#include "tests/differential/attention_expected.h"

namespace tegula::test {

/// A specification, and what its mask is in plain C++ where results are compared with fp64.
struct RepeatedCase {
  std::string name;
  AttentionSpec spec;
  std::function<bool(int q, int kv)> want;
};

/// The results of one case's calls by one back end.
struct RepeatedResult {
  Hash128 bits;       ///< hash of the output and the logarithms of the row sums
  std::string fault;  ///< empty where all calls gave the same
  std::vector<double> output;
};

/// Bytes of a tensor of the device in one row.
template <Element T>
std::string bytes_of(const Tensor& t) {
  const std::vector<T> values = t.to_vector<T>();
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Every call writes over other numbers, so that what it leaves out shows.
inline RepeatedResult call_again(const RepeatedCase& c, const AttentionInputs& in, int calls) try {
  RepeatedResult r;
  const Device device = in.Q.device();
  const Attention attention(c.spec);
  const Stream stream = Stream::create(device);
  const Tensor O = Tensor::empty(in.Q.shape(), DType::bf16, device),
               Lse = Tensor::empty({in.batch, in.heads, in.queries}, DType::f32, device);
  for (int call = 0; call < calls; ++call) {
    O.fill(call), Lse.fill(call);
    Stream(device).synchronize();
    attention(stream, in.Q, in.K, in.V, O, Lse);
    stream.synchronize();
    const Hash128 bits = hash128(bytes_of<bf16>(O) + bytes_of<f32>(Lse));
    if (call == 0) r.bits = bits;
    if (bits.high == r.bits.high && bits.low == r.bits.low) continue;
    r.fault = "call " + std::to_string(call) + " gave other bits than the first";
    break;
  }
  r.output = O.to_doubles();
  return r;
} catch (const std::exception& e) {
  return {{}, e.what(), {}};
}

/// All cases by one back end, on as many threads as there are cores: compiling takes most of the
/// time.
inline std::vector<RepeatedResult> call_all_again(const std::vector<RepeatedCase>& cases,
                                                  const AttentionInputs& in, int calls,
                                                  const char* back_end) {
  Env wanted = env();
  wanted.backend = back_end;
  const EnvOverride scope(wanted);
  std::vector<RepeatedResult> results(cases.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++)
      results[i] = call_again(cases[i], in, calls);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::min(16u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return results;
}

}  // namespace tegula::test
