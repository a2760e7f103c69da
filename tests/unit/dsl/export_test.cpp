// Arguments of the C interface cost no allocation, and each export is made once.
#include "tegula/export.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dsl/export/arguments.h"
#include "dsl/export/exported.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/counted_allocations.h"

using namespace tegula;

namespace {

std::atomic<int> g_made = 0;

Exportable made() {
  ++g_made;
  const auto k = kernel("mix", [](In<f32, 2> a, Scalar<f32> s, int n, Ptr<f32> p, Out<f32, 2> o,
                                  std::optional<In<f32, 1>> b) {
    for (auto [r, c] : grid(o, 8, 8)) o(r, c) = a(r, c) * s + static_cast<float>(n) + load(p);
    (void)b;
  });
  return exportable(k);
}

}  // namespace

TEGULA_EXPORT(mix, made());

namespace {

struct Call {
  std::int64_t shape[2] = {2, 2};
  float values[8] = {};
  DLTensor in{values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0}, out = in;
  TegulaArg args[5] = {{TEGULA_TENSOR, 0, {.tensor = &in}},
                       {TEGULA_FLOAT, 0, {.f = 2}},
                       {TEGULA_INT, 0, {.i = -3}},
                       {TEGULA_POINTER, 0, {.pointer = values}},
                       {TEGULA_TENSOR, 0, {.tensor = &out}}};
};

TEST(Export, MakesItsCallableOnceAtTheFirstUse) {
  const TegulaCallable* mix = tegula_find("mix");
  EXPECT_EQ(g_made, 0);
  std::vector<std::thread> threads;
  std::array<const TegulaSignature*, 4> seen{};
  for (auto& s : seen) threads.emplace_back([&s, mix] { s = tegula_signature(mix); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(g_made, 1);
  for (const TegulaSignature* s : seen) EXPECT_EQ(s, seen[0]);
}

TEST(Export, PacksArgumentsWithoutAllocating) {
  const Call call;
  const auto& callee = *c::find_exported("mix");
  const c::Arguments first(callee, call.args);  // makes the callable and reads the environment
  const int before = tegula::test::allocations();
  const c::Arguments packed(callee, call.args);
  EXPECT_EQ(tegula::test::allocations() - before, 0);
  const auto args = packed.host();
  ASSERT_EQ(args.size(), 6u);
  EXPECT_EQ(args[0].tensor->shape(), (Dims{2, 2}));
  EXPECT_EQ(args[1].bits, detail::bits_of(2.0f));
  EXPECT_EQ(args[2].bits, detail::bits_of(-3));
  EXPECT_EQ(args[2].kind, detail::ParamKind::Constant);
  EXPECT_EQ(args[3].bits, detail::bits_of(&call.values[0]));
  EXPECT_EQ(args[5].tensor, nullptr);
}

TEST(Export, ErrorsAreOfTheirThread) {
  EXPECT_EQ(tegula_find("nobody"), nullptr);
  std::thread([] { EXPECT_EQ(tegula_last_error()->code, TEGULA_OK); }).join();
  EXPECT_EQ(tegula_last_error()->code, TEGULA_ARGUMENT);
}

/// A library that is closed takes its names along; the first of one name counts.
TEST(Export, NamesLiveAsLongAsTheirLibrary) {
  const TegulaCallable* first = tegula_find("mix");
  {
    const char& headers = detail::Headers<
        detail::export_layout()>::is_built_with_another_version_of_tegula_and_must_be_rebuilt;
    const detail::Registered again("mix", &tegula_exported_mix, headers),
        more("more", &tegula_exported_mix, headers);
    EXPECT_EQ(tegula_list(nullptr, 0), 2);
    EXPECT_EQ(tegula_find("mix"), first);
    EXPECT_NE(tegula_find("more"), nullptr);
  }
  EXPECT_EQ(tegula_find("more"), nullptr);
  EXPECT_EQ(tegula_list(nullptr, 0), 1);
}

}  // namespace
