#include "bench/choices.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::bench {
using namespace kernels;
namespace {

using CapturedSetup = std::function<AttentionSetup(Tensors)>;

/// Caches one attention per captured tensor, so that later calls reuse the compiled kernels. The
/// key includes an extent, because freed memory may be reused for other extents.
Case attention_form(const char* name, const CapturedSetup& setup) {
  const auto made = std::make_shared<std::map<std::pair<void*, std::int64_t>, Attention>>();
  return {name, [=](const Stream& s, Tensors t, double) {
            const auto captured = t.size() > 5 ? std::pair(t[5].data(), t[5].size(-1))
                                               : std::pair<void*, std::int64_t>();
            auto at = made->find(captured);
            if (at == made->end()) at = made->emplace(captured, setup(t).made()).first;
            at->second(s, t[0], t[1], t[2], t[3]);
          }};
}

AttentionSpec biased_by_tma(Tensors t) {
  return {.mask = masks::causal(), .score = scores::bias(t[5])};
}
AttentionSetup biased_by_tma_in_narrow_steps(Tensors t) {
  return {biased_by_tma(t), {.tiles = AttentionTileShape{128, 64}}};
}
AttentionSetup biased(Tensors t) { return {biased_by_tma(t), {.tma_aux_loads = false}}; }

template <bool longest_first>
AttentionSetup documents(Tensors t) {
  return {AttentionSpec{.mask = masks::document(t[5])}, {.longest_first = longest_first}};
}

AttentionSetup decoded(Tensors t) {
  AttentionSetup setup = documents<false>(t);
  setup.spec.align_bottom_right = true;
  return setup;
}
AttentionSetup decoded_over_all_keys(Tensors t) {
  AttentionSetup setup = decoded(t);
  setup.spec.kv_range = [](const Tile&, const Tile&, const Tile& length) {
    return KvRange{full<i32>(0), length};
  };
  return setup;
}

AttentionSpec softmax_weights(Tensors) { return {.mask = masks::causal()}; }
AttentionSpec sigmoid_weights(Tensors) {
  AttentionSpec spec = softmax_weights({});
  spec.score = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return sigmoid(s);
  };
  spec.weighting = AttentionNormalization::none;
  return spec;
}
AttentionSetup sigmoid_weights_in_narrow_steps(Tensors) {
  return {sigmoid_weights({}), {.tiles = AttentionTileShape{128, 64}}};
}
AttentionSpec stick_weights(Tensors) {
  AttentionSpec spec = softmax_weights({});
  spec.weighting = AttentionNormalization::stick_breaking;
  return spec;
}

/// Returns the eight-line kernel with tiles of `rows` x 128 and the given plan fields.
Case product_form(const char* name, int rows, const char* fields) {
  const auto product = kernel("product", [rows](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    for (auto [m, n] : grid(C, rows, 128)) {
      auto acc = zeros<f32>(rows, 128);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  return {name, [k = product.with_plan(fields)](const Stream& s, Tensors t, double) {
            k(s, t[0], t[1], t[2]);
          }};
}
/// Returns the eight-line kernel with tiles of 128 x 128, whose k-iterations are divided over
/// `ctas` CTAs of a cluster.
Case split_form(const char* name, int ctas) {
  const auto product = kernel("product", [ctas](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    for (auto [m, n] : grid(C, 128, 128, cluster(ctas))) {
      auto acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64).chunk(cluster_rank(), ctas))
        acc = dot(A(m, k), B(k, n), acc);
      C(cluster_slice(m), n) = cluster_reduce_scatter(acc, axis(0));
    }
  });
  return {name, [product](const Stream& s, Tensors t, double) { product(s, t[0], t[1], t[2]); }};
}
Case library_product(const char* name) {
  return {name, [](const Stream& s, Tensors t, double) { matmul(s, t[0], t[1], t[2]); }};
}

/// Four programs per tile; each adds its part of k to C.
Case sums_in_memory(const char* name, const char* fields) {
  constexpr int kParts = 4;
  const auto product = kernel("sums_in_memory", [](In<bf16, 2> A, In<bf16, 2> B, InOut<f32, 2> C) {
    const GridSpace space({full<i32>(kParts), C.rows(), C.cols()});
    for (auto [part, m, n] : grid(space, 1, 128, 128)) {
      auto acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64).chunk(part.first(), kParts))
        acc = dot(A(m, k), B(k, n), acc);
      atomic_add(C(m, n), acc);
    }
  });
  return {name, [k = product.with_plan(fields)](const Stream& s, Tensors t, double) {
            k(s, t[0], t[1], t[2]);
          }};
}

}  // namespace

void add_choices(std::vector<Case>& list) {
  list.push_back(attention_form("bias/elements", biased));
  list.push_back(attention_form("bias/tma", biased_by_tma));
  list.push_back(attention_form("bias/tma_narrow", biased_by_tma_in_narrow_steps));
  list.push_back(attention_form("order/as_they_come", documents<false>));
  list.push_back(attention_form("order/longest_first", documents<true>));
  list.push_back(attention_form("decode/lists", decoded));
  list.push_back(attention_form("decode/all_keys", decoded_over_all_keys));
  list.push_back(attention_form("weights/softmax", softmax_weights));
  list.push_back(attention_form("weights/sigmoid", sigmoid_weights));
  list.push_back(attention_form("weights/sigmoid_narrow", sigmoid_weights_in_narrow_steps));
  list.push_back(attention_form("weights/sticks", stick_weights));
  list.push_back(product_form("few_rows/mma", 16, "swap_ab=0"));
  list.push_back(product_form("few_rows/swapped", 16, "swap_ab=1"));
  list.push_back(library_product("few_rows/library"));
  list.push_back(split_form("long_k/whole", 1));
  list.push_back(split_form("long_k/splits2", 2));
  list.push_back(split_form("long_k/splits4", 4));
  list.push_back(split_form("long_k/splits8", 8));
  list.push_back(library_product("long_k/library"));
  list.push_back(sums_in_memory("sums_in_memory/elements", "tma_store=0"));
  list.push_back(sums_in_memory("sums_in_memory/tma", "tma_store=1"));
}

}  // namespace tegula::bench
