// Attention to parts of the keys, combined: as attention to all of them.
#include "tegula/kernels/attention_state.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::merge_states_test {
using namespace kernels;
namespace {

class MergeStates : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MergeStates, testing::ValuesIn(devices()), device_name);

/// Parts by remainders of the position: some rows have no key in a part, others in none.
TEST_P(MergeStates, DisjointKeys) {
  const Lengths lengths{{1, 9, 3, 0}, {1, 20, 3, 5}};
  for (const int count : {1, 2, 4}) {
    SCOPED_TRACE(count);
    const PagedRequests p({.dim = 80, .head_dim_v = 80}, lengths, GetParam());
    std::vector<AttentionState> parts;
    for (int i = 0; i < count; ++i) {
      const AttentionState part{Tensor::full(p.O.shape(), NAN, DType::bf16, GetParam()),
                                Tensor::full(p.Lse.shape(), -INFINITY, DType::f32, GetParam())};
      const Attention attention(
          {.mask = [=](Tile, Tile, Tile q, Tile kv) { return kv < q - 1 && kv % count == i; }});
      attention.paged(Stream(GetParam()), p.Q, p.cache, part.O, p.batch, {.lse = part.lse});
      parts.push_back(part);
    }
    merge_states(Stream(GetParam()), parts, p.O, p.Lse);
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return kv < q - 1; };
    const Tensor rest = p.O.slice(0, p.q_starts.back(), p.O.size(0));
    for (const double x : rest.to_doubles()) EXPECT_EQ(x, 0) << "a row without keys";
    rest.fill(NAN);
    p.expect(host, false);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::merge_states_test
