// Every public call of the kernel library refuses tensors that it cannot use: others than it takes,
// on another device, or none at all. Each error is a CompileError about a line of this file, which
// calls, and says what to do.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tegula/kernels/adamw.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/block_patterns.h"
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
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/gated_activation.h"
#include "tegula/kernels/hadamard.h"
#include "tegula/kernels/linear_cross_entropy.h"
#include "tegula/kernels/log_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/moe.h"
#include "tegula/kernels/moe_balance.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/quantise.h"
#include "tegula/kernels/rope.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/softmax.h"
#include "tegula/kernels/vector_add.h"
#include "tegula/tegula.h"

namespace tegula::library_places_test {
using namespace kernels;
namespace {

using Tensors = std::vector<Tensor>;

Stream stream() { return Stream(Device::cpu()); }

Tensor of(const Dims& shape, DType dtype = DType::bf16, Device device = Device::cpu()) {
  return Tensor::zeros(shape, dtype, device);
}
Tensor f32s(const Dims& shape) { return of(shape, DType::f32); }
Tensor i32s(const Dims& shape) { return of(shape, DType::i32); }

/// A call, the tensors that it takes, and the numbers of those that it may go without.
struct Call {
  std::string name;
  Tensors tensors;
  std::function<void(const Tensors& t)> run;
  std::set<std::size_t> optional = {};
};

/// The error is one of a caller's: at a line of this file, with a hint. False where there is none.
template <class F>
bool is_refused(const F& f) {
  try {
    f();
    return false;
  } catch (const CompileError& e) {
    for (const Diagnostic& d : e.diagnostics()) {
      EXPECT_STREQ(d.loc.file, __FILE__) << e.what();
      EXPECT_FALSE(d.code.empty() || d.hint.empty()) << e.what();
    }
  } catch (const std::exception& e) {
    ADD_FAILURE() << "no CompileError: " << e.what();
  }
  return true;
}

Dims with_one_more(const Dims& shape) {
  Dims more{1};
  for (const std::int64_t extent : shape) more.push_back(extent);
  return more;
}

/// Replaces each tensor by others, one at a time.
void check(const Call& call) {
  SCOPED_TRACE(call.name);
  EXPECT_FALSE(is_refused([&] { call.run(call.tensors); })) << "the call itself";
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const Tensor& t = call.tensors[i];
    const auto is_refused_with = [&](const Tensor& other) {
      Tensors all = call.tensors;
      all[i] = other;
      return is_refused([&] { call.run(all); });
    };
    SCOPED_TRACE("tensor " + std::to_string(i) + ", " + t.str());
    EXPECT_TRUE(is_refused_with({}) || call.optional.contains(i)) << "none";
    EXPECT_TRUE(is_refused_with(of(t.shape(), t.dtype(), Device::sim()))) << "another device";
    EXPECT_TRUE(is_refused_with(of(t.shape(), DType::i16))) << "another type";
    EXPECT_TRUE(is_refused_with(of(with_one_more(t.shape()), t.dtype()))) << "another rank";
    // Some calls may write what they read, and some tensors are not written.
    for (const Tensor& other : call.tensors)
      if (other.shape() == t.shape() && other.dtype() == t.dtype()) is_refused_with(other);
  }
}

TEST(LibraryPlaces, Matmuls) {
  const Tensors t{of({32, 64}), of({64, 32}), of({32, 32})};
  check({"matmul", t, [](auto& t) { matmul(stream(), t[0], t[1], t[2]); }});
  check({"matmul on the default stream", t, [](auto& t) { matmul(t[0], t[1], t[2]); }});
  check({"matmul of a configuration", t,
         [](auto& t) { matmul(stream(), t[0], t[1], t[2], MatmulConfig{.bm = 64, .bn = 64}); }});
  const auto fused = fused_matmul<bf16, bf16>([](Tile acc, Index, Index n, In<bf16, 1> bias) {
    return acc + expand(cast<f32>(bias(n)), 0);
  });
  check({"fused_matmul", {t[0], t[1], t[2], of({32})}, [=](auto& t) {
           fused(stream(), t[0], t[1], t[2], t[3]);
         }});
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; });
  check({"gated_matmul", {t[0], t[1], of({64, 32}), t[2]}, [=](auto& t) {
           gated(stream(), t[0], t[1], t[2], t[3]);
         }});
  check({"log_matmul", {f32s({16, 32}), f32s({32, 16}), f32s({16, 16})}, [](auto& t) {
           log_matmul(stream(), t[0], t[1], t[2]);
         }});
}

TEST(LibraryPlaces, Attentions) {
  const Dims shape{1, 2, 32, 16};
  const Tensors t{of(shape),        of(shape),        of(shape), of(shape),
                  f32s({1, 2, 32}), f32s({1, 2, 32}), f32s({2})};
  const Attention causal = attention({.mask = masks::causal()});
  check({"attention",
         t,
         [=](auto& t) {
           causal(stream(), t[0], t[1], t[2], t[3], {.lse = t[4], .row_max = t[5], .sinks = t[6]});
         },
         {4, 5, 6}});
  check({"attention on the default stream", {t[0], t[1], t[2], t[3]}, [=](auto& t) {
           causal(t[0], t[1], t[2], t[3]);
         }});
  check({"attention of packed sequences",
         {of({32, 2, 16}), of({32, 2, 16}), of({32, 2, 16}), of({32, 2, 16}), i32s({3}), i32s({3}),
          f32s({32, 2})},
         [=](auto& t) {
           causal.varlen(stream(), t[0], t[1], t[2], t[3], {t[4], t[5], 32}, {.lse = t[6]});
         },
         {6}});
  // Tables that a mask and a score have captured are refused where they are given, or by the call.
  check({"attention of documents", {i32s({32}), i32s({4})}, [=](auto& of) {
           const Attention a = attention({.mask = masks::packed_causal(of[0], of[1])});
           a(stream(), t[0], t[1], t[2], t[3]);
         }});
  check({"attention with a bias", {f32s({1, 2, 32, 32}), f32s({2})}, [=](auto& of) {
           const Attention a =
               attention({.score = scores::compose(scores::bias(of[0]), scores::alibi(of[1]))});
           a(stream(), t[0], t[1], t[2], t[3]);
         }});
  const BlockList list = empty_block_list({32, 32}, 1, Device::cpu());
  check({"attention of blocks",
         {list.kv_indices, list.kv_num_blocks, list.full_kv_num_blocks},
         [=](auto& of) {
           const Attention a = attention({.blocks = BlockList{of[0], of[1], of[2]}});
           a(stream(), t[0], t[1], t[2], t[3]);
         },
         {2}});
  check({"select_blocks",
         {i32s({1, 1, 1, 1}), list.kv_indices, list.kv_num_blocks, list.full_kv_num_blocks},
         [](auto& t) {
           select_blocks(stream(), t[0], 32, BlockInterior::full, {t[1], t[2], t[3]});
         }});
}

TEST(LibraryPlaces, Rows) {
  const Tensor x = of({4, 8}), y = of({4, 8}), z = of({4, 8}), w = of({8}), r = f32s({4}),
               q = f32s({4});
  check({"softmax", {x, y}, [](auto& t) { softmax(stream(), t[0], t[1]); }});
  check({"softmax_backward", {x, y, z}, [](auto& t) {
           softmax_backward(stream(), t[0], t[1], t[2]);
         }});
  check({"rms_norm",
         {x, w, y, of({4, 8}), of({4, 8}), r},
         [](auto& t) {
           rms_norm(stream(), t[0], t[1], t[2], 1e-6f,
                    {.residual = t[3], .sum = t[4], .rstd = t[5]});
         },
         {1, 3, 4, 5}});
  check({"layer_norm",
         {x, w, of({8}), y, q, r},
         [](auto& t) {
           layer_norm(stream(), t[0], t[1], t[2], t[3], 1e-5f, {.mean = t[4], .rstd = t[5]});
         },
         {1, 2, 4, 5}});
  check({"rms_norm_backward",
         {x, w, r, y, z, f32s({8}), of({4, 8})},
         [](auto& t) {
           rms_norm_backward(stream(), {.x = t[0], .weight = t[1], .rstd = t[2]}, t[3],
                             {.x = t[4], .weight = t[5]}, t[6]);
         },
         {1, 5, 6}});
  check({"layer_norm_backward",
         {x, w, q, r, y, z, of({8}), of({8})},
         [](auto& t) {
           layer_norm_backward(stream(), {t[0], t[1], t[2], t[3]}, t[4],
                               {.x = t[5], .weight = t[6], .bias = t[7]});
         },
         {1, 6, 7}});
  check({"gated_activation", {x, y, z}, [](auto& t) {
           gated_activation(stream(), GateActivation::silu, t[0], t[1], t[2]);
         }});
  check({"gated_activation_backward", {x, y, z, of({4, 8}), of({4, 8})}, [](auto& t) {
           gated_activation_backward(stream(), GateActivation::gelu, t[0], t[1], t[2], t[3], t[4]);
         }});
  check({"quantise_fp8", {x, of({4, 8}, DType::f8e4m3), r}, [](auto& t) {
           quantise_fp8(stream(), t[0], t[1], t[2]);
         }});
  check({"hadamard", {x, y}, [](auto& t) { hadamard(stream(), t[0], t[1], 1); }});
}

TEST(LibraryPlaces, TokensAndLosses) {
  const Tensor table = of({6, 8}), ids = i32s({4}), y = of({4, 8}), loss = f32s({4}),
               lse = f32s({4}), heads = of({4, 2, 8}), angles = f32s({4, 4});
  check({"embedding", {table, ids, y}, [](auto& t) { embedding(stream(), t[0], t[1], t[2]); }});
  for (const ScatterOrder order : {ScatterOrder::any, ScatterOrder::tokens})
    check({"embedding_backward", {y, ids, f32s({6, 8})}, [=](auto& t) {
             embedding_backward(stream(), t[0], t[1], t[2], order);
           }});
  for (const bool is_backward : {false, true})
    check({"rope",
           {heads, angles, f32s({4, 4}), i32s({4}), of({4, 2, 8})},
           [=](auto& t) {
             const RopeTables tables{t[1], t[2], t[3]};
             if (is_backward)
               return rope_backward(stream(), RopePairs::half_split, t[0], tables, t[4]);
             rope(stream(), RopePairs::half_split, t[0], tables, t[4]);
           },
           {3}});
  check({"cross_entropy", {y, ids, loss, lse}, [](auto& t) {
           cross_entropy(stream(), t[0], t[1], t[2], t[3]);
         }});
  check({"cross_entropy_backward", {y, ids, lse, loss, of({4, 8})}, [](auto& t) {
           cross_entropy_backward(stream(), t[0], t[1], t[2], t[3], t[4]);
         }});
  check({"linear_cross_entropy",
         {y, of({16, 8}), ids, of({2, 16}), loss, lse, f32s({4}), of({4, 8}), f32s({16, 8})},
         [](auto& t) {
           linear_cross_entropy(stream(), t[0], t[1], t[2], t[3], t[4], t[5],
                                {.dloss = t[6], .x = t[7], .weight = t[8]});
         }});
  check({"AdamW", {of({8}), of({8}), f32s({8}), f32s({8})}, [](auto& t) {
           const AdamWTensors one{t[0], t[1], t[2], t[3]};
           AdamW(std::span(&one, 1)).step(stream(), 1);
         }});
}

TEST(LibraryPlaces, Arrays) {
  const Tensor x = f32s({8}), y = f32s({8}), n = i32s({8});
  check({"vector_add", {x, y, f32s({8})}, [](auto& t) { vector_add(stream(), t[0], t[1], t[2]); }});
  check({"copy", {x, y}, [](auto& t) { copy(stream(), t[0], t[1]); }});
  check({"device_scan", {x, y}, [](auto& t) { device_scan(stream(), t[0], t[1]); }});
  check({"device_select", {x, of({8}, DType::i1), y, i32s({1})}, [](auto& t) {
           device_select(stream(), t[0], t[1], t[2], t[3]);
         }});
  check(
      {"device_sort",
       {x, y, n, i32s({8})},
       [](auto& t) { device_sort(stream(), t[0], t[1], {.sorted_values = t[2], .values = t[3]}); },
       {3}});
  check({"device_topk", {f32s({2, 8}), f32s({2, 3}), i32s({2, 3})}, [](auto& t) {
           device_topk(stream(), t[0], t[1], t[2]);
         }});
  check({"device_segment_sum", {x, i32s({3}), f32s({2})}, [](auto& t) {
           device_segment_sum(stream(), t[0], t[1], t[2]);
         }});
  check({"device_segment_sum of rows", {f32s({8, 4}), i32s({3}), f32s({2, 4})}, [](auto& t) {
           device_segment_sum(stream(), t[0], t[1], t[2]);
         }});
  check({"device_searchsorted", {x, y, n}, [](auto& t) {
           device_searchsorted(stream(), t[0], t[1], t[2]);
         }});
  check({"device_histogram", {n, i32s({4})}, [](auto& t) {
           device_histogram(stream(), t[0], t[1]);
         }});
}

TEST(LibraryPlaces, Experts) {
  const Moe layer = moe({.router = routers::mixtral(), .experts = 4});
  const Tensor x = of({8, 64}), logits = f32s({8, 4}), up = of({4, 64, 64}), down = of({4, 64, 32}),
               y = of({8, 64});
  check({"moe", {x, of({4, 64}), up, down, y}, [=](auto& t) {
           layer(stream(), t[0], {.router = t[1], .up = t[2], .down = t[3]}, t[4]);
         }});
  const MoeSaved saved = layer.make_saved(x, {.up = up, .down = down});
  check({"moe by logits",
         {x, logits, up, down, y, saved.hidden, saved.routing.row_of},
         [=](auto& t) {
           MoeSaved into = saved;
           into.hidden = t[5], into.routing.row_of = t[6];
           layer.from_logits(stream(), t[0], t[1], {.up = t[2], .down = t[3]}, t[4], into);
         },
         {5}});
  check({"moe backward",
         {x, logits, up, down, y, of({8, 64}), f32s({8, 4})},
         [=](auto& t) {
           layer.backward(stream(), t[0], t[1], {.up = t[2], .down = t[3]}, saved, t[4],
                          {.X = t[5], .logits = t[6]});
         },
         {6}});
  check({"moe routing", {logits, saved.routing.ids, saved.routing.offsets}, [=](auto& t) {
           MoeRouting out = saved.routing;
           out.ids = t[1], out.offsets = t[2];
           layer.route(stream(), t[0], {}, out);
         }});
  const MoeBalance b = make_moe_balance(4, Device::cpu());
  check({"moe_balance", {logits, i32s({8, 2}), b.counts, b.probability, b.losses}, [](auto& t) {
           moe_balance(stream(), t[0], t[1], {t[2], t[3], t[4]});
         }});
  check({"moe_balance_gradient", {logits, b.counts, f32s({8, 4})}, [](auto& t) {
           moe_balance_gradient(stream(), t[0], {t[1], {}, {}}, 1, 1, t[2]);
         }});
  check({"moe_update_bias", {b.counts, f32s({4})}, [](auto& t) {
           moe_update_bias(stream(), t[0], t[1], 0.1f);
         }});
  check({"noisy_top_k_sums",
         {logits, f32s({8, 4}), f32s({8, 4}), f32s({4}), f32s({4}), f32s({2})},
         [](auto& t) { noisy_top_k_sums(stream(), t[0], t[1], t[2], 2, {t[3], t[4], t[5]}); }});
  check({"noisy_top_k_gradient", {logits, f32s({8, 4}), f32s({8, 4}), f32s({8, 4})}, [](auto& t) {
           routers::noisy_top_k_gradient(stream(), t[0], t[1], t[2], t[3]);
         }});
  check({"jitter", {x, of({1}, DType::i64), y}, [](auto& t) {
           routers::jitter(stream(), t[0], 0.1f, t[1], t[2]);
         }});
}

/// Reports on kernels that no call has compiled.
TEST(LibraryPlaces, Reports) {
  EXPECT_TRUE(is_refused([] { attention({}).explain(); }));
  EXPECT_TRUE(is_refused([] { attention({}).dump("ptx"); }));
  EXPECT_TRUE(is_refused([] { moe({.router = routers::mixtral(), .experts = 4}).explain(); }));
  EXPECT_TRUE(is_refused(
      [] { fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc; }).explain({}); }));
  EXPECT_TRUE(is_refused([] {
    gated_matmul<bf16, bf16>([](Tile gate, Tile, Index, Index) { return gate; }).explain();
  }));
}

}  // namespace
}  // namespace tegula::library_places_test
