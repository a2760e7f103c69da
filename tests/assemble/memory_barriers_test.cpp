// Barriers of releases and acquires in the PTX of both back ends: one comes before a release,
// unless the releasing thread has itself done all the accesses that it publishes; one comes after
// an acquire.
#include <cctype>
#include <sstream>

#include "runtime/nvrtc.h"
#include "tests/assemble/assembled.h"

namespace tegula::memory_barriers_test {
namespace {

using namespace test;

std::string ptx_of(const ir::Kernel& tile, runtime::Backend backend) {
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  request.backend = backend;
  runtime::Compilation k = optimized(tile, request);
  runtime::emit(k, request);
  if (backend == runtime::Backend::Llvm) return k.emitted.ptx;
  return runtime::ptx_of_cuda(
      {.source = k.emitted.source, .name = "kernel.cu", .target = "sm_90a", .options = {}});
}

/// Accesses to global memory, in the order of the text, neighbours of a kind as one but for
/// barriers: B barrier, R release, A acquire, X both, G another access.
std::string events_of(const std::string& ptx) {
  std::string events;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&](const char* text) { return line.find(text) != line.npos; };
    const bool is_atomic = has("atom.") || has("\tred.") || has(" red.");
    const char event = has("bar.sync") || has("barrier.sync")              ? 'B'
                       : is_atomic && has(".acq_rel.")                     ? 'X'
                       : is_atomic && has(".release.")                     ? 'R'
                       : is_atomic && has(".acquire.")                     ? 'A'
                       : is_atomic || has("ld.global") || has("st.global") ? 'G'
                                                                           : ' ';
    if (event != ' ' && (event == 'B' || events.empty() || events.back() != event)) events += event;
  }
  return events;
}

/// The values that a program has: the box i of x and y, words, and its number.
struct ProgramValues {
  In<f32, 1> x;
  InOut<f32, 1> y;
  Ptr<i32> p;
  Index i;
  Tile n;
};

template <class Body>
void expect_events(const std::string& wanted, const Body& body) {
  const auto call = [&] {
    const auto k = kernel("k", [&](In<f32, 1> x, InOut<f32, 1> y, Ptr<i32> p) {
      for (auto i : grid(x, 4096)) body(ProgramValues{x, y, p, i, cast<i32>(i.first()) / 4096});
    });
    k(Tensor::zeros({8192}, DType::f32, Device::cpu()),
      Tensor::zeros({8192}, DType::f32, Device::cpu()),
      Tensor::zeros({64}, DType::i32, Device::cpu()));
  };
  const ir::Kernel tile = traced("k", call);
  for (const runtime::Backend backend : here())
    EXPECT_EQ(events_of(ptx_of(tile, backend)), wanted) << name(backend);
}

TEST(MemoryBarriers, OneBeforeARelease) {
  expect_events("GBR", [](ProgramValues t) {
    t.y(t.i) = t.x(t.i);
    atomic_xchg(t.p + t.n, 1, {}, MemoryOrder::release);
  });
}
TEST(MemoryBarriers, OneForAllThatARoundOfReleasesPublishes) {
  expect_events("GBR", [](ProgramValues t) {
    t.y(t.i) = t.x(t.i);
    atomic_add(t.p + arange(32) + t.n, 1, {}, MemoryOrder::release);
  });
}
TEST(MemoryBarriers, NoneWhereOneThreadHasWrittenAll) {
  expect_events("GR", [](ProgramValues t) {
    store(t.p + t.n, 7);
    atomic_xchg(t.p + t.n + 8, 1, {}, MemoryOrder::release);
  });
}
TEST(MemoryBarriers, OneAfterAnAcquire) {
  expect_events("ABG", [](ProgramValues t) {
    atomic_xchg(t.p + t.n, 1, {}, MemoryOrder::acquire);
    t.y(t.i) += t.x(t.i);
  });
}
/// All threads receive the result after the second barrier. The first one precedes the acquire.
TEST(MemoryBarriers, OneAfterAnAcquireWithAUsedResult) {
  expect_events("BABG", [](ProgramValues t) {
    t.y(t.i) += cast<f32>(atomic_xchg(t.p + t.n, 1, {}, MemoryOrder::acquire));
  });
}
TEST(MemoryBarriers, BothOfOneThatReleasesAndAcquires) {
  expect_events("GBXBG", [](ProgramValues t) {
    t.y(t.i) = t.x(t.i);
    atomic_xchg(t.p + t.n, 1, {}, MemoryOrder::acq_rel);
    t.y(t.i) += 1.0f;
  });
}
TEST(MemoryBarriers, NoneOfARelaxedOne) {
  expect_events("G", [](ProgramValues t) {
    t.y(t.i) = t.x(t.i);
    atomic_xchg(t.p + t.n, 1);
  });
}
/// The accesses that a lock guards are between a barrier after its acquire and one before its
/// release.
TEST(MemoryBarriers, BarriersOfALock) {
  expect_events("BABGBR", [](ProgramValues t) {
    while_([&] { return atomic_xchg(t.p + t.n, 1, {}, MemoryOrder::acquire) == 1; }, [&] {});
    t.y(t.i) += t.x(t.i);
    atomic_xchg(t.p + t.n, 0, {}, MemoryOrder::release);
  });
}

}  // namespace
}  // namespace tegula::memory_barriers_test
