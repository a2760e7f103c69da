// MoE layers and their routing: cases of the suites router, router_forms, moe, moe_decode, moe_fp8,
// moe_tiles, moe_backward.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include "bench/bench.h"
#include "kernels/moe/tile_routing.h"
#include "tegula/kernels/moe.h"

namespace tegula::bench {
using namespace kernels;
namespace {

constexpr int kNumber = 16;  ///< more than the experts per token

/// Returns a layer with a renormalised softmax over the top k, and swiglu; one per number of
/// experts and k.
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

/// logits, the tensors of MoeRouting; number: k.
void run_router(const Stream& s, Tensors t, double k) {
  layer_of(t[0].size(1), k).route(s, t[0], {}, routing_of(t, 1));
}
/// logits, the tensors of MoeRouting, bias: DeepSeek-V3's routing. There is one layer per bias,
/// because a router keeps the bias with which it was created.
void run_deepseek_router(const Stream& s, Tensors t, double) {
  static std::map<std::pair<const void*, std::int64_t>, Moe> layers;
  const std::pair<const void*, std::int64_t> bias{t[7].data(), t[7].size(0)};
  auto found = layers.find(bias);
  if (found == layers.end())
    found = layers
                .emplace(bias, moe({.router = routers::deepseek_v3(t[7]),
                                    .experts = static_cast<int>(bias.second)}))
                .first;
  found->second.route(s, t[0], {}, routing_of(t, 1));
}
/// Both launches of tiled routing in one, with a grid-wide barrier between them.
struct RouteAndPlaceTiles {
  experts::TokenChoices choices;
  int tiles = 1;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, InOut<u16, 2> counts,
                  InOut<u32, 2> pairs, experts::PlacementSegments segments, InOut<i32, 2> ids,
                  InOut<f32, 2> weights, experts::PlacementRows rows, Scalar<i32> capacity) const {
    experts::RouteTiles{choices}(logits, bias, counts, ids, weights, rows.row_of);
    grid_barrier();
    experts::PlaceTiles{choices.shape, tiles}(ids, pairs, segments, rows, capacity);
  }
};

/// Routing by softmax over the chosen experts in a given form, per number of experts and k.
class RoutingForm {
 public:
  /// `code`: tokens per tile + 1000 * tiles per program of the second launch; one launch from
  /// kOneLaunch on.
  RoutingForm(int experts, int k, int code)
      : RoutingForm({routers::qwen3(k), {.experts = experts, .k = k, .block = code % 1000}},
                    code / 1000 % 100, code >= kOneLaunch) {}

  void run(const Stream& s, const Tensor& logits, const MoeRouting& r, const Tensor& counts) const {
    if (is_one_launch_) {
      both_(s, logits, {}, counts, experts::pairs_of(counts), r.offsets, r.first_tiles, kRows,
            kRows, r.ids, r.weights, r.row_of, r.slot_of, -1);
    } else {
      route_(s, logits, {}, counts, r.ids, r.weights, r.row_of);
      place_(s, r.ids, experts::pairs_of(counts), r.offsets, r.first_tiles, kRows, kRows, r.row_of,
             r.slot_of, -1);
    }
  }

 private:
  static constexpr int kOneLaunch = 100'000, kRows = 128;
  RoutingForm(const experts::TokenChoices& c, int tiles, bool is_one_launch)
      : is_one_launch_(is_one_launch),
        route_(kernel("moe_route", experts::RouteTiles{c})
                   .with_plan(warps(experts::routing_warps(c.shape.block, c.shape.experts)))),
        place_(kernel("moe_place", experts::PlaceTiles{c.shape, tiles})
                   .with_plan(warps(experts::kPlacingWarps))),
        both_(
            kernel("moe_route", RouteAndPlaceTiles{c, tiles})
                .with_plan(warps(std::max(experts::kPlacingWarps,
                                          experts::routing_warps(c.shape.block, c.shape.experts))))
                .may_alias()) {}
  static std::string warps(int number) {
    return fmt::format("num_warps={} min_ctas_per_sm=1", number);
  }

  bool is_one_launch_;
  decltype(kernel("", experts::RouteTiles{})) route_;
  decltype(kernel("", experts::PlaceTiles{})) place_;
  decltype(kernel("", RouteAndPlaceTiles{})) both_;
};

/// logits, the tensors of MoeRouting, counts [tiles of tokens, experts]; number: the form's code.
void run_routing_form(const Stream& s, Tensors t, double code) {
  static std::map<std::tuple<std::int64_t, std::int64_t, int>, RoutingForm> forms;
  const int number = static_cast<int>(code);
  const auto experts = static_cast<int>(t[0].size(1)), k = static_cast<int>(t[1].size(1));
  forms.try_emplace({experts, k, number}, experts, k, number)
      .first->second.run(s, t[0], routing_of(t, 1), t[7]);
}

/// X, logits, up, down, Y; number: k.
void run_layer(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k).from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4]);
}
/// X, logits, up, down, Y, the scales of up and down, and for ExpertScaling::tensor those of X and
/// the activations; 8-bit experts. number: k, plus kNumber for fp32_promotion.
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
/// X, logits, up, down, Y, the tensors of MoeSaved; number: k.
void run_training_forward(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k)
      .from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4], {routing_of(t, 5), t[11]});
}
/// X, logits, up, down, dY, the tensors of MoeSaved, gradients of X, logits, up, down; number: k.
void run_backward(const Stream& s, Tensors t, double k) {
  layer_of(t[1].size(1), k)
      .backward(s, t[0], t[1], {.up = t[2], .down = t[3]}, {routing_of(t, 5), t[11]}, t[4],
                {.X = t[12], .logits = t[13], .up = t[14], .down = t[15]});
}

/// Candidate tiles of the two GEMMs, by number (bench/moe_suites.py).
struct TilePair {
  ExpertTileConfig up, down;
};
constexpr ExpertTileConfig kUp{.bm = 128, .bn = 128}, kDown{.bm = 128, .bn = 256};
constexpr ExpertTileConfig with_swap_ab(int rows, int columns = 128) {
  return {.bm = rows, .bn = columns, .swap_ab = true};
}
constexpr TilePair kExpertTiles[] = {
    {kUp, kDown},  // what a layer with many rows uses
    // Some leave room for two CTAs on an SM: one stores while the other multiplies.
    {{.bm = 64, .bn = 128}, kDown},
    {{.bm = 256, .bn = 64}, kDown},
    {{.bm = 128, .bn = 64, .stages = 3}, kDown},
    {kUp, {.bm = 128, .bn = 128}},
    {kUp, {.bm = 128, .bn = 128, .stages = 3}},
    {kUp, {.bm = 64, .bn = 256, .stages = 2}},
    {kUp, {.bm = 256, .bn = 128}},
    {kUp, {.bm = 128, .bn = 192}},
    // Tile heights for few rows per expert.
    {with_swap_ab(32), with_swap_ab(32)},
    {with_swap_ab(64), with_swap_ab(64)},
    {with_swap_ab(128), with_swap_ab(128)},
    {{.bm = 64, .bn = 128, .stages = 2}, {.bm = 64, .bn = 256, .stages = 2}},
    // Concurrent tiles share operands in L2 in groups of different heights.
    {{.bm = 128, .bn = 128, .group_m = 1}, {.bm = 128, .bn = 256, .group_m = 1}},
    {{.bm = 128, .bn = 128, .group_m = 16}, {.bm = 128, .bn = 256, .group_m = 16}},
    // Heights for which most experts of an even routing have one tile, or two.
    {with_swap_ab(144), with_swap_ab(144)},
    {with_swap_ab(160), with_swap_ab(160)},
    {with_swap_ab(96), with_swap_ab(96)},
    {with_swap_ab(80), with_swap_ab(80)},
    {with_swap_ab(48), with_swap_ab(48)},
    {with_swap_ab(144), kDown},
    {with_swap_ab(80, 192), with_swap_ab(144, 192)},
    {with_swap_ab(48, 64), with_swap_ab(48, 64)},
    {with_swap_ab(16, 64), with_swap_ab(16, 64)},
    // Rings of three stages leave room to transpose results through shared memory.
    {{.bm = 144, .bn = 128, .swap_ab = true, .stages = 3},
     {.bm = 144, .bn = 128, .swap_ab = true, .stages = 3}},
    // Rows gathered by the first product.
    {{.bm = 128, .bn = 128, .gathers = true}, kDown},
    {{.bm = 144, .bn = 128, .swap_ab = true, .gathers = true}, kDown},
    {{.bm = 16, .bn = 128, .swap_ab = true, .gathers = true}, with_swap_ab(16)},
    {{.bm = 48, .bn = 128, .swap_ab = true, .gathers = true}, with_swap_ab(48)},
    // Gathered rows combined with multicast weights.
    {{.bm = 128, .bn = 128, .gathers = true, .multicast = true}, kDown},
    {{.bm = 144, .bn = 128, .swap_ab = true, .gathers = true, .multicast = true}, kDown}};

/// X, logits, up, down, Y; number: k + kNumber * number of the tiles.
void run_tiled_layer(const Stream& s, Tensors t, double code) {
  static std::map<std::pair<std::int64_t, double>, Moe> layers;
  const int number = static_cast<int>(code) / kNumber, k = static_cast<int>(code) % kNumber;
  const auto make = [&] {
    return moe({.router = routers::qwen3(k),
                .experts = static_cast<int>(t[1].size(1)),
                .tiles = {.up = kExpertTiles[number].up, .down = kExpertTiles[number].down}});
  };
  auto found = layers.find({t[1].size(1), code});
  if (found == layers.end()) found = layers.emplace(std::pair{t[1].size(1), code}, make()).first;
  found->second.from_logits(s, t[0], t[1], {.up = t[2], .down = t[3]}, t[4]);
}

}  // namespace

void add_moe_cases(std::vector<Case>& list) {
  list.push_back({"moe_router", run_router});
  list.push_back({"moe_router_deepseek_v3", run_deepseek_router});
  list.push_back({"moe_routing_form", run_routing_form});
  list.push_back({"moe", run_layer});
  list.push_back({"moe_fp8", run_quantised_layer});
  list.push_back({"moe_tiles", run_tiled_layer});
  list.push_back({"moe_training_forward", run_training_forward});
  list.push_back({"moe_backward", run_backward});
}

}  // namespace tegula::bench
