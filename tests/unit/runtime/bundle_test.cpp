// Bundles: what is put in comes out, whatever is damaged does not, and a process that has one needs
// neither a compiler nor the disk cache.
#include "runtime/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "ir/text.h"
#include "runtime/bundle_lookup.h"
#include "runtime/cache.h"
#include "runtime/disk_cache.h"
#include "runtime/jit_verbs.h"
#include "runtime/kernel_entry.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/report.h"
#include "tegula/warning.h"

namespace tegula::runtime::bundle_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class Bundles : public ::testing::Test {
 protected:
  Bundles() {
    static int next = 0;
    folder_ = fs::temp_directory_path() /
              ("tegula-bundles-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
    fs::create_directories(folder_);
    settings_.path = env().path;
    settings_.cache_dir = folder_ / "cache";
    apply();
  }
  ~Bundles() override {
    override_.reset();
    fs::remove_all(folder_);
  }

  void apply() {
    override_.reset();
    override_.emplace(settings_);
  }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  fs::path folder_;
  Env settings_;
  std::optional<EnvOverride> override_;
};

BundledKernel numbered(int i) {
  BundledKernel k;
  k.key.add("ir", "kernel " + std::to_string(i));
  k.entry = {.meta = "{}", .cubin = "", .ptx = std::string(600, 'p'), .ir = "ir", .log = "[]"};
  k.entry.ir += std::to_string(i);
  return k;
}

std::vector<BundledKernel> numbered_kernels(int count) {
  std::vector<BundledKernel> all;
  for (int i = 0; i < count; ++i) all.push_back(numbered(i));
  return all;
}

TEST_F(Bundles, HoldTheirEntriesAtAlignedOffsets) {
  for (const int count : {0, 1, 2, 33}) {
    const std::vector<BundledKernel> kernels = numbered_kernels(count);
    const Bundle bundle(write("b.tgb", encode_bundle(kernels)));
    EXPECT_EQ(bundle.rows().size(), static_cast<std::size_t>(count));
    for (const BundledKernel& k : kernels) EXPECT_EQ(bundle.find(k.key), k.entry);
    for (const BundleRow& row : bundle.rows()) EXPECT_EQ(row.offset % 64, 0u);
    EXPECT_FALSE(bundle.find(numbered(count).key));
  }
}

TEST_F(Bundles, TheLastOfOneKeyCounts) {
  BundledKernel first = numbered(1), last = numbered(1);
  last.entry.ir = "newer";
  const Bundle bundle(write("b.tgb", encode_bundle({first, last})));
  EXPECT_EQ(bundle.rows().size(), 1u);
  EXPECT_EQ(bundle.find(first.key), last.entry);
}

/// A changed byte is refused, or it hides one entry, or it is between entries. It never gives
/// other content.
TEST_F(Bundles, AChangedByteGivesNoOtherContent) {
  const std::vector<BundledKernel> kernels = numbered_kernels(3);
  const std::string sound = encode_bundle(kernels);
  int refused = 0, hidden = 0;
  for (std::size_t at = 0; at < sound.size(); ++at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
    try {
      const Bundle bundle(write("b.tgb", bytes));
      for (const BundledKernel& k : kernels) {
        const auto found = bundle.find(k.key);
        hidden += !found;
        EXPECT_TRUE(!found || *found == k.entry) << at;
      }
    } catch (const DeviceError& e) {
      EXPECT_THAT(e.what(), HasSubstr("error T2008: cannot use the bundle "));
      ++refused;
    }
  }
  EXPECT_EQ(refused, 40 + 3 * 32) << "every byte of the header and of the index";
  EXPECT_GT(hidden, 300);
}

TEST_F(Bundles, AnotherLengthIsRefused) {
  const std::string sound = encode_bundle(numbered_kernels(2));
  for (std::size_t bytes = 0; bytes < sound.size(); ++bytes)
    EXPECT_THROW(Bundle(write("b.tgb", sound.substr(0, bytes))), DeviceError) << bytes;
  EXPECT_THROW(Bundle(write("b.tgb", sound + "x")), DeviceError);
  EXPECT_THROW(Bundle(folder_ / "none.tgb"), DeviceError);
  EXPECT_THROW(Bundle{folder_}, DeviceError) << "a folder";
}

/// A row that a checksum does not protect from its author's own mistake.
TEST_F(Bundles, AnIndexThatLeavesTheFileOrIsUnsortedIsRefused) {
  const auto with_row = [&](std::size_t row, std::size_t word, std::uint64_t value) {
    std::string bytes = encode_bundle(numbered_kernels(2));
    std::memcpy(bytes.data() + 40 + row * 32 + word * 8, &value, 8);
    const Hash128 hash = hash128(std::string_view(bytes).substr(40, 64));
    std::memcpy(bytes.data() + 24, &hash.high, 8);
    std::memcpy(bytes.data() + 32, &hash.low, 8);
    return write("b.tgb", bytes);
  };
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  EXPECT_THROW(Bundle{with_row(0, 2, kHuge)}, DeviceError);
  EXPECT_THROW(Bundle{with_row(1, 3, kHuge)}, DeviceError);
  EXPECT_THROW(Bundle{with_row(0, 0, kHuge)}, DeviceError);
}

TEST_F(Bundles, RejectAKeyWithWrongLengths) {
  CacheKey key;
  key.add("ir", "text");
  key.add("plan", "");
  EXPECT_EQ(CacheKey::parse(key.canonical())->hash(), key.hash());
  const std::string& text = key.canonical();
  for (std::size_t bytes = 1; bytes < text.size(); ++bytes) {
    const auto part = CacheKey::parse(text.substr(0, bytes));
    EXPECT_TRUE(!part || part->fields().size() == 1) << bytes << ": a whole field";
  }
  EXPECT_FALSE(CacheKey::parse(std::string(8, '\xff')));
}

// ---- a process with a bundle, without a GPU

class BundledCode : public Bundles {
 protected:
  BundledCode() {
    settings_.llvm = write("libtegula_llvm.so", "an emitter");
    settings_.ptxas = write("ptxas", "an assembler");
    fs::permissions(settings_.ptxas, fs::perms::owner_all);
    apply();
  }

  static CompileRequest request(const std::string& name) {
    CompileRequest r;
    r.key = name;
    r.trace = [name] {
      const fs::path file = fs::path(TEGULA_SOURCE_DIR) / "tests/unit/dsl/golden" / (name + ".tir");
      return ir::parse(read_file(file), name + ".tir");
    };
    r.device = Device::cuda();
    r.target = ir::Target("sm_90a");
    return r;
  }

  /// Fills the disk cache as `emit` and `assemble` would.
  static void build(const CompileRequest& r) {
    Compilation k;
    key(k, r);
    trace(k, r);
    DiskCacheLookup on_disk(k, r);
    Artefact none;
    ASSERT_FALSE(on_disk.load(none));
    optimize(k, r);
    k.emitted.ptx = "// ptx";
    k.cubin.assign(2000, 'x');
    std::memcpy(k.cubin.data(), "\177ELF", 4);
    k.cubin[18] = static_cast<char>(190);  // the machine: CUDA
    k.cubin[19] = 0;
    on_disk.save(make_artefact(k));
  }

  /// As `tegula cache export` does it.
  fs::path exported() const {
    KernelCache cache({.folder = settings_.cache_dir, .log = {}});
    std::vector<BundledKernel> kernels;
    for (const CacheFile& file : cache.files()) {
      const std::string bytes = cache.read_trusted(file.path.string()).value();
      const CacheKey key = CacheKey::parse(entry_key(bytes).value()).value();
      kernels.push_back({portable_key(key), decode_entry(bytes, key).entry});
    }
    return write("model.tgb", encode_bundle(kernels));
  }

  /// A machine without tools, whose cache is empty.
  void move_to_another_machine(const fs::path& bundle) {
    settings_.llvm = settings_.ptxas = folder_ / "none";
    settings_.cache_dir = folder_ / "another";
    settings_.bundles = {bundle.string()};
    settings_.jit = "deny";
    apply();
  }
};

TEST_F(BundledCode, ABundleServesAMachineWithoutTools) {
  build(request("matmul"));
  move_to_another_machine(exported());
  const auto k = compile(request("matmul"));
  EXPECT_EQ(k->artefact().image.size(), 2000u);
  EXPECT_THAT(k->explain(), HasSubstr("taken from the bundle " + (folder_ / "model.tgb").string()));
  for (const VerbTiming& t : k->timings) EXPECT_THAT(t.verb, Not(HasSubstr("optimize")));
  EXPECT_THAT(compile_report(), HasSubstr("bundle     llvm"));
}

TEST_F(BundledCode, AKernelThatNoBundleHoldsIsRefusedByName) {
  build(request("matmul"));
  move_to_another_machine(exported());
  settings_.bundles.push_back((folder_ / "missing.tgb").string());
  apply();
  try {
    compile(request("row_softmax"));
    FAIL() << "it was compiled";
  } catch (const CompileError& e) {
    EXPECT_EQ(e.diagnostic().code, "T1229");
    EXPECT_THAT(e.what(), HasSubstr("kernel softmax for sm_90a"));
    EXPECT_THAT(e.what(), HasSubstr("missing.tgb: No such file"));
  }
}

TEST_F(BundledCode, AnImportedBundleIsFoundInItsFolder) {
  build(request("matmul"));
  const fs::path bundle = exported();
  move_to_another_machine(bundle);
  settings_.bundles.clear();
  apply();
  EXPECT_THROW(compile(request("matmul")), CompileError);
  settings_.cache_dir = folder_ / "third";
  apply();
  fs::create_directories(bundle_folder());
  fs::copy_file(bundle, bundle_folder() / "model.tgb");
  EXPECT_NO_THROW(compile(request("matmul")));
}

/// A back end that is requested is what runs; none requested, any is right.
TEST_F(BundledCode, KeepsTheRequestedBackEnd) {
  build(request("matmul"));
  move_to_another_machine(exported());
  settings_.backend = "nvrtc";
  apply();
  EXPECT_THROW(compile(request("matmul")), CompileError);
}

TEST_F(BundledCode, OtherOptionsAreAnotherKernel) {
  build(request("matmul"));
  move_to_another_machine(exported());
  CompileRequest r = request("matmul");
  r.planned = ir::parse_plan_request("stages=2");
  EXPECT_THROW(compile(r), CompileError);
}

TEST_F(BundledCode, AKeyWithoutItsToolsIsThatOfTheKernel) {
  const CompileRequest r = request("matmul");
  Compilation k;
  key(k, r);
  trace(k, r);
  EXPECT_EQ(portable_key(disk_key(k, r)).hash(), kernel_key(k, r).hash());
  EXPECT_NE(disk_key(k, r).hash(), kernel_key(k, r).hash());
}

TEST_F(Bundles, AKernelThatIsCompiledLateIsWarnedOf) {
  settings_.jit = "warn";
  settings_.cache_dir = folder_ / "cache";
  apply();
  std::vector<std::string> codes;
  const WarningHandler before =
      set_warning_handler([&](const Warning& w) { codes.push_back(w.code); });
  CompileRequest r;
  r.trace = [] {
    const fs::path file = fs::path(TEGULA_SOURCE_DIR) / "tests/unit/dsl/golden/vector_add.tir";
    return ir::parse(read_file(file), "vector_add.tir");
  };
  r.device = Device::sim();
  compile(r);
  EXPECT_THAT(codes, Contains("T1507"));
  codes.clear();
  compile(r);
  EXPECT_THAT(codes, Not(Contains("T1507"))) << "the disk cache holds it";
  set_warning_handler(before);
}

}  // namespace
}  // namespace tegula::runtime::bundle_test
