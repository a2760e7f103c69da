// Kernels that no device or not the requested device can run. Passes and back ends reject them at
// the kernel's line; devices.txt records the texts.
#include <regex>

#include "expect_error.h"
#include "ir/text.h"
#include "support/env.h"
#include "tegula/tegula.h"

namespace tegula::devices_test {
namespace {

test::Pinned& pinned() {
  static test::Pinned file("devices.txt");
  return file;
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, test::error_of(f, at));
}

/// Expects the same error on both devices of the host.
template <class Call>
void expect_everywhere(const char* name, const Call& call,
                       std::source_location at = std::source_location::current()) {
  const std::string cpu = test::error_of([&] { call(Device::cpu()); }, at);
  pinned().check(name, cpu);
  EXPECT_EQ(test::error_of([&] { call(Device::sim()); }, at), cpu) << name << " on sim";
}

TEST(DeviceError, AbsentElements) {
  expect_everywhere("T1101 absent_one_by_one", [](Device d) {
    const auto k = kernel("parts", [](In<f32, 2> x, Out<f32, 2> z) {
      for (auto [m, n] : grid(z, 16, 16, cluster(2))) {
        const Tile t = x(m, n);
        z(cluster_slice(m), n) = cluster_reduce_scatter(where(t > 0, t, x(m.shifted(16), n)), 0);
      }
    });
    k(Tensor::zeros({40, 40}, DType::f32, d), Tensor::zeros({40, 40}, DType::f32, d));
  });
}

TEST(DeviceError, SharedMemory) {
  expect_everywhere("T1404 shared_memory", [](Device d) {
    const auto k = kernel("product", [](In<f16, 2> a, In<f16, 2> b, Out<f32, 2> c) {
      for (auto [m, n] : grid(c, 512, 512)) {
        auto acc = zeros<f32>(512, 512);
        for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
        c(m, n) = acc;
      }
    });
    const Tensor x = Tensor::zeros({64, 64}, DType::f16, d);
    k(x, x, Tensor::zeros({64, 64}, DType::f32, d));
  });
}

/// The key is a hash of the kernel's text, which has its lines.
TEST(DeviceError, KernelsThatMayNotBeCompiled) {
  Env denying = env();
  denying.jit = "deny";
  denying.cache = "off";
  const EnvOverride scope(denying);
  const std::string text = test::error_of([] {
    const auto k = kernel("twice", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 32)) z(i) = x(i) * 2;
    });
    const Tensor x = Tensor::zeros({64}, DType::f32, Device::sim());
    k(x, Tensor::zeros({64}, DType::f32, Device::sim()));
  });
  pinned().check("T1229 compile_denied",
                 std::regex_replace(text, std::regex("key [0-9a-f]{32}"), "key ..."));
}

TEST(DeviceError, OlderTargets) {
  expect("T1408 no_clusters", [] {
    const auto k = kernel("halves", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 32, cluster(2))) z(cluster_slice(i)) = cluster_reduce_scatter(x(i), 0);
    });
    k.compile("sm_80", spec<f32>(64), spec<f32>(64));
  });
  expect("T1409 f8_target", [] {
    const auto k = kernel("widen", [](In<f8e4m3, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 256)) z(i) = cast<f32>(x(i));
    });
    k.compile("sm_80", spec<f8e4m3>(64), spec<f32>(64));
  });
}

TEST(DeviceError, HostDevices) {
  expect_everywhere("T1410 inline_ptx", [](Device d) {
    const auto k = kernel("raw", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 32)) z(i) = ptx<f32>("ex2.approx.f32 $0, $1;", "=f,f", x(i));
    });
    k(Tensor::zeros({32}, DType::f32, d), Tensor::zeros({32}, DType::f32, d));
  });
  expect_everywhere("T1411 cluster_cut", [](Device d) {
    const auto k = kernel("thirds", [](In<f32, 2> x, Out<f32, 2> z) {
      for (auto [m, n] : grid(z, 48, 12, cluster(4)))
        z(cluster_slice(m), n) = cluster_reduce_scatter(x(m, n), 0);
    });
    k(Tensor::zeros({48, 12}, DType::f32, d), Tensor::zeros({48, 12}, DType::f32, d));
  });
}

TEST(DeviceError, Eagerly) {
  Env eager = env();
  eager.eager = true;
  const EnvOverride with(eager);
  const Tensor x = Tensor::zeros({64}, DType::f32, Device::cpu()),
               z = Tensor::zeros({64}, DType::f32, Device::cpu());
  expect("T1412 eager_cluster", [&] {
    kernel("halves", [](In<f32, 1> from, Out<f32, 1> to) {
      for (auto i : grid(to, 32, cluster(2)))
        to(cluster_slice(i)) = cluster_reduce_scatter(from(i), 0);
    })(x, z);
  });
  expect("T1413 eager_poison", [&] {
    kernel("steps", [](In<f32, 1> from, Out<f32, 1> to, Scalar<i32> n) {
      for (auto i : grid(to, 32)) {
        Tile t = from(i);
        for (auto j : steps(from.dim(0) / n.value(), 16)) t = t + cast<f32>(j.first());
        to(i) = t;
      }
    })(x, z, 0);
  });
}

TEST(DeviceError, TextsOfKernels) {
  expect("T1701 ir_text", [] { ir::parse("kernel @k tile () { %x = }", "k.tir"); });
}

}  // namespace
}  // namespace tegula::devices_test
