#include "bench/choices.h"

#include <map>
#include <memory>
#include <string>

#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

using SpecOf = AttentionSpec (*)(Tensors);

/// One attention for each tensor that the spec captures; calls of the same reuse what was compiled.
Case attention_form(const char* name, SpecOf spec) {
  const auto made = std::make_shared<std::map<void*, Attention>>();
  return {name, [=](const Stream& s, Tensors t, double) {
            void* const captured = t.size() > 5 ? t[5].data() : nullptr;
            auto at = made->find(captured);
            if (at == made->end()) at = made->emplace(captured, Attention(spec(t))).first;
            at->second(s, t[0], t[1], t[2], t[3]);
          }};
}

AttentionSpec biased(Tensors t) { return {.mask = masks::causal(), .score = scores::bias(t[5])}; }
AttentionSpec biased_by_tma(Tensors t) {
  AttentionSpec spec = biased(t);
  spec.tma_loads = true;
  return spec;
}
AttentionSpec biased_by_tma_in_wide_steps(Tensors t) {
  AttentionSpec spec = biased_by_tma(t);
  spec.tiles = {128, 128};
  return spec;
}

AttentionSpec documents(Tensors t) { return {.mask = masks::document(t[5])}; }
AttentionSpec documents_longest_first(Tensors t) {
  AttentionSpec spec = documents(t);
  spec.longest_first = true;
  return spec;
}

AttentionSpec decoded(Tensors t) {
  AttentionSpec spec = documents(t);
  spec.queries_at_end = true;
  return spec;
}
AttentionSpec decoded_over_all_keys(Tensors t) {
  AttentionSpec spec = decoded(t);
  spec.range = [](const Tile&, const Tile&, const Tile& length) {
    return KvRange{full<i32>(0), length};
  };
  return spec;
}

AttentionSpec softmax_weights(Tensors) { return {.mask = masks::causal()}; }
AttentionSpec sigmoid_weights(Tensors) {
  AttentionSpec spec = softmax_weights({});
  spec.score = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return rcp(1.0f + exp(-s));
  };
  spec.weighting = Weighting::scores;
  return spec;
}
AttentionSpec stick_weights(Tensors) {
  AttentionSpec spec = softmax_weights({});
  spec.weighting = Weighting::stick_breaking;
  return spec;
}

/// The eight-line kernel in tiles of `rows` x 128, under fields of the plan.
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
Case library_product(const char* name) {
  return {name, [](const Stream& s, Tensors t, double) { matmul(s, t[0], t[1], t[2]); }};
}

/// Four programs a tile, each of which adds what it has of k to C.
Case sums_in_memory(const char* name, bool by_tma) {
  constexpr int kParts = 4;
  const auto product =
      kernel("sums_in_memory", [by_tma](In<bf16, 2> A, In<bf16, 2> B, InOut<f32, 2> C) {
        const Space space({full<i32>(kParts), C.rows(), C.cols()});
        for (auto [part, m, n] : grid(space, 1, 128, 128, tma_store(by_tma))) {
          auto acc = zeros<f32>(128, 128);
          for (auto k : steps(A.cols(), 64).part(part.first(), kParts))
            acc = dot(A(m, k), B(k, n), acc);
          atomic_add(C(m, n), acc);
        }
      });
  return {name, [product](const Stream& s, Tensors t, double) { product(s, t[0], t[1], t[2]); }};
}

}  // namespace

void add_choices(std::vector<Case>& list) {
  list.push_back(attention_form("bias/elements", biased));
  list.push_back(attention_form("bias/tma", biased_by_tma));
  list.push_back(attention_form("bias/tma_wide", biased_by_tma_in_wide_steps));
  list.push_back(attention_form("order/as_they_come", documents));
  list.push_back(attention_form("order/longest_first", documents_longest_first));
  list.push_back(attention_form("decode/lists", decoded));
  list.push_back(attention_form("decode/all_keys", decoded_over_all_keys));
  list.push_back(attention_form("weights/softmax", softmax_weights));
  list.push_back(attention_form("weights/sigmoid", sigmoid_weights));
  list.push_back(attention_form("weights/sticks", stick_weights));
  list.push_back(product_form("few_rows/mma", 16, "swap=0"));
  list.push_back(product_form("few_rows/swapped", 16, "swap=1"));
  list.push_back(library_product("few_rows/library"));
  list.push_back(product_form("long_k/whole", 128, "splits=1"));
  list.push_back(product_form("long_k/splits2", 128, "splits=2"));
  list.push_back(product_form("long_k/splits4", 128, "splits=4"));
  list.push_back(product_form("long_k/splits8", 128, "splits=8"));
  list.push_back(library_product("long_k/library"));
  list.push_back(sums_in_memory("sums_in_memory/elements", false));
  list.push_back(sums_in_memory("sums_in_memory/tma", true));
}

}  // namespace tegula::bench
