// An artefact is data: it survives its encoding, its recipe computes what the trace says, and every
// GPU of its target loads the one there is.
#include "runtime/artefact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "ir/text.h"
#include "runtime/artefact_format.h"
#include "runtime/jit_verbs.h"
#include "runtime/make_recipe.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::runtime::artefact_test {
namespace {

using testing::mock;
using testing::MockDriver;
using testing::take_calls;

constexpr const char* kGolden[] = {"vector_add", "row_softmax", "matmul", "attention"};

ir::Kernel golden(const std::string& name) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/" + name + ".tir";
  return ir::parse(read_file(file), file);
}

/// As the verbs leave it; the code is made up.
Compilation compilation(const std::string& name, const std::string& target = "sm_90a") {
  CompileRequest request;
  request.device = Device::cuda();
  request.target = ir::Target::find(target).value();
  request.backend = Backend::Llvm;
  request.trace = [&] { return golden(name); };
  Compilation c;
  key(c, request);
  trace(c, request);
  optimize(c, request);
  c.emitted.ptx = ".version 8.5";
  c.report.registers = 168;
  return c;
}

Artefact round_trip(const Artefact& a) {
  CacheEntry entry;
  encode_artefact(a, entry);
  return decode_artefact(entry);
}

TEST(ArtefactFormat, RoundTrips) {
  for (const char* name : kGolden) {
    for (const char* target : {"sm_90a", "sm_80"}) {
      SCOPED_TRACE(std::string(name) + " " + target);
      Compilation c = compilation(name, target);
      const Artefact a = make_artefact(c), b = round_trip(a);
      EXPECT_EQ(b.recipe, a.recipe);
      EXPECT_EQ(b.name, c.name);
      EXPECT_EQ(b.target.name(), target);
      EXPECT_EQ(b.kind, ImageKind::ptx);
      EXPECT_EQ(b.image, a.image);
      EXPECT_EQ(b.code, ".version 8.5");
      EXPECT_EQ(b.threads, a.threads);
      EXPECT_EQ(b.shared_bytes, a.shared_bytes);
      EXPECT_EQ(b.report.registers, 168);
      ir::Plan plan;
      plan.apply(ir::parse_plan_patch(b.schedule_text));
      EXPECT_EQ(plan, c.plan);
    }
  }
}

/// Every leaf of the encoding changed to other values: refused or taken, and then sound.
TEST(ArtefactFormat, NoNumberLeadsALaunchAstray) {
  Compilation c = compilation("attention");
  CacheEntry entry;
  encode_artefact(make_artefact(c), entry);
  const nlohmann::json whole = nlohmann::json::parse(entry.meta);
  const nlohmann::json values[] = {-1,
                                   0,
                                   1,
                                   7,
                                   255,
                                   65535,
                                   4294967295,
                                   -9223372036854775807,
                                   1.5,
                                   nullptr,
                                   "dim",
                                   "map",
                                   nlohmann::json::array()};
  const nlohmann::json flat = whole.flatten();
  int refused = 0, taken = 0;
  for (const auto& [path, leaf] : flat.items())
    for (const nlohmann::json& value : values) {
      nlohmann::json changed = whole;
      changed[nlohmann::json::json_pointer(path)] = value;
      entry.meta = changed.dump();
      try {
        const Artefact a = decode_artefact(entry);
        EXPECT_EQ(recipe_fault(a.recipe), "") << path << " " << value;
        ++taken;
      } catch (const std::exception&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, taken);
}

/// Against the interpreter of the launch region, on tensors that are nowhere.
TEST(LaunchRecipe, GridsAreTheInterpreters) {
  std::mt19937_64 random(1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (const char* name : {"vector_add", "row_softmax", "matmul"}) {  // any extents fit these
    const ir::Kernel tile = golden(name);
    const LaunchRecipe recipe = grid_recipe(tile);
    for (int round = 0; round < 3500; ++round) {
      std::vector<Tensor> tensors;
      tensors.reserve(tile.params().size());
      std::vector<LaunchArg> args;
      for (const ir::Param& p : tile.params()) {
        const ir::Type t = tile.type(p.value);
        if (!t.is_view()) {
          args.push_back({nullptr, random()});
          continue;
        }
        Dims shape;
        for (int d = 0; d < t.rank(); ++d)
          shape.push_back(16 * (1 + below(round % 2 == 0 ? 4 : 600)));  // as the traces assume
        tensors.push_back(Tensor::borrow(reinterpret_cast<void*>(std::uintptr_t{1} << 40), shape,
                                         t.dtype(), Device::cpu()));
        args.push_back({&tensors.back(), 0});
      }
      ASSERT_EQ(grid_of(recipe, args), ir::evaluate_launch(tile, eval_args(tile, args))) << name;
    }
  }
}

TEST(LaunchRecipe, ArithmeticWrapsAndDividesByZero) {
  LaunchRecipe r;
  const auto value = [&](GridOp op, std::int64_t a, std::int64_t b) {
    r.steps = {{.immediate = a}, {.immediate = b}, {.op = op, .a = 0, .b = 1}};
    r.grid = {2, 2, 2};
    return grid_of(r, {})[1];
  };
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(value(GridOp::div, 7, 0), 0);
  EXPECT_EQ(value(GridOp::rem, 7, 0), 0);
  EXPECT_EQ(value(GridOp::div, kMin, -1), kMin);
  EXPECT_EQ(value(GridOp::rem, kMin, -1), 0);
  EXPECT_EQ(value(GridOp::sub, kMin, 1), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(value(GridOp::div, -7, 2), -3);
}

TEST(LaunchRecipe, MoreProgramsThanALaunchTakesAreNotCapped) {
  LaunchRecipe r;
  const auto grid = [&](std::int64_t programs) {
    r.steps = {{.immediate = programs}, {.immediate = 1}};
    r.grid = {0, 1, 1};
    r.cluster = 4;
    return grid_of(r, {}, 132)[0];
  };
  EXPECT_EQ(grid(7), 8);
  EXPECT_EQ(grid(ir::kMaxPrograms[0]), 132);
  EXPECT_EQ(grid(ir::kMaxPrograms[0] + 1), ir::kMaxPrograms[0] + 1);
  EXPECT_EQ(grid(std::int64_t{1} << 62), std::int64_t{1} << 62);
  EXPECT_EQ(grid(-3), -3);
  EXPECT_THROW(checked_grid(r, {}, 132, "k"), CompileError);
}

class TwoGpus : public ::testing::Test {
 protected:
  TwoGpus() {
    mock().devices = 2;
    mock().argument_count = 0;
  }
  MockDriver driver_;
};

TEST_F(TwoGpus, LoadOneArtefactEach) {
  const auto kernel = finish(compilation("vector_add"));
  take_calls();
  const LoadedArtefact &first = kernel->on(0), &second = kernel->on(1);
  EXPECT_EQ(first.ordinal(), 0);
  EXPECT_EQ(second.ordinal(), 1);
  EXPECT_EQ(take_calls()["cuLibraryLoadData"], 2) << "once for each of them";
  EXPECT_EQ(&kernel->on(0), &first);
  EXPECT_EQ(&kernel->on(1), &second);
  EXPECT_EQ(take_calls(), (std::map<std::string, int>())) << "a loaded one asks nothing";
  EXPECT_THROW(kernel->on(2), DeviceError);
}

TEST_F(TwoGpus, AreLaunchedOnTheirOwn) {
  const auto kernel = finish(compilation("vector_add"));
  for (const int gpu : {1, 0, 1}) {
    const auto tensor = [&](std::uintptr_t at) {
      return Tensor::borrow(reinterpret_cast<void*>(at << 40), {100}, DType::f32,
                            Device::cuda(gpu));
    };
    const Tensor x = tensor(1), y = tensor(2), z = tensor(3);
    const LaunchArg args[] = {{&x, 0}, {&y, 0}, {&z, 0}};
    kernel->launch(Stream(Device::cuda(gpu)), args);
  }
  EXPECT_EQ(mock().launches.size(), 3u);
  EXPECT_EQ(kernel->on(0).plan().kernel().ordinal, 0);
  EXPECT_THAT(kernel->explain(), ::testing::HasSubstr("loaded on cuda:0 in "));
  EXPECT_THAT(kernel->explain(), ::testing::HasSubstr("loaded on cuda:1 in "));
}

}  // namespace
}  // namespace tegula::runtime::artefact_test
