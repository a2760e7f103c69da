// Paged attention for GPUs before Hopper, by cp.async and mma.sync, compiled for sm_80 and run in
// the simulator; twin on a GPU: tests/gpu/paged_sm_80_test.cpp.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/paged_launch.h"

namespace tegula::test::paged_sm_80_test {
namespace {

TEST(PagedSm80, EqualsAttentionInDoubles) {
  for (const OlderPath& of : older_paths()) {
    SCOPED_TRACE(testing::Message() << of.extents.rows << " rows, packed " << of.packs);
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.target = ir::Target("sm_80");
    const runtime::Compilation k = optimized(traced_paged(of.extents, of.lengths), request);
    EXPECT_FALSE(k.plan.wgmma);
    const auto has = [&](ir::Opcode opcode) {
      return ir::any_op(k.simt, k.simt.body(),
                        [&](ir::OpId op) { return k.simt[op].opcode == opcode; });
    };
    EXPECT_TRUE(has(ir::Opcode::Mma) && has(ir::Opcode::CpAsync));
    EXPECT_FALSE(has(ir::Opcode::TmaLoad) || has(ir::Opcode::MbarInit));
    const PagedRequests p(of.extents, of.lengths, Device::sim());
    const PagedLaunch launch(p, of.packs);
    finished(k)->launch(Stream(Device::sim()), launch.args);
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv; };
    p.expect(host);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::paged_sm_80_test
