// Calls of the library that were compiled ahead of time launch what the library launches, with the
// same arguments, from bytes alone: no callable and no trace is asked.
#include <tegula.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "dsl/ahead/table.h"
#include "dsl/instance.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/call_plan.h"
#include "tegula/error.h"
#include "tegula/kernels/export.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/softmax.h"
#include "tegula/report.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::dsl {
using namespace kernels;
namespace {

namespace mocked = runtime::testing;
using Args = std::span<const HostArg>;

constexpr Device kGpu = Device::cuda(0);

ExportParam tensor(const char* name, int rank,
                   tegula::detail::ViewAccess access = tegula::detail::ViewAccess::In) {
  return {{ParamKind::View, DType::bf16, rank, access}, true, name, ""};
}
ExportParam output(const char* name, int rank) {
  return tensor(name, rank, tegula::detail::ViewAccess::Out);
}

/// C = A B^T, with a configuration or as the library chooses.
Exportable product(std::optional<MatmulConfig> config = {}) {
  return {{tensor("A", 2), tensor("B", 2), output("C", 2)},
          [config](const Stream& stream, Args args, Loc at) {
            const Tensor &A = *args[0].tensor, B = args[1].tensor->transpose(0, 1),
                         &C = *args[2].tensor;
            if (config)
              matmul(stream, A, B, C, *config, {}, at);
            else
              matmul(stream, A, B, C, {}, at);
          }};
}

const auto scale_kernel = kernel("scale", [](In<bf16, 2> x, Scalar<f32> by, Out<bf16, 2> y) {
  for (auto [r, c] : grid(y, 8, 64)) y(r, c) = cast<bf16>(cast<f32>(x(r, c)) * by);
});

/// Two callables of the library and a kernel, in turn, the last two by a number of the call.
Exportable normed_and_scaled() {
  return {{tensor("x", 2), tensor("weight", 1),
           ExportParam{{ParamKind::Scalar, DType::f32}, false, "by", ""}, output("y", 2)},
          [](const Stream& stream, Args args, Loc at) {
            const Tensor& y = *args[3].tensor;
            rms_norm(stream, *args[0].tensor, *args[1].tensor, y, 1e-6f, {}, at);
            softmax(stream, y.slice(0, 0, 64), y.slice(0, 64, 128), at);
            float by = 0;
            std::memcpy(&by, &args[2].bits, sizeof by);
            scale_kernel(stream, y.slice(0, 0, 64), 2 * by, y.slice(0, 128, 192));
          }};
}

}  // namespace
}  // namespace tegula::dsl

TEGULA_EXPORT(product, tegula::dsl::product());

namespace tegula::dsl {
namespace {

struct Case {
  std::string name;
  Exportable callable;
  std::vector<std::pair<Dims, DType>> tensors;
  std::optional<float> number;  ///< after the second tensor
};

std::vector<Case> cases() {
  const auto matrices = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return std::vector<std::pair<Dims, DType>>{
        {{m, k}, DType::bf16}, {{n, k}, DType::bf16}, {{m, n}, DType::bf16}};
  };
  const auto attended = [](std::int64_t queries, std::int64_t keys) {
    return std::vector<std::pair<Dims, DType>>{{{1, 8, queries, 128}, DType::f16},
                                               {{1, 1, keys, 128}, DType::f16},
                                               {{1, 1, keys, 128}, DType::f16},
                                               {{1, 8, queries, 128}, DType::f16}};
  };
  return {
      {"product", product(), matrices(512, 256, 512), {}},
      {"repacked", product(), matrices(512, 256, 509), {}},
      {"split-K",
       product(MatmulConfig{.split = SplitK::partials, .parts = 2}),
       matrices(512, 512, 1024),
       {}},
      {"stream-K",
       product(MatmulConfig{.split = SplitK::stream, .parts = 132}),
       matrices(512, 512, 1024),
       {}},
      {"causal", exportable(Attention({.mask = masks::causal()})), attended(256, 256), {}},
      {"few queries", exportable(Attention(AttentionSpec{})), attended(1, 8192), {}},
      {"several callables",
       normed_and_scaled(),
       {{{192, 512}, DType::bf16}, {{512}, DType::bf16}, {{192, 512}, DType::bf16}},
       3.0f},
  };
}

/// Arguments of the C interface for tensors in separate addresses.
struct Call {
  Call(const Case& of, std::uintptr_t at) {
    for (const auto& [shape, dtype] : of.tensors) {
      shapes.push_back(shape);
      const bool is_bf16 = dtype == DType::bf16;
      tensors.push_back({reinterpret_cast<void*>(at),
                         {kDLCUDA, 0},
                         static_cast<std::int32_t>(shape.size()),
                         {static_cast<std::uint8_t>(is_bf16 ? kDLBfloat : kDLFloat), 16, 1},
                         const_cast<std::int64_t*>(shapes.back().begin()),
                         nullptr,
                         0});
      host.push_back(Tensor::borrow(tensors.back().data, shape, dtype, kGpu));
      at += std::uintptr_t{1} << 32;
      if (of.number && tensors.size() == 3) args.push_back({TEGULA_FLOAT, 0, {.f = *of.number}});
      args.push_back({TEGULA_TENSOR, 0, {.tensor = &tensors.back()}});
    }
  }
  /// The same as the callable takes them, tensors that are left out included.
  std::vector<HostArg> of_callable(const Case& of) const {
    std::vector<HostArg> all;
    std::size_t next = 0;
    for (const ExportParam& p : of.callable.params)
      if (p.info.kind == ParamKind::Scalar)
        all.push_back(
            {ParamKind::Scalar, DType::f32, nullptr, tegula::detail::bits_of(*of.number)});
      else if (next < host.size())
        all.push_back(
            {p.info.kind, host[next].dtype(), &host[next],
             p.info.kind == ParamKind::Pointer ? tegula::detail::bits_of(host[next].data()) : 1}),
            ++next;
      else
        all.push_back({ParamKind::View, p.info.dtype, nullptr, 0});
    return all;
  }
  std::deque<Dims> shapes;
  std::deque<DLTensor> tensors;
  std::deque<Tensor> host;
  std::vector<TegulaArg> args;
};

/// Extents of a launch, and the first bytes of each of its machine arguments.
struct Launched {
  std::vector<unsigned> extents;
  std::vector<std::string> arguments;
};
std::vector<Launched>& launched() {
  static std::vector<Launched> all;
  return all;
}
/// The recipes of the launches that are expected, in turn.
std::deque<runtime::LaunchRecipe>& expected() {
  static std::deque<runtime::LaunchRecipe> all;
  return all;
}

runtime::cu::Result note_launch(const runtime::cu::LaunchConfig* c, runtime::cu::Function,
                                void** pointers, void**) {
  Launched& l = launched().emplace_back();
  l.extents = {c->grid_x, c->grid_y, c->grid_z, c->block_x, c->shared_bytes, c->attribute_count};
  if (expected().empty()) return runtime::cu::kSuccess;
  const runtime::LaunchRecipe recipe = expected().front();
  expected().pop_front();
  expected().push_back(recipe);
  for (std::size_t i = 0; i < recipe.args.size(); ++i)
    l.arguments.emplace_back(static_cast<const char*>(pointers[i]),
                             std::min<std::size_t>(recipe.args[i].bytes(), 16));
  return runtime::cu::kSuccess;
}

class AheadLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
    driver_.emplace();
    driver_->table.launch_kernel = &note_launch;
    launched().clear(), expected().clear();
  }
  static AheadTable table_of(const Case& of, const Call& call) {
    AheadTable table;
    table.add(of.name, of.callable, "sm_90a", call.of_callable(of));
    return table;
  }
  static TegulaCode run(const std::string& bytes, const Case& of, const Call& call) {
    return tegula_ahead_call(bytes.data(), bytes.size(), of.name.c_str(), call.args.data(),
                             static_cast<std::int32_t>(call.args.size()), nullptr);
  }
  std::optional<mocked::MockDriver> driver_;
};

TEST_F(AheadLibrary, LaunchesTheSameKernelsAsTheLibrary) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Call made(c, std::uintptr_t{1} << 36), given(c, std::uintptr_t{1} << 40);
    const AheadTable table = table_of(c, made);
    ASSERT_EQ(table.size(), 1u);
    EXPECT_TRUE(launched().empty()) << "a call that is compiled ahead is not made";
    expected().clear();
    for (const PlanStep& step : table.call(0).plan.steps)
      expected().push_back(step.kernel->artefact().recipe);
    ASSERT_FALSE(expected().empty());
    c.callable.call(Stream::wrap(nullptr, kGpu), given.of_callable(c), {});
    const std::vector<Launched> wanted = std::exchange(launched(), {});
    const std::string bytes = table.encode();
    EXPECT_EQ(run(bytes, c, given), TEGULA_OK) << tegula_last_error()->text;
    const std::vector<Launched> found = std::exchange(launched(), {});
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].extents, wanted[i].extents) << "launch " << i;
      EXPECT_EQ(found[i].arguments, wanted[i].arguments) << "launch " << i;
    }
  }
}

TEST_F(AheadLibrary, ServesPreparedCallsOnly) {
  Case c{"product", product(), {}, {}};
  c.tensors = {{{64, 128}, DType::bf16}, {{96, 128}, DType::bf16}, {{64, 96}, DType::bf16}};
  const std::uintptr_t at = std::uintptr_t{1} << 36;
  const std::string bytes = table_of(c, Call(c, at)).encode();
  const auto code_of = [&](Call call) { return run(bytes, c, call); };
  EXPECT_EQ(code_of(Call(c, at)), TEGULA_OK) << tegula_last_error()->text;
  EXPECT_EQ(code_of(Call(c, at + 16)), TEGULA_OK) << tegula_last_error()->text;
  EXPECT_EQ(code_of(Call(c, at + 8)), TEGULA_ARGUMENT) << "an address of less alignment";
  EXPECT_THAT(tegula_last_error()->text, ::testing::StartsWith("T1662"));

  Call wide(c, at);
  const std::int64_t strides[] = {104, 1};
  wide.tensors[2].strides = const_cast<std::int64_t*>(strides);
  EXPECT_EQ(code_of(std::move(wide)), TEGULA_ARGUMENT) << "other strides";

  Case other = c;
  other.tensors[0].first = {80, 128}, other.tensors[2].first = {80, 96};
  EXPECT_EQ(code_of(Call(other, at)), TEGULA_ARGUMENT) << "another extent";
  other = c;
  for (auto& [shape, dtype] : other.tensors) dtype = DType::f16;
  EXPECT_EQ(code_of(Call(other, at)), TEGULA_ARGUMENT) << "another type";

  for (const std::size_t input : {0, 1}) {  // an argument itself, and a view of one
    Call overlapping(c, at);
    overlapping.tensors[2].data = overlapping.tensors[input].data;
    EXPECT_EQ(code_of(std::move(overlapping)), TEGULA_ARGUMENT) << input;
    EXPECT_THAT(tegula_last_error()->text, ::testing::HasSubstr("overlap"));
  }
}

TEST_F(AheadLibrary, NumbersArePartOfThePreparedCall) {
  Case c = cases().back();
  const std::uintptr_t at = std::uintptr_t{1} << 36;
  const std::string bytes = table_of(c, Call(c, at)).encode();
  EXPECT_EQ(run(bytes, c, Call(c, at)), TEGULA_OK) << tegula_last_error()->text;
  c.number = 4.0f;
  EXPECT_EQ(run(bytes, c, Call(c, at)), TEGULA_ARGUMENT);
}

/// The callable launches with half of what its address has.
TEST_F(AheadLibrary, ExtentsOfAnAddressArePartOfThePreparedCall) {
  const Case c{"half",
               {{ExportParam{{ParamKind::Pointer, DType::bf16}, false, "x", ""}, output("y", 2)},
                [](const Stream& stream, Args args, Loc) {
                  const Tensor& x = *args[0].tensor;
                  scale_kernel(stream, x.slice(0, 0, x.shape()[0] / 2), 2.0f, *args[1].tensor);
                }},
               {{{128, 64}, DType::bf16}, {{64, 64}, DType::bf16}},
               {}};
  const std::uintptr_t at = std::uintptr_t{1} << 36;
  const std::string bytes = table_of(c, Call(c, at)).encode();
  EXPECT_EQ(run(bytes, c, Call(c, at)), TEGULA_OK) << tegula_last_error()->text;
  for (const Dims& shape : {Dims{32, 64}, Dims{64, 128}, Dims{8192}}) {
    Case other = c;
    other.tensors[0].first = shape;
    EXPECT_EQ(run(bytes, c, Call(other, at)), TEGULA_ARGUMENT) << shape.str();
    EXPECT_THAT(tegula_last_error()->text, ::testing::StartsWith("T1662"));
  }
  Call address(c, at);
  address.args[0] = {TEGULA_POINTER, 0, {.pointer = address.tensors[0].data}};
  EXPECT_EQ(run(bytes, c, address), TEGULA_ARGUMENT) << "an address without extents";
  EXPECT_EQ(launched().size(), 1u);
}

/// Rows of which the kernel takes 8 at a time, or 16.
auto tuned_kernel() {
  return kernel("tuned", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto [r, c] : grid(y, tune("ROWS", {8, 16}, 8), 64)) y(r, c) = x(r, c);
  });
}

/// A callable that launches the kernel itself, or by a plan.
Exportable launching(const decltype(tuned_kernel())& k, bool by_plan) {
  return {
      {tensor("x", 2), output("y", 2)},
      [k, by_plan, plans = std::make_shared<CallPlans>()](const Stream& stream, Args args, Loc) {
        if (!by_plan) return k(stream, *args[0].tensor, *args[1].tensor);
        plans->call(stream, args, {},
                    [&](PlanBuilder& plan) { plan.launch(k, plan.argument(0), plan.argument(1)); });
      }};
}

TEST_F(AheadLibrary, WinnersOfTuneAreTaken) {
  for (const bool by_plan : {false, true}) {
    SCOPED_TRACE(by_plan ? "by a plan" : "by itself");
    const auto k = tuned_kernel();
    const Case c{
        "tuned", launching(k, by_plan), {{{64, 64}, DType::bf16}, {{64, 64}, DType::bf16}}, {}};
    const Call call(c, std::uintptr_t{1} << 36);
    const auto rows_of = [&](const AheadTable& table) {
      launched().clear();
      EXPECT_EQ(run(table.encode(), c, call), TEGULA_OK) << tegula_last_error()->text;
      if (launched().empty()) return 0u;
      const std::vector<unsigned>& e = launched()[0].extents;
      return 64u / (e[0] * e[1] * e[2]);
    };
    EXPECT_EQ(rows_of(table_of(c, call)), 8u) << "the default";
    KernelInstance& instance = *k.shared_instance();
    const std::vector<HostArg> args = call.of_callable(c);
    instance.tuned.set(instance, shapes_key(instance, args, kGpu), {.values = {{"ROWS", 16}}});
    EXPECT_EQ(rows_of(table_of(c, call)), 16u);

    AheadTable of_kernel;
    of_kernel.add(c.name, exportable(k).params, instance, "sm_90a", args);
    EXPECT_EQ(rows_of(of_kernel), 8u) << "values of a kernel are given in its line";
    Env races = env();
    races.tune = "quick";
    const EnvOverride scope(races);
    EXPECT_EQ(rows_of(table_of(c, call)), 8u) << "nothing is measured, in memory that is none";
  }
}

TEST_F(AheadLibrary, APreparedCallCompilesNothing) {
  Case c{"product", product(), {}, {}};
  c.tensors = {{{320, 128}, DType::bf16}, {{88, 128}, DType::bf16}, {{320, 88}, DType::bf16}};
  const Call call(c, std::uintptr_t{1} << 36);
  const TegulaCallable* exported = tegula_find("product");
  const auto lines = [] { return std::ranges::count(compile_report(), '\n'); };
  const auto before = lines();
  EXPECT_EQ(tegula_prepare(exported, call.args.data(), 3), TEGULA_OK) << tegula_last_error()->text;
  EXPECT_TRUE(launched().empty());
  const auto prepared = lines();
  EXPECT_GT(prepared, before);
  EXPECT_EQ(tegula_call(exported, call.args.data(), 3, nullptr), TEGULA_OK)
      << tegula_last_error()->text;
  EXPECT_EQ(launched().size(), 1u);
  EXPECT_EQ(lines(), prepared);
}

/// Why a callable of two tensors, x and y, cannot be compiled ahead of time.
std::string refusal(std::function<void(const Tensor& x, const Tensor& y)> call) {
  const Case c{"made",
               {{tensor("x", 2), output("y", 2)},
                [call = std::move(call)](const Stream&, Args args, Loc) {
                  call(*args[0].tensor, *args[1].tensor);
                }},
               {{{64, 64}, DType::bf16}, {{64, 64}, DType::bf16}},
               {}};
  AheadTable table;
  try {
    table.add(c.name, c.callable, "sm_90a", Call(c, 4096).of_callable(c));
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  }
  return "none";
}

TEST_F(AheadLibrary, MemoryOfTheCallableIsRefused) {
  const Tensor own = Tensor::borrow(reinterpret_cast<void*>(4096), {64, 64}, DType::bf16, kGpu);
  EXPECT_THAT(refusal([&](const Tensor&, const Tensor& y) { scale_kernel(own, 2.0f, y); }),
              ::testing::HasSubstr("a temporary tensor"));
  Scalar<f32> by(2.0f);
  const auto captures = kernel("captures", [&by](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto [r, c] : grid(y, 8, 64)) y(r, c) = cast<bf16>(cast<f32>(x(r, c)) * by);
  });
  EXPECT_THAT(refusal([&](const Tensor& x, const Tensor& y) { captures(x, y); }),
              ::testing::HasSubstr("what a kernel captures"));
}

}  // namespace
}  // namespace tegula::dsl
