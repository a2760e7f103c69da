// Many threads at once: they compile the same and different kernels, launch one kernel object on
// cpu and sim with arguments that compile anew, and take kernels from one folder of the disk cache.
// ThreadSanitizer watches in .ci/run (preset tsan).
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <thread>

#include "codegen/emit.h"
#include "ir/text.h"
#include "runtime/cache.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula::storms_test {
namespace {

namespace fs = std::filesystem;
constexpr int kThreads = 8;

/// Runs `work(thread)` on all threads, which begin together; the first exception's text, or none.
template <class Work>
std::string at_once(const Work& work) {
  std::barrier ready(kThreads);
  std::mutex mutex;
  std::string fault;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ready.arrive_and_wait();
      try {
        work(t);
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex);
        if (fault.empty()) fault = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return fault;
}

/// A folder of this test's own, and the disk cache in it.
class Storms : public testing::Test {
 protected:
  Storms() : folder_(fs::temp_directory_path() / ("tegula-storm-" + std::to_string(::getpid()))) {
    Env settings = env();
    settings.cache = "on";
    settings.cache_dir = folder_;
    override_.emplace(settings);
  }
  ~Storms() override {
    override_.reset();
    fs::remove_all(folder_);
  }

  fs::path folder_;
  std::optional<EnvOverride> override_;
};

const std::vector<std::string>& kernels() {
  static const std::vector<std::string> names{"vector_add", "row_softmax", "matmul"};
  return names;
}

ir::Kernel golden(const std::string& name) {
  const fs::path file = fs::path(TEGULA_SOURCE_DIR) / "tests/unit/dsl/golden" / (name + ".tir");
  return ir::parse(read_file(file), name + ".tir");
}

std::string optimized(const std::string& name) {
  runtime::CompileRequest request;
  request.key = name;
  request.trace = [&] { return golden(name); };
  request.device = Device::sim();
  return runtime::compile(request)->dump("optimize");
}

/// Some find what others have just published, some compile next to them: the code is the same.
TEST_F(Storms, CompileAndCache) {
  std::vector<std::vector<std::string>> texts(kThreads);
  ASSERT_EQ(at_once([&](int t) {
              for (std::size_t i = 0; i < kernels().size(); ++i)
                texts[static_cast<std::size_t>(t)].push_back(
                    optimized(kernels()[(i + static_cast<std::size_t>(t)) % kernels().size()]));
            }),
            "");
  for (std::size_t t = 1; t < kThreads; ++t) {
    std::ranges::sort(texts[t]), std::ranges::sort(texts[0]);
    EXPECT_EQ(texts[t], texts[0]);
  }
}

TEST_F(Storms, StoreFindAndSweep) {
  runtime::KernelCache cache({folder_, false, 1 << 20, {}, &runtime::Vfs::posix()});
  std::atomic<int> wrong = 0, found = 0;
  ASSERT_EQ(at_once([&](int t) {
              for (int i = 0; i < 40; ++i) {
                runtime::CacheKey key;
                key.add("ir", std::to_string(i % 10));
                const std::string text = "kernel " + std::to_string(i % 10);
                if (const auto entry = cache.find(key)) {
                  ++found;
                  wrong += entry->ir != text;
                }
                if (i % 7 == t) cache.discard(key);
                const auto lock = cache.lock_for_build(key, std::chrono::milliseconds(20));
                cache.store(key, {"{}", "", "", text, ""});
                if (i % 16 == t) cache.sweep();
              }
            }),
            "");
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
}

/// One kernel object: calls of new classes of arguments compile while others launch.
TEST_F(Storms, Launch) {
  const auto saxpy = kernel("saxpy", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z, Scalar<f32> a) {
    for (auto i : grid(z, 64)) z(i) = a * x(i) + y(i);
  });
  const auto add = kernel("add", [](In<i32, 2> x, Out<i32, 2> y) {
    for (auto [r, c] : grid(y, 8, 16)) y(r, c) = x(r, c) + 3;
  });
  ASSERT_EQ(at_once([&](int t) {
              const Device device = t % 2 == 0 ? Device::cpu() : Device::sim();
              for (int i = 0; i < 12; ++i) {
                const std::int64_t n = 1 + (i * 37 + t * 16) % 200;
                const Tensor x = Tensor::iota({n}, DType::f32, device),
                             z = Tensor::empty({n}, DType::f32, device);
                saxpy(x, x, z, 2.f);
                const std::vector<float> got = z.to_vector<float>();
                for (std::int64_t e = 0; e < n; ++e)
                  if (got[static_cast<std::size_t>(e)] != 3 * static_cast<float>(e))
                    throw std::runtime_error("saxpy is wrong");
                const Tensor m = Tensor::full({i + 1, n}, 4, DType::i32, device),
                             s = Tensor::empty({i + 1, n}, DType::i32, device);
                add(m, s);
                for (const i32 v : s.to_vector<i32>())
                  if (v != 7) throw std::runtime_error("add is wrong");
              }
            }),
            "");
}

/// The LLVM back end is opened once and emits for all threads.
TEST_F(Storms, Emit) {
  const auto ptx_of = [](const std::string& name) {
    ir::Kernel k = golden(name);
    ir::PassContext context;
    ir::run_pipeline(k, runtime::optimize_passes(), context);
    return codegen::emit_llvm(k).ptx;
  };
  std::vector<std::string> want;
  try {
    for (const std::string& name : kernels()) want.push_back(ptx_of(name));
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
  ASSERT_EQ(at_once([&](int t) {
              const std::size_t i = static_cast<std::size_t>(t) % kernels().size();
              if (ptx_of(kernels()[i]) != want[i]) throw std::runtime_error("other PTX");
            }),
            "");
}

}  // namespace
}  // namespace tegula::storms_test
