// The form of paged attention for GPUs before Hopper, assembled for the GPU that is present; twin:
// tests/differential/attention/paged_sm_80_test.cpp.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/paged_launch.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::paged_sm_80_gpu_test {
namespace {

class PagedSm80OnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, PagedSm80OnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PagedSm80OnGpu, EqualsAttentionInDoubles) {
  const Device gpu = Device::cuda();
  for (const OlderPath& of : older_paths()) {
    SCOPED_TRACE(testing::Message() << of.extents.rows << " rows, packed " << of.packs);
    runtime::CompileRequest request;
    request.device = gpu;
    request.target = ir::Target("sm_80");
    runtime::Compilation k;
    runtime::key(k, request);
    k.assembler_target = "sm_" + std::to_string(runtime::device_properties(gpu.index).compute());
    k.tile = traced_paged(of.extents, of.lengths);
    k.name = k.tile.info.name;
    runtime::optimize(k, request);
    EXPECT_FALSE(k.plan.wgmma);
    runtime::emit(k, request);
    runtime::assemble(k, request);
    if (of.packs) {
      EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
    }
    const PagedRequests p(of.extents, of.lengths, gpu);
    const PagedLaunch launch(p, of.packs);
    const Stream stream(gpu);
    runtime::finish(std::move(k))->launch(stream, launch.args);
    stream.synchronize();
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv; };
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::paged_sm_80_gpu_test
