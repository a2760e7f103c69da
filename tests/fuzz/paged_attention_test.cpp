// Random batches of requests with caches in pages, on the interpreter and on the simulator.
#include <cstdint>

#include "tests/fuzz/random_paged_attention.h"

namespace tegula::test::paged_attention_test {
namespace {

class RandomPagedAttention : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, RandomPagedAttention,
                         testing::Values(Device::cpu(), Device::sim()), device_name);

TEST_P(RandomPagedAttention, EqualsAttentionInDoubles) {
  run_batches(40, GetParam(), [](std::uint64_t, Dice& dice) {
    return random_batch(CacheAxes::random(dice), dice, GetParam());
  });
}

/// The whole grid has 315 points: 9 numbers of rows, 7 groups, 5 head dims.
TEST_P(RandomPagedAttention, GridEqualsAttentionInDoubles) {
  run_batches(2, GetParam(), [](std::uint64_t seed, Dice& dice) {
    return random_batch(CacheAxes::of_grid(seed), dice, GetParam());
  });
}

/// Prompts and decoding requests in one call by a work list.
TEST_P(RandomPagedAttention, MixedStepsEqualAttentionInDoubles) {
  run_batches(10, GetParam(), [](std::uint64_t, Dice& dice) {
    const CacheAxes axes = CacheAxes::random(dice);
    RandomBatch b = random_batch(axes, dice, GetParam());
    b.config.schedule.tiles = std::nullopt, b.config.schedule.pack_gqa = std::nullopt;
    b.lengths = mixed_lengths(dice, axes.dim > 128 ? 1 : std::max(32 / axes.group, 1), axes.group);
    b.config.extents.batch = std::ssize(b.lengths.q), b.has_list = true;
    return b;
  });
}

}  // namespace
}  // namespace tegula::test::paged_attention_test
