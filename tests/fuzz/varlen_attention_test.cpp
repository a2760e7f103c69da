// Random batches of packed sequences with few queries, on the interpreter and on the simulator: no
// finding of any detector, values as the reference has them. TEGULA_FUZZ_PROGRAMS and
// TEGULA_FUZZ_SEED choose how many and which.
#include "tests/differential/attention/varlen_tensors.h"
#include "tests/fuzz/random_attention.h"

namespace tegula::test::varlen_attention_test {
namespace {

/// One batch: a configuration of the call, whose extents are those of one sequence.
struct Batch {
  Config config;
  Lengths lengths;

  std::string str() const {
    std::string text = config.str();
    if (config.schedule.split_kv) text += *config.schedule.split_kv > 1 ? " divided" : " undivided";
    text += ", sequences";
    for (std::size_t b = 0; b < lengths.q.size(); ++b)
      text += " " + std::to_string(lengths.q[b]) + "/" + std::to_string(lengths.kv[b]);
    return text;
  }
};

/// Tables that masks and scores capture have this many positions.
constexpr int kLongest = 399;

/// Lengths next to those of blocks of keys, none, and any. Sequences without queries, whose keys
/// and values are not finite, follow some of them.
Lengths random_lengths(Dice& dice, int queries, bool at_end) {
  const int sequences = dice.between(1, 7);
  Lengths l;
  for (int b = 0; b < sequences; ++b) {
    const int near = dice.one_of<int>({64, 128, 192}) + dice.between(-1, 1),
              kv = dice.one_of<int>({0, 1, near, near, dice.between(1, 300), kLongest}),
              q = dice.one_in(6) ? 0 : dice.between(1, queries);
    l.kv.push_back(kv);
    l.q.push_back(at_end ? std::min(q, kv) : q);
    if (dice.one_in(2)) l.kv.push_back(dice.between(0, 70)), l.q.push_back(0);
  }
  return l;
}

Batch random_batch(Dice& dice, Device device) {
  Batch b;
  Config& c = b.config;
  Extents& e = c.extents;
  const int group = dice.one_of<int>({1, 1, 3, 4, 5, 8, 8, 16, 71}),
            queries = dice.one_of<int>({1, 1, dice.between(2, 8), dice.between(1, 32)});
  e.kv_heads = group > 4 ? 1 : dice.between(1, 2), e.heads = e.kv_heads * group;
  e.dim = dice.one_of<int>({64, 64, 80, 128, 192, 256});
  e.head_dim_v = dice.one_in(4) ? 8 * dice.between(1, 24) : e.dim;
  const bool at_end = dice.one_in(2);
  b.lengths = random_lengths(dice, group > 8 ? 1 : queries, at_end);
  e.batch = std::ssize(b.lengths.q);
  c.dtype = dice.one_in(2) ? DType::bf16 : DType::f16;
  choose_mask(c, dice, device);
  choose_score(c, dice, device);
  c.spec.align_bottom_right = at_end;
  if (dice.one_in(3))
    for (int h = 0; h < e.heads; ++h) c.sinks.push_back(0.25f * static_cast<float>(h % 8 - 1));
  if (!dice.one_in(4)) c.schedule.split_kv = dice.one_in(3) ? 1 : 8;
  if (dice.one_in(4)) c.schedule.pack_gqa = dice.one_in(2);
  if (dice.one_in(5)) c.schedule.keys_in_m = false;
  c.plan =
      dice.one_of<std::string>({"", "", "", "stages=2", "producer_warps=1 consumer_registers=0",
                                "producer_warps=0 consumer_registers=0",
                                "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0"});
  return b;
}

void run_batch(const Batch& b, Device device) {
  Env planned = env();
  planned.plan = b.config.plan;
  const EnvOverride scope(planned);
  const Config& c = b.config;
  const Extents& e = c.extents;
  const Packed p(b.lengths, e.heads, e.kv_heads, e.dim, e.head_dim_v, c.dtype, device);
  p.spoil_unattended();
  HostAttention host = c.host;
  if (!c.sinks.empty()) host.sink = [&](int h) { return c.sinks[static_cast<std::size_t>(h)]; };
  const auto shift = [&](int of) {
    const auto i = static_cast<std::size_t>(of);
    return c.spec.align_bottom_right ? b.lengths.kv[i] - b.lengths.q[i] : 0;
  };
  host.mask = [&](int of, int h, int q, int kv) { return c.host.mask(of, h, q + shift(of), kv); };
  host.score = [&](double s, int of, int h, int q, int kv) {
    return c.host.score(s, of, h, q + shift(of), kv);
  };
  p.run(Attention(c.spec, c.schedule, c.numerics),
        c.sinks.empty() ? Tensor() : Tensor::from(c.sinks, device));
  p.expect(host);
}

class RandomVarlen : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, RandomVarlen, testing::Values(Device::cpu(), Device::sim()),
                         device_name);

TEST_P(RandomVarlen, EqualsAttentionInDoubles) {
  const bool is_sim = GetParam().kind == DeviceKind::sim;  // takes longer: the last 10 of 60
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", is_sim ? 51 : 1),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", is_sim ? 10 : 50);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Dice dice(seed);
    const Batch b = random_batch(dice, GetParam());
    SCOPED_TRACE("TEGULA_FUZZ_SEED=" + std::to_string(seed) +
                 " TEGULA_FUZZ_PROGRAMS=1: " + b.str());
    try {
      run_batch(b, GetParam());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::varlen_attention_test
