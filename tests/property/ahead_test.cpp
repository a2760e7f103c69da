// Kernels compiled ahead of time: the calls that a table serves, damaged tables, and that a call
// through a table launches the kernel directly.
#include <tegula.h>

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "dsl/ahead/table.h"
#include "dsl/instance.h"
#include "runtime/artefact_format.h"
#include "runtime/cache_format.h"
#include "support/hash.h"
#include "tegula/error.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::dsl::ahead_test {
namespace {

using runtime::testing::mock;

/// A class of one view.
AheadClass vector_class(std::int64_t extent, std::uint8_t align = 16, std::int64_t stride = 1) {
  const Tensor t = Tensor::borrow(reinterpret_cast<void*>(std::uintptr_t{4096} + align), {extent},
                                  DType::f32, Device::cuda(), {stride});
  const detail::ParamInfo info{ParamKind::View, DType::f32, 1};
  AheadClass out;
  out.args.push_back(classify({ParamKind::View, DType::f32, &t, 1}, info));
  return out;
}

TEST(AheadClasses, ServeCallsThatAreAtLeastAsRegular) {
  const AheadClass made = vector_class(64);
  EXPECT_TRUE(serves(made, vector_class(4096)));
  EXPECT_FALSE(serves(made, vector_class(4097))) << "its extent is not a multiple";
  EXPECT_FALSE(serves(made, vector_class(64, 4))) << "its address is not a multiple";
  EXPECT_FALSE(serves(made, vector_class(64, 16, 16))) << "its elements are not contiguous";
  EXPECT_FALSE(serves(made, {})) << "another number of arguments";
  EXPECT_TRUE(serves(vector_class(3, 4, 3), vector_class(64)));

  AheadClass other = vector_class(64);
  other.constants = {2};
  EXPECT_FALSE(serves(made, other)) << "another constant";
  other = vector_class(64);
  other.is_wide = true;
  EXPECT_FALSE(serves(made, other)) << "indices that 32 bits do not hold";
  EXPECT_TRUE(serves(other, made));
  other = vector_class(64);
  other.args[0].absent = true;
  EXPECT_FALSE(serves(made, other));
}

TEST(AheadClasses, FixedExtentsAndBucketsCount) {
  AheadClass made = vector_class(64);
  made.args[0].dims[0].fixed = 64;
  EXPECT_TRUE(serves(made, vector_class(64)));
  EXPECT_FALSE(serves(made, vector_class(128)));
  made = vector_class(48);
  made.args[0].dims[0].bucket = 64;
  EXPECT_TRUE(serves(made, vector_class(64)));
  EXPECT_FALSE(serves(made, vector_class(80)));
}

const auto add_kernel = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
                          for (auto i : grid(z, 64)) z(i) = x(i) + y(i);
                        }).named("x[N]", "y[N]", "z[N]");

/// A table of `add` for vectors of n floats.
class AheadTables : public ::testing::Test {
 protected:
  static std::string table_for(std::initializer_list<std::int64_t> lengths) {
    AheadTable table;
    const Exportable of = exportable(add_kernel);
    for (const std::int64_t n : lengths) {
      const TensorSpec s = spec<f32>(n);
      const detail::HostArg a{ParamKind::View, DType::f32, &s.described(), 1};
      const detail::HostArg args[] = {a, a, a};
      table.add("add", of.params, *of.kernel, "sm_90a", args);
    }
    return table.encode();
  }
  void SetUp() override {
    try {
      bytes_ = table_for({4097, 4096});
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();  // without LLVM
    }
  }

  struct Call {
    explicit Call(std::int64_t n, std::uintptr_t at = 4096) : shape{n} {
      for (int i = 0; i < 3; ++i, at += std::uintptr_t{1} << 32) {
        tensors[i] = {
            reinterpret_cast<void*>(at), {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
        args[i] = {TEGULA_TENSOR, 0, {.tensor = &tensors[i]}};
      }
    }
    std::int64_t shape[1];
    DLTensor tensors[3]{};
    TegulaArg args[3];
  };
  std::int32_t find(const Call& c) const {
    return tegula_ahead_find(bytes_.data(), bytes_.size(), "add", c.args, 3);
  }
  std::string bytes_;
};

TEST_F(AheadTables, ServeCallsFromSpecialToGeneral) {
  EXPECT_EQ(find(Call(8192)), 0);
  EXPECT_EQ(find(Call(37)), 1);
  EXPECT_EQ(find(Call(8192, 4100)), -1);
  EXPECT_EQ(tegula_ahead_find(bytes_.data(), bytes_.size(), "sub", Call(64).args, 3), -1);
}

TEST_F(AheadTables, ACallIsOneLaunch) {
  const runtime::testing::MockDriver driver;
  Call c(8192);
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", c.args, 3, nullptr), TEGULA_OK)
      << tegula_last_error()->text;
  ASSERT_EQ(mock().launches.size(), 1u);
  EXPECT_EQ(mock().launches[0].config.grid_x, 8192u / 64);
  Call odd(8192, 4100);
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", odd.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_THAT(tegula_last_error()->text, ::testing::StartsWith("T1662"));
  Call overlapping(8192);
  overlapping.tensors[2].data = overlapping.tensors[1].data;
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", overlapping.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_THAT(tegula_last_error()->text, ::testing::HasSubstr("overlap"));
  for (DLTensor& t : c.tensors) t.device = {kDLCPU, 0};
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", c.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_EQ(mock().launches.size(), 1u);
}

/// The kernel relies on equal extents N: a call with other extents is rejected before it reads past
/// a vector.
TEST_F(AheadTables, DimensionsOfOneNameHaveOneExtent) {
  const runtime::testing::MockDriver driver;
  for (const int shorter : {0, 1, 2}) {
    Call c(8192);
    std::int64_t few = 16;
    c.tensors[shorter].shape = &few;
    EXPECT_EQ(find(c), -1) << shorter;
    EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", c.args, 3, nullptr),
              TEGULA_ARGUMENT)
        << shorter;
    EXPECT_THAT(tegula_last_error()->text, ::testing::StartsWith("T0709"));
  }
  EXPECT_TRUE(mock().launches.empty());
}

using nlohmann::json;

/// A table whose JSON and entries are changed, with a matching checksum.
std::string changed(const std::string& table,
                    const std::function<void(json& text, std::string& entries)>& change) {
  struct {
    char magic[8];
    std::uint64_t bytes, text_bytes, hash;
  } header;
  std::memcpy(&header, table.data(), sizeof header);
  json text = json::parse(table.substr(sizeof header, header.text_bytes));
  std::string entries = table.substr(sizeof header + header.text_bytes);
  change(text, entries);
  const std::string body = text.dump() + entries;
  header.text_bytes = body.size() - entries.size();
  header.bytes = sizeof header + body.size();
  header.hash = hash128(body).low;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

/// Returns why the first plan cannot be read after a change; "none" if it can.
std::string refusal(const std::string& table, const std::function<void(json& plan)>& change) {
  try {
    AheadTable{changed(table, [&](json& text, std::string&) { change(text["calls"][0]["plan"]); })};
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  }
  return "none";
}

/// CallPlan::run checks nothing, so a table is checked when it is read, even if its checksum is
/// right.
TEST_F(AheadTables, TensorsThatNoCallCanMakeAreRefused) {
  enum From { view, scratch, counters, flags };
  constexpr int kF32 = static_cast<int>(DType::f32), kU32 = static_cast<int>(DType::u32);
  const auto made = [&](json tensor, std::size_t scratch_bytes = 0, bool shares_flags = false) {
    return refusal(bytes_, [&](json& plan) {
      plan["made"] = json::array({std::move(tensor)});
      plan["scratch"] = scratch_bytes;
      plan["flags"] = shares_flags;
    });
  };
  using ::testing::HasSubstr;
  const json one = {1}, none = json::array(), negative = {-1}, huge = {1 << 30, 1 << 30, 1 << 30};
  EXPECT_EQ(made({view, 0, one, kF32, 0, one}), "none");
  EXPECT_THAT(made({flags + 1, 0, one, kF32, 0, one}), HasSubstr("an invalid number"));
  EXPECT_THAT(made({256, 0, one, kF32, 0, one}), HasSubstr("an invalid number"));
  EXPECT_THAT(made({view, 0, one, static_cast<int>(kDTypeCount), 0, one}),
              HasSubstr("an invalid number"));
  EXPECT_THAT(made({view, 3, one, kF32, 0, one}), HasSubstr("no call"));
  EXPECT_THAT(made({view, slots::kMade, one, kF32, 0, one}), HasSubstr("no call")) << "itself";
  EXPECT_THAT(made({view, -1, one, kF32, 0, one}), HasSubstr("no call"));
  EXPECT_NE(made({view, 0, one, kF32, 0, huge}), "none") << "strides of another rank";

  EXPECT_EQ(made({counters, -1, one, kU32, 0, none}), "none");
  EXPECT_THAT(made({counters, -1, none, kU32, 0, none}), HasSubstr("counters"));
  EXPECT_NE(made({counters, -1, negative, kU32, 0, none}), "none");
  EXPECT_EQ(made({scratch, -1, one, kF32, 0, none}, 256), "none");
  EXPECT_THAT(made({scratch, -1, one, kF32, 0, none}, 255), HasSubstr("scratch"));
  EXPECT_NE(made({scratch, -1, negative, kF32, 0, none}, SIZE_MAX), "none");
  EXPECT_NE(made({scratch, -1, huge, kF32, 0, none}, SIZE_MAX), "none");
  EXPECT_EQ(made({flags, -1, {64}, kU32, 0, none}, 0, true), "none");
  EXPECT_THAT(made({flags, -1, {64}, kU32, 0, none}), HasSubstr("locked"));
}

TEST_F(AheadTables, RejectLaunchesThatReadNonTensors) {
  using ::testing::HasSubstr;
  const auto launched_with = [](json& plan, int slot) {
    for (json& arg : plan["steps"][0][1]) arg[0] = slot;
  };
  EXPECT_THAT(refusal(bytes_, [&](json& plan) { launched_with(plan, -1); }),
              HasSubstr("another rank"));
  EXPECT_THAT(refusal(bytes_,
                      [&](json& plan) {
                        const json ones = json::array({1, 1});
                        plan["made"] = json::array(
                            {json::array({0, 0, ones, static_cast<int>(DType::f32), 0, ones})});
                        launched_with(plan, slots::kMade);
                      }),
              HasSubstr("another rank"));
  const auto of_class = [&](const std::function<void(json & args)>& change) {
    const std::string table =
        changed(bytes_, [&](json& text, std::string&) { change(text["calls"][0]["of"]["args"]); });
    EXPECT_THROW(AheadTable{table}, CompileError);
  };
  of_class([](json& args) {
    for (json& arg : args) arg["absent"] = true;
  });
  of_class([](json& args) { args.erase(2); });
  of_class([](json& args) { args.push_back(json(args[0])); });
}

/// The first kernel and its launch have `count` more arguments, which are numbers.
std::string with_more_arguments(const std::string& table, std::size_t count) {
  return changed(table, [&](json& text, std::string& entries) {
    json& row = text["kernels"][0];
    const std::size_t at = row[0], size = row[1];
    runtime::CacheEntry entry = runtime::decode_entry(entries.substr(at, size), {}).entry;
    runtime::Artefact artefact = runtime::decode_artefact(entry);
    auto& ranks = artefact.recipe.ranks;
    ranks.insert(ranks.end(), count, runtime::LaunchRecipe::kNoTensor);
    runtime::encode_artefact(artefact, entry);
    const std::string changed_entry = runtime::encode_entry({}, entry);
    row = {entries.size(), changed_entry.size()};
    entries += changed_entry;
    for (json& call : text["calls"])
      for (json& step : call["plan"]["steps"])
        if (step[0] == 0)
          for (std::size_t i = 0; i < count; ++i) step[1].push_back({-1, 0});
  });
}

TEST_F(AheadTables, ALaunchHasRoomForItsArguments) {
  EXPECT_EQ(AheadTable(with_more_arguments(bytes_, CallArgs::kMax - 3)).size(), 2u);
  EXPECT_THROW(AheadTable(with_more_arguments(bytes_, CallArgs::kMax - 2)), CompileError);
}

TEST_F(AheadTables, DamagedBytesAreRefused) {
  for (std::size_t i = 0; i < bytes_.size(); i += i < 200 ? 1 : 97) {
    std::string changed = bytes_;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_THROW(AheadTable{changed}, CompileError) << i;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{31}, bytes_.size() - 1})
    EXPECT_THROW(AheadTable{bytes_.substr(0, size)}, CompileError) << size;
  EXPECT_EQ(AheadTable(bytes_).size(), 2u);
}

}  // namespace
}  // namespace tegula::dsl::ahead_test
