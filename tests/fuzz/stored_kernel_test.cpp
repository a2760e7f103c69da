// Kernels of the disk cache whose text or metadata was changed, with a valid checksum, are accepted
// or compiled again; calls never crash or fail. TEGULA_FUZZ_INPUTS and TEGULA_FUZZ_SEED choose how
// many and which.
#include "runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"
#include "tests/fuzz/guarded.h"
#include "tests/fuzz/mutated_text.h"
#include "tests/fuzz/number_from_env.h"

namespace tegula::fuzz::stored_kernel_test {
namespace {

namespace fs = std::filesystem;

runtime::CompileRequest request_for(const std::string& name) {
  runtime::CompileRequest r;
  r.key = name;
  r.trace = [name] {
    const fs::path file = fs::path(TEGULA_SOURCE_DIR) / "tests/unit/dsl/golden" / (name + ".tir");
    return ir::parse(read_file(file), name + ".tir");
  };
  r.device = Device::sim();
  return r;
}

class StoredKernels : public testing::Test {
 protected:
  StoredKernels()
      : folder_(fs::temp_directory_path() / ("tegula-fuzz-stored-" + std::to_string(::getpid()))) {
    Env settings = env();
    settings.cache = "on";
    settings.cache_dir = folder_;
    override_.emplace(settings);
  }
  ~StoredKernels() override { fs::remove_all(folder_); }

  fs::path only_entry() const {
    for (const auto& e : fs::recursive_directory_iterator(folder_ / "v1/k"))
      if (e.is_regular_file()) return e.path();
    return {};
  }

  fs::path folder_;
  std::optional<EnvOverride> override_;
};

TEST_F(StoredKernels, AreAcceptedOrCompiledAgain) {
  const std::string kernel = "row_softmax";
  const auto compiled = runtime::compile(request_for(kernel));
  const fs::path file = only_entry();
  ASSERT_FALSE(file.empty());
  const std::string whole = read_file(file);
  runtime::Compilation fresh;
  fresh.device = Device::sim();
  const runtime::CompileRequest request = request_for(kernel);
  runtime::key(fresh, request);
  fresh.tile = request.trace();
  const runtime::CacheKey key = runtime::disk_key(fresh, request, folder_ / "v1/t");
  const runtime::ReadResult read = runtime::decode_entry(whole, key);
  ASSERT_EQ(read.state, runtime::ReadStatus::ok) << read.why;
  const std::vector<std::string> metas{read.entry.meta}, texts{read.entry.ir};
  const std::vector<std::string_view> words{"{",    "}",        "[",   "]",   ":",    ",",
                                            "null", "1e99",     "-1",  "\"",  "true", "%0",
                                            "tmap", "ptr<f32>", "arg", "axis"};
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = number_from_env("TEGULA_FUZZ_INPUTS", 4000) / 20 + 1;
  Guard guard(60);
  int taken = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    runtime::CacheEntry entry = read.entry;
    TextMutator mutator(seed, seed % 2 == 0 ? metas : texts, words);
    (seed % 2 == 0 ? entry.meta : entry.ir) = mutator.text();
    fs::create_directories(file.parent_path());
    write_file(file, runtime::encode_entry(key, entry));
    guard.begin(seed);
    const auto again = runtime::compile(request_for(kernel));
    taken += again->explain().find("taken from the disk cache") != std::string::npos;
  }
  std::printf("%d of %llu entries taken\n", taken, static_cast<unsigned long long>(count));
}

}  // namespace
}  // namespace tegula::fuzz::stored_kernel_test
