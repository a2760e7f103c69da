// Errors of the kernel library, recorded word for word in library.txt, each at the line of the
// call.
#include <functional>
#include <stdexcept>

#include "expect_error.h"
#include "tegula/kernels/adamw.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/attention_state.h"
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
#include "tegula/kernels/norm.h"
#include "tegula/kernels/quantise.h"
#include "tegula/kernels/rope.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/softmax.h"
#include "tegula/tegula.h"

namespace tegula::library_test {
using namespace kernels;
namespace {

test::Pinned& pinned() {
  static test::Pinned file("library.txt");
  return file;
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, test::error_of(f, at));
}

Tensor of(const Dims& shape, DType dtype = DType::bf16) {
  return Tensor::zeros(shape, dtype, Device::cpu());
}

const Dims kShape{1, 4, 32, 64};

Stream stream() { return Stream(Device::cpu()); }

TEST(LibraryError, ShapesOfAttention) {
  const Attention attn = attention({});
  const Tensor t = of(kShape);
  expect("T1601 attention_sizes", [&] { attn(t, t, of({1, 4, 16, 64}), t); });
  expect("T1602 attention_rank", [&] { attn(of({4, 32, 64}), t, t, t); });
  expect("T1603 attention_type", [&] { attn(t, t, t, of(kShape, DType::f32)); });
  const Tensor odd = of({1, 4, 32, 20});
  expect("T1604 head_dim", [&] { attn(odd, odd, t, t); });
  const Tensor three = of({1, 3, 32, 64});
  expect("T1605 head_groups", [&] { attn(t, three, three, t); });
  expect("T1606 attention_extra", [&] { attn(stream(), t, t, t, t, of({1, 4, 32})); });
  const Tensor longer = of({1, 4, 48, 64});
  expect("T1611 align_bottom_right",
         [&] { attention({.align_bottom_right = true})(longer, t, t, longer); });
}

TEST(LibraryError, SequencesInOneTensor) {
  const Attention attn = attention({});
  const Tensor t = of({32, 4, 64}), two = of({2}, DType::i32);
  const auto varlen = [&](const Attention& a, const Tensor& x, const Tensor& q,
                          std::int64_t longest, Loc at = std::source_location::current()) {
    a.varlen(stream(), x, x, x, x, {q, q, longest}, {}, at);
  };
  expect("T1607 cu_seqlens", [&] { varlen(attn, t, of({2}, DType::f32), 32); });
  expect("T1608 too_many_sequences", [&] { varlen(attn, t, of({70000}, DType::i32), 32); });
  expect("T1609 longest_sequence", [&] { varlen(attn, t, two, -1); });
  expect("T1610 varlen_tiles", [&] {
    const Tensor many = of({1, 1, 8}).broadcast_to({1 << 30, 1, 8});
    varlen(attn, many, of({60000}, DType::i32), 1 << 30);
  });
  expect("T1621 list_extents of sequences", [&] {
    varlen(attention({.blocks = empty_block_list({32, 32, 2}, 1, Device::cpu())}), t, two, 32);
  });
}

TEST(LibraryError, ArgumentsOfAttention) {
  const Tensor t = of(kShape), f = of({1, 4, 32}, DType::f32);
  const BlockList list = empty_block_list({32, 32}, 1, Device::cpu());
  expect("T1612 attention_tiles", [] { attention({}, {.tiles = AttentionTileShape{100, 128}}); });
  expect("T1613 split_kv", [] { attention({}, {.split_kv = 3}); });
  expect("T1614 stick_breaking_blocks",
         [&] { attention({.blocks = list, .weighting = AttentionNormalization::stick_breaking}); });
  expect("T1615 blocks_and_range", [&] { attention({.kv_range = causal_range, .blocks = list}); });
  expect("T1616 without_softmax", [&] {
    attention({.weighting = AttentionNormalization::none})(stream(), t, t, t, t, {.row_max = f});
  });
  expect("T1617 lse_of_scores",
         [&] { attention({.weighting = AttentionNormalization::none})(stream(), t, t, t, t, f); });
  expect("T1618 attention_scale", [&] { attention({.scale = -1.0f})(t, t, t, t); });
}

TEST(LibraryError, ListsOfBlocks) {
  const Tensor t = of(kShape);
  const auto with = [&](BlockList list) { return attention({.blocks = std::move(list)}); };
  BlockList list = empty_block_list({32, 32}, 1, Device::cpu());
  BlockList wrong = list;
  wrong.kv_num_blocks = of({1, 1, 1}, DType::f32);
  expect("T1620 list_tensor", [&] { with(wrong)(t, t, t, t); });
  wrong.kv_num_blocks = of({1, 3, 1}, DType::i32);
  expect("T1621 list_extents", [&] { with(wrong)(t, t, t, t); });
  expect("T1622 list_blocks_size",
         [&] { empty_block_list({32, 32, 1, 1, 100, 128}, 1, Device::cpu()); });
  expect("T1623 block_grid", [] { empty_block_list({32, 0}, 1, Device::cpu()); });
  expect("T1624 big_bird_blocks", [] { big_bird({32, 32, 1, 1, 64, 128}, {}, Device::cpu()); });
  expect("T1625 empty_list", [] { empty_block_list({32, 32}, 0, Device::cpu()); });
  const auto select = [&](const Tensor& indices, std::int64_t keys, const BlockList& of_list,
                          Loc at = std::source_location::current()) {
    select_blocks(stream(), indices, keys, BlockInterior::full, of_list, at);
  };
  const Tensor indices = of({1, 1, 1, 1}, DType::i32);
  expect("T1626 selected_indices", [&] { select(of({1, 1, 1, 2}, DType::i32), 32, list); });
  wrong = list;
  wrong.kv_num_blocks = of({1, 1}, DType::i32);
  expect("T1627 selected_counts", [&] { select(indices, 32, wrong); });
  expect("T1628 selected_keys", [&] { select(indices, 0, list); });
}

TEST(LibraryError, NumbersOfMasks) {
  using namespace masks;
  expect("T1662 of chunked", [] { chunked(0); });
  expect("T1662 of a negative chunk", [] { and_(causal(), chunked(-4)); });
  expect("T1662 of sliding_window", [] { sliding_window(-1); });
  expect("T1662 of window", [] { window(-1, 0); });
  expect("T1662 of dilated_window", [] { dilated_window(8, 0); });
  expect("T1662 of sink_window", [] { sink_window(-1, 8); });
  expect("T1662 of prefix_lm", [] { prefix_lm(-1); });
  expect("T1662 of block_causal", [] { block_causal(0); });
  expect("T1662 of batchify", [] { batchify(0, causal()); });
  expect("T1662 of block_diffusion", [] { block_diffusion(8, 0); });
  expect("T1662 of speculative_blocks", [] { speculative_blocks(8, 0); });
  expect("T1662 of zigzag", [] { zigzag(0, 1, 2, 0, causal()); });
  expect("T1662 of svg_temporal_head", [] { svg_temporal_head(8, 0, 2); });
  expect("T1662 of neighbourhood", [] { neighbourhood(8, 0, 3); });
  expect("T1662 of tiled_neighbourhood", [] { tiled_neighbourhood({8, 8}, {0, 4}, 3); });
  expect("T1662 of morton_neighbourhood", [] { morton_neighbourhood(8, 0); });
  expect("T1662 of sliding_tiles", [] { sliding_tiles({8, 8}, {4, 4}, {1, 1}, -1); });
  expect("T1662 of frames", [] { sliding_tiles({8, 8, 8}, {4, 4, 0}, {1, 1, 1}, 0); });
  expect("T1662 of latest_image", [] { latest_image(of({8}, DType::i32), 0); });
  expect("T1662 of document", [] { document(of({8}, DType::f32)); });
  expect("T1662 of packed_causal", [] { packed_causal(of({8}, DType::i32), {}); });
}

TEST(LibraryError, Masks) {
  expect("T1630 tree_nodes", [] { masks::ancestor_bits({{-1}}, 0, Device::cpu()); });
  expect("T1631 tree_size", [] { masks::ancestor_bits({{-1, 0, 0}}, 2, Device::cpu()); });
  expect("T1632 tree_parent", [] { masks::ancestor_bits({{-1, 1}}, 2, Device::cpu()); });
  expect("T1633 tree_ancestors", [] { masks::tree(16, of({5}, DType::u32), 2); });
  expect("T1634 morton_side", [] { masks::morton_neighbourhood(24, 3); });
}

TEST(LibraryError, NumbersOfScores) {
  expect("T1662 of softcap", [] { scores::softcap(0); });
  expect("T1662 of a negative cap", [] { scores::softcap(-30.0f, scores::Tanh::approximate); });
  expect("T1662 of a cap of NaN", [] { scores::softcap(nan); });
  expect("T1662 of relative_bias", [] { scores::relative_bias(inf); });
  expect("T1662 of log_length", [] { scores::log_length(1); });
  expect("T1662 of forgetting", [] { scores::forgetting(of({1, 4, 8})); });
  expect("T1618 of infinity", [] { attention({.scale = inf}); });
}

/// An error in a lambda is reported at its line, an error of its result at the line of the call.
TEST(LibraryError, LambdasOfTheCaller) {
  const Tensor t = of(kShape), o = of(kShape), a = of({32, 64}), b = of({64, 32}), c = of({32, 32});
  expect("an operation in a mask", [&] {
    attention({.mask = [](Tile, Tile, Tile q, Tile kv) { return q + arange(5) >= kv; }})(t, t, t,
                                                                                         o);
  });
  expect("a mask of numbers", [&] {
    attention({.mask = [](Tile, Tile, Tile q, Tile kv) { return cast<f32>(q - kv); }})(t, t, t, o);
  });
  expect("an operation in a score", [&] {
    attention({.score = [](Tile s, Tile, Tile, Tile, Tile) { return s & 3; }})(t, t, t, o);
  });
  expect("a score of another shape", [&] {
    attention({.score = [](Tile s, Tile, Tile, Tile, Tile) { return s + arange(7); }})(t, t, t, o);
  });
  const Tensor elsewhere = Tensor::zeros({32}, DType::i32, Device::sim());
  expect("a table on another device",
         [&] { attention({.mask = masks::document(elsewhere)})(t, t, t, o); });
  expect("an operation in an epilogue", [&] {
    const auto dense =
        fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc + arange(5); });
    dense(stream(), a, b, c);
  });
  expect("an epilogue of another shape", [&] {
    const auto dense = fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return sum(acc, 1); });
    dense(stream(), a, b, c);
  });
  expect("an exception in a mask", [&] {
    attention({.mask = [](Tile, Tile, Tile q, Tile kv) -> Tile {
      if (q.rank() > 0) throw std::runtime_error("not today");
      return q >= kv;
    }})(t, t, t, o);
  });
  const Moe layer = moe({.router = {2,
                                    [](const Tile& z, const Index&) {
                                      const Sorted best = topk(z, 2, 1);
                                      return Routing{best.values & 1, best.indices};
                                    }},
                         .experts = 4});
  expect("an operation in a router", [&] {
    layer.route(stream(), of({8, 4}, DType::f32), {}, layer.make_routing(8, Device::cpu()));
  });
}

TEST(LibraryError, Scores) {
  expect("T1640 alibi_heads", [] { scores::alibi(0); });
  expect("T1641 t5_table", [] { scores::t5_bias(of({32}, DType::f32), 100, true); });
  expect("T1642 t5_buckets", [] { scores::t5_bias(of({32, 4}, DType::f32), 8, true); });
  expect("T1643 bias_rank", [] { scores::bias(of({4, 4})); });
  expect("T1644 graph_table", [] { scores::graph_edges(of({4, 4}), {}, {}); });
}

TEST(LibraryError, Matmul) {
  const Tensor a = of({32, 64}), b = of({64, 32}), c = of({32, 32});
  expect("T1650 matmul_shapes", [&] { matmul(a, a, c); });
  expect("T1651 matmul_types", [&] { matmul(a, b, of({32, 32}, DType::i32)); });
  expect("T1650 of fused_matmul", [&] {
    fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc; })(stream(), a, a, c);
  });
  expect("T1650 of gated_matmul", [&] {
    gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; })(
        stream(), a, b, a, c);
  });
}

TEST(LibraryError, MatmulsOfAConfiguration) {
  const Tensor a = of({192, 64}), b = of({64, 64}), c = of({192, 64});
  const auto call = [&](const MatmulConfig& config, Loc at = std::source_location::current()) {
    matmul(stream(), a, b, c, config, {}, at);
  };
  expect("T1662 rows of a cluster",
         [&] { call({.bm = 192, .bn = 64, .split = SplitK::cluster, .parts = 2}); });
  expect("T1662 columns of a cluster", [&] {
    call({.bm = 64, .bn = 192, .split = SplitK::cluster, .parts = 4, .swap_ab = true});
  });
  expect("T1662 CTAs of a cluster",
         [&] { call({.bm = 64, .bn = 64, .split = SplitK::cluster, .parts = 3}); });
  // Batches are not split.
  const MatmulConfig split{.bm = 192, .bn = 64, .split = SplitK::cluster, .parts = 2};
  EXPECT_NO_THROW(matmul(stream(), of({2, 192, 64}), of({2, 64, 64}), of({2, 192, 64}), split));
}

/// Arguments that the library passes to its kernels unchanged, in a first call and in later ones.
TEST(LibraryError, ArgumentsOfKernels) {
  const Tensor x = of({4, 8}), y = of({4, 8}), q = of(kShape), o = of(kShape);
  const Tensor elsewhere = Tensor::zeros({4, 8}, DType::bf16, Device::sim());
  expect("T0706 of softmax", [&] { softmax(stream(), x, x); });
  softmax(stream(), x, y);
  expect("T0706 of softmax again", [&] { softmax(stream(), x, x); });
  expect("T0707 of softmax", [&] { softmax(stream(), x, elsewhere); });
  expect("T0706 of attention", [&] { attention({})(q, q, q, q); });
  expect("T0706 of lse and row_max", [&] {
    const Tensor rows = of({1, 4, 32}, DType::f32);
    attention({})(stream(), q, q, q, o, {.lse = rows, .row_max = rows});
  });
}

TEST(LibraryError, Others) {
  expect("T1660 copied_tensors", [] { copy(stream(), of({4, 8}), of({4, 8}, DType::f32)); });
  expect("T1661 row_type",
         [] { softmax(stream(), of({4, 8}, DType::i32), of({4, 8}, DType::i32)); });
}

TEST(LibraryError, Arrays) {
  const Tensor x = of({8}, DType::f32), y = of({8}, DType::f32);
  expect("T1662 scanned type",
         [&] { device_scan(stream(), of({8}, DType::i8), of({8}, DType::i8)); });
  expect("T1662 kept", [&] { device_select(stream(), x, of({8}, DType::i32), y, y); });
  expect("T1662 sorted type",
         [&] { device_sort(stream(), of({8}, DType::i8), of({8}, DType::i8)); });
  expect("T1662 sorted values",
         [&] { device_sort(stream(), x, y, {.values = of({8}, DType::i32)}); });
  expect("T1663 topk_row_limit", [&] {
    const Tensor values = of({2, 9}, DType::f32), indices = of({2, 9}, DType::i32);
    device_topk(stream(), of({2, 8}, DType::f32), values, indices);
  });
  const Tensor far = of({1}, DType::i32).broadcast_to({std::int64_t{1} << 31}),
               far_rows = of({1, 1}, DType::f32).broadcast_to({1, std::int64_t{1} << 31});
  const Tensor many = of({5000}, DType::i32), few = of({10}, DType::i32);
  for (const Tensor& t : {many, few})
    expect("T0706 sorted in place", [&] { device_sort(stream(), t, t); });
  expect("T0706 in place", [] {
    const Tensor t = of({4, 8});
    softmax(stream(), t, t);
  });
  expect("T1662 places of a sort", [&] { device_sort(stream(), far, far); });
  expect("T1662 places of a selection", [&] { device_select(stream(), far, y, far, y); });
  expect("T1662 places of a search", [&] { device_searchsorted(stream(), far, x, y); });
  expect("T1662 places of the best", [&] { device_topk(stream(), far_rows, far_rows, y); });
  expect("T1662 segments", [&] { device_segment_sum(stream(), x, of({3}, DType::i32), y); });
  expect("T1662 places", [&] { device_searchsorted(stream(), x, y, y); });
  expect("T1662 keys", [&] { device_histogram(stream(), x, of({4}, DType::i32)); });
  expect("T1662 of log_matmul", [&] { log_matmul(stream(), of({4, 8}), of({8, 4}), of({4, 4})); });
}

TEST(LibraryError, LayersOfExperts) {
  expect("T1670 moe_options", [] { moe({.router = routers::mixtral(), .experts = 0}); });
  expect("T1662 kernel_argument of capacity", [] {
    moe({.router = routers::gshard(),
         .experts = 4,
         .capacity = ExpertCapacity{.group_tokens = 100}});
  });
  expect("T1662 kernel_argument of rows", [] {
    moe({.router = routers::gshard(), .experts = 4, .capacity = ExpertCapacity{.rows = -1}});
  });
  expect("T1662 kernel_argument of a factor", [] {
    moe({.router = routers::gshard(), .experts = 4, .capacity = ExpertCapacity{.factor = -1}});
  });
  expect("T1662 kernel_argument of expert choice",
         [] { moe({.router = {}, .experts = 4, .expert_choice = ExpertChoice{.factor = -1}}); });
  expect("T1662 kernel_argument of a router", [] {
    const Moe layer = moe(
        {.router = routers::deepseek_v3(of({4}, DType::f32), {.k = 2, .groups = 1}), .experts = 8});
    const Tensor logits = of({8, 8}, DType::f32);
    layer.route(stream(), logits, {}, layer.make_routing(8, Device::cpu()));
  });
  const auto route = [](const Router& by, Loc at = std::source_location::current()) {
    const Moe of_eight = moe({.router = by, .experts = 8});
    of_eight.route(stream(), of({8, 8}, DType::f32), {}, of_eight.make_routing(8, Device::cpu()),
                   at);
  };
  const Tensor bias = of({8}, DType::f32);
  expect("T1662 kernel_argument of choices", [&] { route(routers::qwen3(9)); });
  expect("T1662 kernel_argument of groups",
         [&] { route(routers::deepseek_v3(bias, {.k = 2, .groups = 3, .kept_groups = 1})); });
  expect("T1662 kernel_argument of kept groups",
         [&] { route(routers::deepseek_v3(bias, {.k = 2, .groups = 4, .kept_groups = 5})); });
  expect("T1662 kernel_argument of tiles", [] {
    moe({.router = routers::mixtral(),
         .experts = 4,
         .tiles = {.down = ExpertTileConfig{.bm = 160}}});
  });
  expect("T1662 kernel_argument of gathered rows", [] {
    moe({.router = routers::llama4(),
         .experts = 4,
         .scales_inputs = true,
         .tiles = {.up = ExpertTileConfig{.gathers = true}}});
  });
  expect("T1671 moe_experts", [] {
    moe({.router = routers::mixtral(8),
         .experts = 600,
         .capacity = ExpertCapacity{.by_slot = true}});
  });
  const Moe layer = moe({.router = routers::mixtral(), .experts = 4});
  const Tensor x = of({8, 64}), logits = of({8, 4}, DType::f32);
  const MoeWeights weights{.up = of({4, 64, 64}), .down = of({4, 64, 32})};
  const auto call = [&](const Tensor& X, const Tensor& z, const MoeWeights& w,
                        Loc at = std::source_location::current()) {
    layer.from_logits(stream(), X, z, w, x, at);
  };
  expect("T1672 moe_input", [&] { call(of({8, 64}, DType::f32), logits, weights); });
  expect("T1673 moe_tensor", [&] { call(x, of({8, 5}, DType::f32), weights); });
  expect("T1674 moe_no_logits", [&] { call(x, {}, weights); });
  expect("T1676 moe_logits", [&] { layer.route(stream(), of({8}), {}, {}); });
  const MoeSaved saved = layer.make_saved(x, weights);
  const Moe forward_only = moe({.router = {2, routers::mixtral().choose}, .experts = 4});
  expect("T1675 moe_gradient", [&] {
    forward_only.backward(stream(), x, logits, weights, saved, x, {.X = x, .logits = logits});
  });
}

TEST(LibraryError, QuantisedExperts) {
  const auto layer_of = [](ExpertScaling scaling) {
    return moe({.router = routers::mixtral(),
                .experts = 4,
                .quantisation = ExpertQuantisation{.scaling = scaling}});
  };
  const Moe by_row = layer_of(ExpertScaling::row), by_tensor = layer_of(ExpertScaling::tensor);
  const Tensor x = of({8, 64}), logits = of({8, 4}, DType::f32), one = of({1}, DType::f32);
  const DType f8 = DType::f8e4m3;
  MoeWeights w{.up = of({4, 64, 64}, f8), .down = of({4, 64, 32}, f8)};
  w.scales = {.up = of({4, 64}, DType::f32), .down = of({4, 64}, DType::f32)};
  const auto call = [&](const Moe& layer, const MoeWeights& weights,
                        Loc at = std::source_location::current()) {
    layer.from_logits(stream(), x, logits, weights, x, at);
  };
  MoeWeights other = w;
  other.up = of({4, 64, 64});
  expect("T1673 weights of 16 bits", [&] { call(by_row, other); });
  other = w, other.scales.down = {};
  expect("T1673 scales left out", [&] { call(by_row, other); });
  other = w, other.scales.input = one;
  expect("T1662 scales of rows", [&] { call(by_row, other); });
  expect("T1673 scales of experts", [&] { call(by_tensor, w); });
  other = w, other.scales = {.up = of({4}, DType::f32), .down = of({4}, DType::f32), .input = one};
  expect("T1673 scale of activations", [&] { call(by_tensor, other); });
  const Moe plain = moe({.router = routers::mixtral(), .experts = 4});
  other = {.up = of({4, 64, 64}), .down = of({4, 64, 32}), .scales = w.scales};
  expect("T1662 scales of a plain layer", [&] { call(plain, other); });
  other = {.up = of({4, 48, 64}, f8), .down = of({4, 64, 24}, f8)};
  expect("T1677 moe_quantised_sizes", [&] { call(by_row, other); });
  const MoeSaved saved = plain.make_saved(x, w);
  expect("T1678 moe_quantised_training",
         [&] { by_row.from_logits(stream(), x, logits, w, x, saved); });
}

TEST(LibraryError, Rows) {
  const Tensor x = of({4, 8}), y = of({4, 8}), of_rows = of({4}, DType::f32);
  expect("T1662 shape", [&] { softmax(stream(), x, of({4, 9})); });
  expect("T1662 rank", [&] { softmax(stream(), of({8}), y); });
  expect("T1662 of weight", [&] { rms_norm(stream(), x, of({4}), y); });
  expect("T1662 left out", [&] { rms_norm_backward(stream(), {.x = x, .rstd = {}}, y, {.x = y}); });
  expect("T1662 mean", [&] { rms_norm(stream(), x, {}, y, 1e-6f, {.mean = of_rows}); });
  expect("T1662 gradient of bias", [&] {
    rms_norm_backward(stream(), {.x = x, .rstd = of_rows}, y, {.x = y, .bias = of({8})});
  });
  expect("T1662 tables", [&] {
    const Tensor heads = of({4, 2, 8}), table = of({3, 4}, DType::f32);
    rope(stream(), RopePairs::interleaved, heads, {.cos = table, .sin = table}, of({4, 2, 8}));
  });
  expect("T1662 up",
         [&] { gated_activation(stream(), GateActivation::silu, x, of({4, 8}, DType::f32), y); });
  expect("T1662 scales", [&] {
    quantise_fp8(stream(), x, of({4, 8}, DType::f8e4m3), of_rows,
                 {.block = ScaleBlock::block_128x128});
  });
  expect("T1662 power of two", [&] { hadamard(stream(), of({2, 12}), of({2, 12}), 1); });
  expect("T1662 ids", [&] { embedding(stream(), x, of({4}, DType::f32), y); });
  expect("T1662 moments", [&] {
    const AdamWTensors bad{of({8}, DType::f32), of({8}, DType::f32), of({8}), of({8}, DType::f32)};
    AdamW(std::span(&bad, 1));
  });
  expect("T1662 step", [&] {
    const Tensor t = of({8}, DType::f32);
    const AdamWTensors tensors{t, of({8}, DType::f32), of({8}, DType::f32), of({8}, DType::f32)};
    AdamW(std::span(&tensors, 1)).step(stream(), 0);
  });
  expect("T1662 gradient of x", [&] {
    linear_cross_entropy(stream(), x, of({16, 8}), of({4}, DType::i32), of({2, 16}), of_rows,
                         of({4}, DType::f32), {.dloss = of_rows, .x = {}, .weight = {}});
  });
  expect("T1662 labels of a part", [&] {
    linear_cross_entropy(stream(), x, of({16, 8}), of({5}, DType::i32), of({2, 16}), of_rows,
                         of({4}, DType::f32));
  });
  expect("T1662 smoothing", [&] {
    cross_entropy(stream(), x, of({4}, DType::i32), of_rows, of({4}, DType::f32),
                  {.label_smoothing = 1});
  });
}

/// A cache of 6 pages of 16 rows, 2 heads and 64 columns, and two requests with five queries.
struct PagedArguments {
  Tensor q = of({5, 4, 64}), o = of({5, 4, 64}), pages = of({6, 16, 2, 64});
  KvCache cache{pages, pages, of({2, 3}, DType::i32)};
  KvBatch batch{of({3}, DType::i32), of({2}, DType::i32), 5};

  void attend(std::source_location at, const AttentionSpec& spec = {}) const {
    attention(spec).paged(stream(), q, cache, o, batch, {}, at);
  }
};

TEST(LibraryError, CachesOfPagedAttention) {
  using Change = std::function<void(PagedArguments&)>;
  const auto refused = [](const char* name, const Change& change,
                          std::source_location at = std::source_location::current()) {
    PagedArguments a;
    change(a);
    expect(name, [&] { a.attend(at); }, at);
  };
  refused("T1680 kv_cache", [](auto& a) { a.cache.v = of({6, 16, 4, 64}); });
  refused("T1680 strides", [](auto& a) { a.cache.k = a.pages.permute({0, 1, 3, 2}); });
  refused("T1680 undefined", [](auto& a) { a.cache.v = {}; });
  refused("T1681 kv_page_rows", [](auto& a) { a.cache.k = a.cache.v = of({6, 257, 2, 64}); });
  refused("T1681 no rows", [](auto& a) { a.cache.k = a.cache.v = of({6, 0, 2, 64}); });
  refused("T1682 kv_table", [](auto& a) { a.cache.table = of({1, 3}, DType::i32); });
  refused("T1682 type", [](auto& a) { a.cache.table = of({2, 3}, DType::f32); });
  refused("T1682 no table", [](auto& a) {
    a.cache.table = {};
    a.cache.k = a.cache.v = of({1, 16, 2, 64});
  });
  refused("T1683 kv_lengths", [](auto& a) { a.batch.kv_lengths = {}; });
  refused("T1683 q_offsets", [](auto& a) { a.batch.q_offsets = of({2}, DType::i32); });
  refused("T1605 heads of a cache", [](auto& a) { a.q = a.o = of({5, 3, 64}); });
  refused("T1601 head dims of a cache", [](auto& a) { a.q = of({5, 4, 32}); });
  refused("T1609 queries of a request", [](auto& a) { a.batch.max_seqlen_q = -1; });
  expect("T1688 paged_spec", [] {
    const Tensor counts = of({2, 4, 1}, DType::i32);
    const BlockList list{of({2, 4, 1, 2}, DType::i32), counts, {}, 64, 64};
    PagedArguments().attend(std::source_location::current(), {.blocks = list});
  });
}

TEST(LibraryError, TablesOfPagedAttention) {
  const Tensor limits = of({1}, DType::i32);
  expect("T1664 requests", [&] {
    PagedArguments().attend(
        std::source_location::current(),
        {.mask = [limits](Tile b, Tile, Tile, Tile kv) { return kv >= view<i32, 1>(limits)(b); }});
  });
}

TEST(LibraryError, MergedStates) {
  const Tensor t = of({5, 4, 64}), o = of({5, 4, 64}), log = of({5, 4}, DType::f32);
  const std::vector<AttentionState> five(5, {t, log}), other{{t, log}, {t, of({5, 4})}};
  expect("T1662 parts", [&] { merge_states(stream(), five, o); });
  expect("T1662 lse of a part", [&] { merge_states(stream(), other, o); });
}

TEST(LibraryError, Append) {
  const PagedArguments a;
  const Tensor rows = of({5, 2, 64});
  expect("T1662 keys to append", [&] { append(stream(), of({5, 4, 64}), rows, a.cache, a.batch); });
  expect("T1680 append", [&] { append(stream(), rows, rows, {a.pages}, a.batch); });
  const auto refused = [&](const char* name, const KvAppend& how,
                           std::source_location at = std::source_location::current()) {
    expect(name, [&] { append(stream(), rows, rows, a.cache, a.batch, how, at); }, at);
  };
  const Tensor table = of({8, 32}, DType::f32), wide = of({8, 33}, DType::f32), q = of({5, 4, 64});
  refused("T1662 columns of angles", {.rope = {wide, wide}});
  refused("T1662 sines to append", {.rope = {table, {}}});
  refused("T1662 queries without angles", {.Q = q});
  refused("T1662 head dim of queries", {.rope = {table, table}, .Q = of({5, 4, 32})});
  refused("T1662 rotated queries alone", {.rope = {table, table}, .Q_out = q});
  refused("T1662 slots", {.slots = of({5}, DType::i32)});
}

}  // namespace
}  // namespace tegula::library_test
