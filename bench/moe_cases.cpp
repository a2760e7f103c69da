// Layers of experts and their routing: cases of the suites router, moe, moe_decode, moe_fp8,
// moe_tiles, moe_backward.
#include <array>
#include <iterator>
#include <map>

#include "bench/bench.h"
#include "tegula/kernels/moe.h"

namespace tegula::bench {
namespace {

constexpr int kNumber = 16;  ///< more than choices of a token

/// Softmax, top k, renormalised, with swiglu; one layer for each number of experts and choices.
const Moe& layer_of(std::int64_t experts, double k) {
  static std::map<std::pair<std::int64_t, double>, Moe> layers;
  const auto make = [&] {
    return moe(
        {.router = routers::qwen3(static_cast<int>(k)), .experts = static_cast<int>(experts)});
  };
  const auto found = layers.find({experts, k});
  return found != layers.end() ? found->second
                               : layers.emplace(std::pair{experts, k}, make()).first->second;
}

MoeRouting routing_of(Tensors t, std::size_t first) {
  return {t[first], t[first + 1], t[first + 2], t[first + 3], t[first + 4], t[first + 5]};
}

/// logits, the tensors of MoeRouting; k.
void run_router(const Stream& s, Tensors t, double k) {
  layer_of(t[0].size(1), k).route(s, t[0], {}, routing_of(t, 1));
}
/// The same by DeepSeek-V3's scheme, the bias behind them.
void run_deepseek_router(const Stream& s, Tensors t, double) {
  static const Moe layer =
      moe({.router = routers::deepseek_v3(t[7]), .experts = static_cast<int>(t[0].size(1))});
  layer.route(s, t[0], {}, routing_of(t, 1));
}
/// X, logits, up, down, Y; k.
void run_layer(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k).from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4]);
}
/// X, logits, up, down, Y, the scales of up, down, and those of ExpertScaling::tensor, X and
/// activations; experts of 8 bits. k, and kNumber more with fp32_promotion.
void run_quantised_layer(const Stream& s, Tensors t, double code) {
  static std::map<std::array<std::int64_t, 3>, Moe> layers;
  const bool by_row = t.size() == 7;
  const int k = static_cast<int>(code) % kNumber;
  const ExpertQuantisation q{by_row ? ExpertScaling::row : ExpertScaling::tensor, code >= kNumber};
  const std::array<std::int64_t, 3> key{t[1].size(1), static_cast<std::int64_t>(code), by_row};
  auto found = layers.find(key);
  if (found == layers.end())
    found = layers
                .emplace(key, moe({.router = routers::qwen3(k),
                                   .experts = static_cast<int>(t[1].size(1)),
                                   .quantisation = q}))
                .first;
  MoeWeights w{.up = as_fp8(t[2]), .down = as_fp8(t[3]), .scales = {.up = t[5], .down = t[6]}};
  if (!by_row) w.scales.input = t[7], w.scales.hidden = t[8];
  found->second.from_logits(s, t[0], t[1], w, t[4]);
}
/// X, logits, up, down, Y, the tensors of MoeSaved; k.
void run_training_forward(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k)
      .from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4], {routing_of(t, 5), t[11]});
}
/// X, logits, up, down, dY, the tensors of MoeSaved, gradients of X, logits, up, down; k.
void run_backward(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k)
      .backward(s, t[0], t[1], {.up = t[2], .down = t[3]}, {routing_of(t, 5), t[11]}, t[4],
                {.X = t[12], .logits = t[13], .up = t[14], .down = t[15]});
}

/// Tiles of the two products that compete where experts have many rows. The first of each are what
/// a layer chooses; some leave an SM to two CTAs, of which one stores while the other multiplies.
constexpr ExpertTileConfig kUpTiles[] = {{.bm = 128, .bn = 128},
                                         {.bm = 64, .bn = 128},
                                         {.bm = 256, .bn = 64},
                                         {.bm = 128, .bn = 64, .stages = 3}};
constexpr ExpertTileConfig kDownTiles[] = {{.bm = 128, .bn = 256},
                                           {.bm = 128, .bn = 128},
                                           {.bm = 128, .bn = 128, .stages = 3},
                                           {.bm = 64, .bn = 256, .stages = 2},
                                           {.bm = 256, .bn = 128},
                                           {.bm = 128, .bn = 192}};
/// X, logits, up, down, Y; k + kNumber * number of the tiles: those of the first product, then
/// those of the second but for its first one.
void run_tiled_layer(const Stream& s, Tensors t, double code) {
  static std::map<std::pair<std::int64_t, double>, Moe> layers;
  const int number = static_cast<int>(code) / kNumber, k = static_cast<int>(code) % kNumber,
            ups = static_cast<int>(std::size(kUpTiles));
  const auto make = [&] {
    return moe({.router = routers::qwen3(k),
                .experts = static_cast<int>(t[1].size(1)),
                .tiles = {.up = kUpTiles[number < ups ? number : 0],
                          .down = kDownTiles[number < ups ? 0 : number - ups + 1]}});
  };
  auto found = layers.find({t[1].size(1), code});
  if (found == layers.end()) found = layers.emplace(std::pair{t[1].size(1), code}, make()).first;
  found->second.from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4]);
}

}  // namespace

void add_moe_cases(std::vector<Case>& list) {
  list.push_back({"moe_router", run_router});
  list.push_back({"moe_router_deepseek_v3", run_deepseek_router});
  list.push_back({"moe", run_layer});
  list.push_back({"moe_fp8", run_quantised_layer});
  list.push_back({"moe_tiles", run_tiled_layer});
  list.push_back({"moe_training_forward", run_training_forward});
  list.push_back({"moe_backward", run_backward});
}

}  // namespace tegula::bench
