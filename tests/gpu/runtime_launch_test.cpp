// The runtime on a real GPU: loading, launching, memory, TMA, graph capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>
#include <thread>

#include "runtime/context.h"
#include "runtime/launch.h"
#include "runtime/nvrtc.h"
#include "runtime/tensor_map.h"
#include "runtime/workspace.h"
#include "tegula/error.h"
#include "tegula/tensor.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::runtime::runtime_launch_test {
namespace {

using ::testing::HasSubstr;

constexpr Device kGpu = Device::cuda(0);

// Written by hand, so that the launch path is tested without a compiler: y[i] = a * x[i] + y[i] for
// i < n.
constexpr const char* kAxpyPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n) .maxntid 128 {
  .reg .pred %p; .reg .f32 %f<4>; .reg .u32 %r<5>; .reg .u64 %rd<6>;
  ld.param.f32 %f0, [a]; ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 128, %r2;
  setp.ge.u32 %p, %r3, %r0; @%p bra DONE;
  cvta.to.global.u64 %rd0, %rd0; cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd0, %rd2; add.u64 %rd4, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd4]; fma.rn.f32 %f3, %f0, %f1, %f2;
  st.global.f32 [%rd4], %f3;
DONE: ret;
}
)";

// Copies one box of a tensor to `out` through shared memory by TMA.
constexpr const char* kTmaPtx = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy_box(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 c0, .param .u32 c1, .param .u32 bytes)
.maxntid 128 {
  .reg .pred %p; .reg .u32 %r<12>; .reg .u64 %rd<8>; .reg .b64 %state;
  .shared .align 1024 .b8 tile[16384]; .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [c0]; ld.param.u32 %r2, [c1]; ld.param.u32 %r3, [bytes];
  mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0; cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r4, tile; mov.u32 %r5, bar; mov.u32 %r6, %tid.x;
  setp.ne.u32 %p, %r6, 0;
  @%p bra JOIN;
  mbarrier.init.shared::cta.b64 [%r5], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%r5], %r3;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd0, {%r1, %r2}], [%r5];
JOIN:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%r5], 0;
  @!%p bra WAIT;
  mov.u32 %r7, %r6;
LOOP:
  shl.b32 %r8, %r7, 2;
  setp.ge.u32 %p, %r8, %r3; @%p bra DONE;
  add.u32 %r9, %r4, %r8; ld.shared.u32 %r10, [%r9];
  cvt.u64.u32 %rd2, %r8; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r10;
  add.u32 %r7, %r7, 128; bra LOOP;
DONE: ret;
}
)";

struct AxpyArguments {
  float a;
  void* x;
  void* y;
  std::uint32_t n;
};

std::vector<ArgumentSlot> axpy_slots() {
  ArgumentLayout layout;
  layout.add<float>();
  layout.add<void*>();
  layout.add<void*>();
  layout.add<std::uint32_t>();
  return {layout.slots().begin(), layout.slots().end()};
}

const std::byte* block_of(const AxpyArguments& arguments) {
  return reinterpret_cast<const std::byte*>(&arguments);
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) {
      std::string why;
      try_driver(&why);
      GTEST_SKIP() << "no GPU: " << why;
    }
  }
  bool is_hopper() const { return device_properties(0).compute() == 90; }
};

PreparedLaunch axpy_plan(const std::shared_ptr<Module>& module) {
  LaunchShape shape;
  shape.block = {128, 1, 1};
  return PreparedLaunch(module->kernel("axpy", 0, {}), shape, axpy_slots());
}

void expect_axpy_works(const PreparedLaunch& plan, const Stream& stream) {
  constexpr std::int64_t n = 100003;
  const Tensor x = Tensor::integers({n}, DType::f32, -50, 50, 1, kGpu);
  const Tensor y = Tensor::integers({n}, DType::f32, -50, 50, 2, kGpu);
  const std::vector<float> before = y.to_vector<float>();
  const AxpyArguments arguments{3, x.data(), y.data(), static_cast<std::uint32_t>(n)};
  plan.launch(static_cast<cu::Stream>(stream.handle()), block_of(arguments),
              {(n + 127) / 128, 1, 1});
  stream.synchronize();
  const std::vector<float> after = y.to_vector<float>();
  const std::vector<float> in = x.to_vector<float>();
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], 3 * in[i] + before[i]) << i;
}

TEST_F(Gpu, TheDriverIsComplete) {
  for (const MissingEntry& row : driver().missing)
    ADD_FAILURE() << row.symbol << ": " << row.feature;
  const DeviceProperties& p = device_properties(0);
  EXPECT_GE(p.compute(), 80);
  EXPECT_GT(p.sm_count, 0);
  EXPECT_GT(p.l2_bytes, 0u);
  EXPECT_EQ(p.uuid.size(), 32u);
  RecordProperty("gpu", p.name);
}

TEST_F(Gpu, DriverCompilesAndRunsPtx) {
  const auto module = Module::load_ptx(kAxpyPtx, 0);
  expect_axpy_works(axpy_plan(module), Stream(kGpu));
  EXPECT_GT(module->kernel("axpy", 0, {}).resources.registers, 0);
  EXPECT_GT(module->report().registers, 0) << module->compiler_log();
}

TEST_F(Gpu, DriverRefusesBrokenPtxWithItsLog) {
  try {
    const auto module =
        Module::load_ptx(".version 8.0\n.target sm_80\n.address_size 64\n nonsense;\n", 0);
    module->kernel("axpy", 0, {});
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("ptxas"));
  }
}

TEST_F(Gpu, CubinOfPtxasRuns) {
  if (!find_ptxas()) GTEST_SKIP() << missing_ptxas_text();
  const DeviceProperties& p = device_properties(0);
  const Assembled a =
      assemble({kAxpyPtx, "sm_" + std::to_string(p.compute()), {}, std::chrono::seconds(60)});
  const auto module = Module::load_cubin(a.cubin);
  expect_axpy_works(axpy_plan(module), Stream::create(kGpu));
  EXPECT_EQ(module->kernel("axpy", 0, {}).resources.registers, a.report.registers);
}

TEST_F(Gpu, CubinOfNvrtcRuns) {
  std::string why;
  if (!find_nvrtc(&why)) GTEST_SKIP() << why;
  const NvrtcResult r = compile_cuda(
      {"extern \"C\" __global__ void __launch_bounds__(128) axpy(float a, const float* x, float* "
       "y, unsigned n) {\n"
       "  unsigned i = blockIdx.x * 128 + threadIdx.x;\n  if (i < n) y[i] = a * x[i] + y[i];\n}\n",
       "axpy.cu",
       "sm_" + std::to_string(device_properties(0).compute()),
       {}});
  expect_axpy_works(axpy_plan(Module::load_cubin(r.cubin)), Stream(kGpu));
}

TEST_F(Gpu, ForeignCubinIsRefused) {
  if (!find_ptxas()) GTEST_SKIP() << missing_ptxas_text();
  if (!is_hopper()) GTEST_SKIP() << "needs a GPU that is not compute capability 8.6";
  const Assembled a = assemble({kAxpyPtx, "sm_86", {}, std::chrono::seconds(60)});
  EXPECT_THROW(Module::load_cubin(a.cubin)->kernel("axpy", 0, {}), DeviceError);
  EXPECT_THROW(Module::load_cubin(std::string("not a cubin, only some text")), Error);
}

TEST_F(Gpu, ThreadsWithoutContextLaunch) {
  const PreparedLaunch plan = axpy_plan(Module::load_ptx(kAxpyPtx, 0));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] { expect_axpy_works(plan, Stream::create(kGpu)); });
}

TEST_F(Gpu, TensorsKeepTheirLayout) {
  for (const DTypeInfo& info : kDTypeInfo) {
    const Tensor host = Tensor::integers({33, 65}, info.dtype, 0, 2, 3, Device::cpu());
    const Tensor there = host.to(kGpu);
    EXPECT_EQ(there.to_doubles(), host.to_doubles()) << info.name;
    EXPECT_EQ(there.transpose(0, 1).flip(0).to_doubles(), host.transpose(0, 1).flip(0).to_doubles())
        << info.name;
    there.select(0, 5).fill(0);
    host.select(0, 5).fill(0);
    EXPECT_EQ(there.clone().to_doubles(), host.to_doubles()) << info.name;
    EXPECT_EQ(Tensor::zeros({7}, info.dtype, kGpu).to_doubles(), std::vector<double>(7))
        << info.name;
  }
  const Tensor a = Tensor::iota({1000}, DType::i32, kGpu);
  EXPECT_EQ(Tensor::from_dlpack(a.to_dlpack()).to_vector<i32>(), a.to_vector<i32>());
}

TEST_F(Gpu, OutOfMemoryIsTyped) {
  try {
    Tensor::empty({std::int64_t{1} << 45}, DType::u8, kGpu);
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.name(), "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_THAT(e.what(), HasSubstr("cannot allocate 35184372088832 bytes of device memory"));
  }
}

TEST_F(Gpu, TensorMapsAddressBoxes) {
  if (!is_hopper()) GTEST_SKIP() << "TMA needs compute capability 9.0";
  const auto module = Module::load_ptx(kTmaPtx, 0);
  ArgumentLayout layout;
  layout.add(128, 64);
  layout.add<void*>();
  for (int i = 0; i < 3; ++i) layout.add<std::uint32_t>();
  LaunchShape shape;
  shape.block = {128, 1, 1};
  const PreparedLaunch plan(module->kernel("copy_box", 0, {}), shape, layout.slots());
  const Tensor source = Tensor::iota({300, 256}, DType::i32, kGpu);
  for (const int swizzle : {0, 32, 64, 128}) {
    codegen::TensorMap map;
    map.base = source.data();
    map.dtype = DType::i32;
    map.dims[0] = 256;
    map.dims[1] = 300;
    map.strides[0] = 4;
    map.strides[1] = 1024;
    map.box[0] = swizzle == 0 ? 32 : swizzle / 4;
    map.box[1] = 20;
    map.swizzle = swizzle;
    const std::uint32_t bytes = static_cast<std::uint32_t>(codegen::box_bytes(map));
    const Tensor out = Tensor::zeros({20, map.box[0]}, DType::i32, kGpu);
    struct Arguments {
      cu::TensorMap map;
      void* out;
      std::int32_t column, row;
      std::uint32_t bytes;
    } arguments{{}, out.data(), 240, 290, bytes};
    static_assert(offsetof(Arguments, out) == 128 && offsetof(Arguments, bytes) == 144);
    encode_tensor_map(map, &arguments.map);
    plan.launch(nullptr, reinterpret_cast<const std::byte*>(&arguments), {1, 1, 1});
    const std::vector<i32> got = out.to_vector<i32>();
    for (int r = 0; r < 20; ++r)
      for (int c = 0; c < map.box[0]; ++c) {
        const bool inside = 290 + r < 300 && 240 + c < 256;
        const auto at = static_cast<std::uint32_t>(r * map.box[0] + c) * 4;
        ASSERT_EQ(got[codegen::swizzled(at, swizzle) / 4], inside ? (290 + r) * 256 + 240 + c : 0)
            << "swizzle " << swizzle << " row " << r << " column " << c;
      }
  }
}

TEST_F(Gpu, CaptureRecordsLaunchesWithMemoryOfTheGraph) {
  const PreparedLaunch plan = axpy_plan(Module::load_ptx(kAxpyPtx, 0));
  const Tensor x = Tensor::full({128}, 1, DType::f32, kGpu);
  const Tensor y = Tensor::zeros({128}, DType::f32, kGpu);
  const Stream stream = Stream::create(kGpu);
  auto* queue = static_cast<cu::Stream>(stream.handle());
  const Workspace before = acquire_workspace(stream, 1 << 16, 16);
  const AxpyArguments arguments{2, x.data(), y.data(), 128};
  const ContextScope scope(0);
  std::byte* of_graph = nullptr;
  std::uint32_t* counters = nullptr;
  auto graph = std::make_optional<test::RecordedGraph>(stream, [&] {
    EXPECT_TRUE(stream.capturing());
    plan.launch(queue, block_of(arguments), {1, 1, 1});
    of_graph = acquire_workspace(stream, 1 << 26, 16).scratch;
    EXPECT_NE(of_graph, before.scratch);
    EXPECT_EQ(acquire_workspace(stream, 1 << 16, 16).scratch, of_graph);
    counters = acquire_counters(stream, 1 << 18);
  });
  for (int i = 0; i < 3; ++i) graph->replay(stream);
  stream.synchronize();
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(128, 6));
  const auto next_graphs = [&] {
    std::pair<std::byte*, std::uint32_t*> memory;
    const test::RecordedGraph next(stream, [&] {
      memory = {acquire_workspace(stream, 1 << 26, 0).scratch, acquire_counters(stream, 1 << 18)};
    });
    return memory;
  };
  const auto others = next_graphs();
  EXPECT_NE(others.first, of_graph) << "which an instance of the first graph has";
  EXPECT_NE(others.second, counters);
  graph.reset();
  // The driver reports the destruction of a graph later, on a separate thread.
  bool is_back = false;
  for (int attempt = 0; attempt < 200 && !is_back; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    is_back = next_graphs() == std::pair(of_graph, counters);
  }
  EXPECT_TRUE(is_back);
  const Tensor left = Tensor::borrow(counters, {1 << 18}, DType::u32, kGpu);
  EXPECT_EQ(left.to_vector<u32>(), std::vector<u32>(1 << 18, 0));
}

/// Kernels that have never run are loaded, their memory allocated and cleared while the stream
/// records, even in the strictest mode, which is PyTorch's.
TEST_F(Gpu, GlobalCaptureLoadsAndAllocates) {
  const Tensor x = Tensor::full({128}, 1, DType::f32, kGpu);
  const Tensor y = Tensor::zeros({128}, DType::f32, kGpu);
  const Stream stream = Stream::create(kGpu);
  const ContextScope scope(0);
  std::uint32_t* counters = nullptr;
  const test::RecordedGraph graph(
      stream,
      [&] {
        const PreparedLaunch plan = axpy_plan(Module::load_ptx(kAxpyPtx, 0));
        counters = acquire_counters(stream, 1 << 20);
        // More than other tests' graphs leave.
        EXPECT_NE(acquire_workspace(stream, 1 << 27, 0).scratch, nullptr);
        plan.launch(static_cast<cu::Stream>(stream.handle()),
                    block_of(AxpyArguments{2, x.data(), y.data(), 128}), {1, 1, 1});
      },
      cu::kCaptureGlobal);
  graph.replay(stream);
  stream.synchronize();
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(128, 2));
  const Tensor cleared = Tensor::borrow(counters, {1 << 20}, DType::u32, kGpu);
  EXPECT_EQ(cleared.to_vector<u32>(), std::vector<u32>(1 << 20, 0));
}

TEST_F(Gpu, LaunchAddsLittleToTheDriversCall) {
  const PreparedLaunch plan = axpy_plan(Module::load_ptx(kAxpyPtx, 0));
  const Tensor x = Tensor::zeros({128}, DType::f32, kGpu);
  const Stream stream = Stream::create(kGpu);
  auto* queue = static_cast<cu::Stream>(stream.handle());
  AxpyArguments arguments{0, x.data(), x.data(), 128};
  void* pointers[] = {&arguments.a, &arguments.x, &arguments.y, &arguments.n};
  cu::LaunchConfig config{};
  config.grid_x = config.grid_y = config.grid_z = 1;
  config.block_x = 128;
  config.block_y = config.block_z = 1;
  config.stream = queue;
  const ContextScope scope(0);
  const auto time = [&](auto launch) {  // us a call, the queue never full
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) launch();
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count() /
        200;
    stream.synchronize();
    return us;
  };
  double raw = 1e9, ours = 1e9;
  for (int round = 0; round < 200; ++round) {
    raw = std::min(raw, time([&] {
                     driver().launch_kernel(&config, plan.kernel().function, pointers, nullptr);
                   }));
    ours = std::min(ours, time([&] { plan.launch(queue, block_of(arguments), {1, 1, 1}); }));
  }
  RecordProperty("raw_us", std::to_string(raw));
  RecordProperty("ours_us", std::to_string(ours));
  std::cout << "launch: driver " << raw << " us, ours " << ours << " us\n";
  EXPECT_LT(ours - raw, 0.15);
}

TEST_F(Gpu, TensorMapCacheAgainstEncoding) {
  if (!is_hopper()) GTEST_SKIP() << "TMA needs compute capability 9.0";
  const Tensor t = Tensor::empty({256, 256}, DType::bf16, kGpu);
  codegen::TensorMap map;
  map.base = t.data();
  map.dims[0] = map.dims[1] = 256;
  map.strides[0] = 2;
  map.strides[1] = 512;
  map.box[0] = map.box[1] = 64;
  map.swizzle = 128;
  TensorMapCache cache;
  cu::TensorMap encoded;
  const auto time = [](auto act) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20000; ++i) act();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
               .count() /
           20000;
  };
  std::uint64_t sum = 0;
  const double encode_ns = time([&] { encode_tensor_map(map, &encoded); });
  cu::TensorMap cached;
  const double cached_ns = time([&] {
    cache.get(map, reinterpret_cast<std::byte*>(&cached));
    sum += cached.opaque[0];
  });
  EXPECT_EQ(cache.misses(), 1);
  EXPECT_EQ(sum, encoded.opaque[0] * 20000);
  std::cout << "tensor map: encode " << encode_ns << " ns, cached " << cached_ns << " ns\n";
}

}  // namespace
}  // namespace tegula::runtime::runtime_launch_test
