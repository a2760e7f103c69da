// Errors of the C interface, recorded word for word in export.txt.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <tegula.h>

#include <filesystem>

#include "dsl/ahead/table.h"
#include "expect_error.h"
#include "tegula/export.h"
#include "tegula/tegula.h"

using namespace tegula;

namespace {

const auto scale_kernel = kernel("scale", [](In<f32, 1> x, Scalar<i8> factor, Out<f32, 1> y) {
                            for (auto i : grid(y, 64)) y(i) = x(i) * cast<f32>(factor);
                          }).named("x[N]", "factor", "y[M]");

}  // namespace

TEGULA_EXPORT(scale, scale_kernel);
TEGULA_EXPORT(not_a_kernel, Exportable{exportable(scale_kernel).params, {}});
TEGULA_EXPORT(scale_twice, scale_kernel);
TEGULA_EXPORT_BACKWARD(scale_twice, scale, "x w");

namespace {

test::Pinned& pinned() {
  static test::Pinned file("export.txt");
  return file;
}

/// Returns the error of this thread's last call, one field per line.
void expect(const char* name, TegulaCode code) {
  const TegulaError& e = *tegula_last_error();
  EXPECT_EQ(e.code, static_cast<int>(code));
  const std::string where = e.where;
  pinned().check(
      name,
      "error " + std::string(e.text) + "\n" + e.hint + "\n" +
          (where.empty() ? "nowhere"
                         : "at " + std::filesystem::path(where).filename().string().substr(0, 15)) +
          "\n");
}

struct Call {
  std::int64_t shape[1] = {4};
  float values[8] = {};
  DLTensor x = tensor(values), y = tensor(values + 4);
  TegulaArg args[3] = {of(&x), {TEGULA_INT, 0, {.i = 2}}, of(&y)};

  TegulaCode operator()(const char* name = "scale", std::int32_t count = 3) const {
    return tegula_call(tegula_find(name), args, count, nullptr);
  }
  DLTensor tensor(float* data) {
    return {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  }
  static TegulaArg of(const DLTensor* t) { return {TEGULA_TENSOR, 0, {.tensor = t}}; }
};

TEST(ExportError, Callables) {
  EXPECT_EQ(Call{}(), TEGULA_OK);
  expect("T1801 export_no_callable", tegula_call(nullptr, nullptr, 0, nullptr));
  EXPECT_EQ(tegula_find("sale"), nullptr);
  expect("T1802 export_unknown", TEGULA_ARGUMENT);
  expect("T1808 export_saved", Call{}("scale_twice"));
}

TEST(ExportError, Arguments) {
  expect("T1803 export_count", Call{}("scale", 2));
  expect("T1807 export_array", tegula_call(tegula_find("scale"), nullptr, 3, nullptr));
  Call call;
  call.args[0] = {TEGULA_FLOAT, 0, {.f = 1}};
  expect("T1804 export_kind", call());
  call.args[0] = Call::of(nullptr);
  expect("T1806 export_null", call());
  Call large;
  large.args[1].value.i = 128;
  expect("T1805 export_range", large());
}

TEST(ExportError, TvmFfi) {
  const TegulaFfiAny text[3]{{8, 0, {}}, {}, {}};
  EXPECT_EQ(tegula_exported_scale().tvm_ffi(text, 3), -1);
  expect("T1811 export_ffi_type", TEGULA_ARGUMENT);
}

TEST(ExportError, Objects) {
  const struct {
    std::uint32_t version[2] = {1, 2};
    void* unused[4] = {};
    int (*refuses)(void*, DLTensor*) = [](void*, DLTensor*) { return -1; };
    void* stream = nullptr;
  } table;
  const TegulaArg args[3]{{TEGULA_OBJECT, 0, {}}, {TEGULA_INT, 0, {}}, {TEGULA_OBJECT, 0, {}}};
  expect("T1812 export_object", tegula_call_objects(tegula_find("scale"), args, 3, &table));
}

TEST(ExportError, Outputs) {
  Call call;
  call.args[2].kind = TEGULA_NONE;
  std::int64_t shape[1];
  DLTensor out{};
  out.shape = shape;
  const auto infer = [&](std::int32_t outs) {
    return tegula_infer(tegula_find("scale"), call.args, 3, &out, outs);
  };
  expect("T1809 export_infer", infer(1));
  expect("T1810 export_outs", infer(0));
}

TEST(ExportError, AheadOfACall) {
  const Call call;
  const TegulaCallable* scale = tegula_find("scale");
  expect("T1662 budget", tegula_tune(scale, call.args, 3, "slow"));
  expect("T1662 not a kernel", tegula_tune(tegula_find("not_a_kernel"), call.args, 3, "quick"));
  expect("T0614 nothing to tune", tegula_tune(scale, call.args, 3, "quick"));
  EXPECT_EQ(tegula_prepare(scale, call.args, 3), TEGULA_OK);
  expect("a bundle that is none", tegula_bundle_add("/nonexistent.tgb"));
}

/// A library compiled with the headers of another version fails to load before its constructors
/// run, even if the loader binds functions at their first call.
TEST(ExportError, LibrariesOfAnotherVersion) {
  for (const int mode : {RTLD_LAZY, RTLD_NOW}) {
    EXPECT_EQ(dlopen(TEGULA_STALE_EXPORTS, mode), nullptr);
    EXPECT_THAT(dlerror(),
                testing::HasSubstr("is_built_with_another_version_of_tegula_and_must_be_rebuilt"));
  }
  EXPECT_EQ(tegula_find("stale"), nullptr);
}

TEST(ExportError, Tables) {
  const Call call;
  const std::string garbage = "TEGULAA2 and nothing more, but long enough for a header";
  expect("T1662 no table",
         tegula_ahead_call(garbage.data(), garbage.size(), "scale", call.args, 3, nullptr));
  dsl::AheadTable table;
  const std::string empty = table.encode();
  expect("T1662 not in the table",
         tegula_ahead_call(empty.data(), empty.size(), "scale", call.args, 3, nullptr));
  const Tensor offset = Tensor::full({64}, 1, DType::f32, Device::cpu());
  const auto capturing = kernel("capturing", [&offset](Out<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = view<f32, 1>(offset)(i);
  });
  const TensorSpec y = spec<f32>(64);
  const detail::HostArg args[] = {{detail::ParamKind::View, DType::f32, &y.described(), 1}};
  const Exportable of = exportable(capturing);
  try {
    table.add("capturing", of.params, *of.kernel, "sm_90a", args);
    FAIL() << "a kernel that captures a Tensor was accepted";
  } catch (const CompileError& e) {
    const Diagnostic& d = e.diagnostic();
    pinned().check("T1662 captures", d.code + ": " + d.message + "\n" + d.hint + "\n");
  }
}

}  // namespace
