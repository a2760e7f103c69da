// Decoding from a paged KV cache: attention, its work list, and storing the keys of a step.
#include <vector>

#include "bench/bench.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/kernels/masks.h"

namespace tegula::bench {
using namespace kernels;
namespace {

const Attention& causal() {
  static const Attention made({.mask = masks::causal()});
  return made;
}

/// Tensors: Q, pages of K, pages of V, table, offsets, lengths, list, O.
struct PagedCall {
  PagedCall(Tensors t, double queries)
      : Q(t[0]),
        cache{t[1], t[2], t[3]},
        batch{t[4], t[5], static_cast<std::int64_t>(queries), t[6]},
        O(t[7]) {}

  Tensor Q;
  KvCache cache;
  KvBatch batch;
  Tensor O;
};

}  // namespace

/// The number of each case is the bound of the queries per request.
void add_serving_cases(std::vector<Case>& list) {
  list.push_back({"paged_attention", [](const Stream& s, Tensors t, double queries) {
                    const PagedCall call(t, queries);
                    causal().paged(s, call.Q, call.cache, call.O, call.batch);
                  }});
  list.push_back({"paged_schedule", [](const Stream& s, Tensors t, double queries) {
                    const PagedCall call(t, queries);
                    causal().schedule(s, call.Q, call.cache, call.batch, call.batch.schedule);
                  }});
  // Keys and values of the step, pages of K, pages of V, table, offsets, lengths.
  list.push_back({"kv_append", [](const Stream& s, Tensors t, double queries) {
                    append(s, t[0], t[1], {t[2], t[3], t[4]},
                           {t[5], t[6], static_cast<std::int64_t>(queries)});
                  }});
}

}  // namespace tegula::bench
