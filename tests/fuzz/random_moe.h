#pragma once
// Random layers of experts: scheme, extents, distribution of rows, capacity, tiles, forward and
// backward. Several layers share their options, and so the kernels, for which extents are numbers
// of the run.
#include <iterator>
#include <random>

#include "tests/differential/moe/gradient_run.h"
#include "tests/fuzz/number_from_env.h"

namespace tegula::test::experts {

class RandomLayer {
 public:
  RandomLayer(std::uint64_t seed, Device device) : dice_(seed), device_(device) {}

  LayerCase drawn() {
    LayerCase c;
    c.experts = one_of({1, 2, 3, 5, 7, 8, 16, 33, 64, 160, 256});
    // Kernels differ by the power of two that divides an extent.
    h_unit_ = one_of({8, 16}), i_unit_ = one_of({8, 16});
    draw_extents(c);
    draw_scheme(c);
    draw_activation(c);
    c.has_biases = chance(3), c.shared = chance(4) ? between(1, 2) : 0;
    c.dtype = chance(3) ? DType::f16 : DType::bf16;
    if (chance(4)) c.capacity = ExpertCapacity{.rows = between(0, 20), .by_slot = chance(2)};
    if (chance(2)) c.tiles = {.up = tiles(), .down = tiles()};
    if (chance(3)) draw_quantisation(c);
    c.is_crowded = chance(3);
    if (c.tiles.up && !c.scales_inputs && !c.quantisation) c.tiles.up->gathers = chance(2);
    return c;
  }
  /// Other extents for the same options. A layer with tiles of its own compiles its kernels once,
  /// another one for each height of tiles that a mean of rows requests.
  void draw_extents(LayerCase& c) {
    c.tokens = one_of({0, 1, 2, 15, 16, 17, 40, 63, 64, 65, 100});
    c.h = h_unit_ * (2 * between(1, 6) - 1), c.i = i_unit_ * (2 * between(1, 5) - 1);
  }

 private:
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(dice_); }
  bool chance(int in) { return between(1, in) == 1; }
  int one_of(std::initializer_list<int> set) {
    return *std::next(set.begin(), between(0, static_cast<int>(set.size()) - 1));
  }

  void draw_scheme(LayerCase& c) {
    const int k = between(1, std::min(10, c.experts));
    switch (between(0, 5)) {
      case 0:
        c.router = routers::mixtral(k), c.scheme = mixtral(k);
        break;
      case 1:
        c.router = routers::deepseek_moe(k), c.scheme = deepseek_moe(k);
        break;
      case 2:
        c.router = routers::llama4(), c.scheme = llama4(), c.scales_inputs = true;
        break;
      case 3:
        if (c.experts % 8 == 0) {
          const int in_groups = std::min(k, c.experts / 2);
          c.router = routers::deepseek_v3(Tensor::zeros({c.experts}, DType::f32, device_),
                                          {.k = in_groups, .groups = 4, .kept_groups = 2});
          c.scheme = deepseek_v3({}, in_groups, 4, 2);
          break;
        }
        [[fallthrough]];
      default:
        c.router = routers::qwen3(k), c.scheme = qwen3(k);
    }
  }
  void draw_activation(LayerCase& c) {
    switch (between(0, 4)) {
      case 0:
        c.activation = geglu(), c.host_activation = host_geglu();
        break;
      case 1:
        c.activation = relu_squared(), c.host_activation = host_relu_squared();
        break;
      case 2:
        c.activation = clamped_swiglu(1), c.host_activation = host_clamped_swiglu(1);
        break;
      default:
        return;
    }
    c.is_interleaved = c.host_activation.is_gated && chance(2);
  }
  void draw_quantisation(LayerCase& c) {
    c.quantisation = ExpertQuantisation{chance(2) ? ExpertScaling::row : ExpertScaling::tensor,
                                        /*fp32_promotion=*/chance(4)};
    h_unit_ = i_unit_ = 16;
    draw_extents(c);
  }
  ExpertTileConfig tiles() {
    ExpertTileConfig t{.bm = one_of({16, 32, 48, 64, 80, 128, 144, 192}), .bn = one_of({64, 128})};
    t.swap_ab = t.bm % 64 != 0 || chance(2);
    t.multicast = chance(3);
    return t;
  }

  std::mt19937_64 dice_;
  Device device_;
  int h_unit_ = 8, i_unit_ = 8;
};

/// Layers of each seed on the simulator, where to run takes longer than to compile.
inline constexpr std::uint64_t kLayersOfSeed = 5;

enum class LayerPass : std::uint8_t { forward, both };

/// `count` layers, of seeds from `first` on, each of which makes `of_seed` of them. Experts of 8
/// bits have no backward: of those the forward pass runs alone.
inline void run_random_layers(std::uint64_t first, std::uint64_t count, Device device,
                              std::uint64_t of_seed = kLayersOfSeed,
                              LayerPass pass = LayerPass::forward) {
  for (std::uint64_t n = 0; n < count; n += of_seed) {
    const std::uint64_t seed = first + n / of_seed;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomLayer random(seed, device);
    LayerCase c = random.drawn();
    const Moe layer = moe(c.options());
    for (std::uint64_t i = 0; i < of_seed; ++i, random.draw_extents(c)) {
      if (pass == LayerPass::both && !c.quantisation)
        expect_gradients(layer, c, device, seed % 2 == 0);
      else
        expect_layer(layer, c, device);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace tegula::test::experts
