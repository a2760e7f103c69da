// Compiled kernels come back from the disk: the same kernel, only where nothing that matters
// changed, and never as an error.
#include "runtime/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "runtime/nvrtc.h"
#include "runtime/tool_hash.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/tensor.h"

namespace tegula::runtime::stored_kernel_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

ir::Kernel golden(const std::string& name) {
  const fs::path file = fs::path(TEGULA_SOURCE_DIR) / "tests/unit/dsl/golden" / (name + ".tir");
  return ir::parse(read_file(file), name + ".tir");
}

CompileRequest request_for(const std::string& name, Device device = Device::sim()) {
  CompileRequest r;
  r.key = name;
  r.trace = [name] { return golden(name); };
  r.device = device;
  r.backend = Backend::Nvrtc;
  return r;
}

std::vector<std::string> verbs(const CompiledKernel& k) {
  std::vector<std::string> out;
  for (const VerbTiming& t : k.timings) out.push_back(t.verb);
  return out;
}

bool is_from_disk(const CompiledKernel& k) {
  return k.explain().find("taken from the disk cache") != std::string::npos;
}

class Stored : public ::testing::Test {
 protected:
  Stored() {
    static int next = 0;
    folder_ = fs::temp_directory_path() /
              ("tegula-stored-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
    settings_.path = env().path;
    settings_.cache_dir = folder_ / "cache";
    apply();
  }
  ~Stored() override {
    override_.reset();
    fs::remove_all(folder_);
  }

  void apply() {
    override_.reset();
    override_.emplace(settings_);
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> out;
    std::error_code none;
    for (const auto& e : fs::recursive_directory_iterator(settings_.cache_dir / "v1/k", none))
      if (e.is_regular_file()) out.push_back(e.path());
    return out;
  }

  fs::path tool(const std::string& name, const std::string& content) {
    const fs::path file = folder_ / name;
    write_file(file, content);
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }

  fs::path folder_;
  Env settings_;
  std::optional<EnvOverride> override_;
};

Tensor sum_of(const CompiledKernel& k, const Tensor& x, const Tensor& y) {
  Tensor z = Tensor::zeros(x.shape(), DType::f32, Device::sim());
  const LaunchArg args[] = {{&x, 0}, {&y, 0}, {&z, 0}};
  k.launch(Stream(Device::sim()), args);
  return z;
}

TEST_F(Stored, ASecondCompileSkipsThePassesAndComputesTheSame) {
  const Tensor x = Tensor::uniform({4000}, DType::f32, -1, 1, 1, Device::sim());
  const Tensor y = Tensor::uniform({4000}, DType::f32, -1, 1, 2, Device::sim());
  const auto first = compile(request_for("vector_add"));
  EXPECT_FALSE(is_from_disk(*first));
  EXPECT_THAT(verbs(*first), Contains("optimize"));
  ASSERT_EQ(entries().size(), 1u);

  const auto second = compile(request_for("vector_add"));
  EXPECT_TRUE(is_from_disk(*second));
  EXPECT_THAT(verbs(*second), Not(Contains("optimize")));
  EXPECT_EQ(second->dump("optimize"), first->dump("optimize"));
  EXPECT_EQ(second->dump("launch"), first->dump("launch"));
  EXPECT_EQ(second->plan, first->plan);
  EXPECT_EQ(sum_of(*second, x, y).to_vector<float>(), sum_of(*first, x, y).to_vector<float>());
  EXPECT_EQ(entries().size(), 1u);
}

/// The whole of a kernel survives, remarks with their lines included.
TEST_F(Stored, EveryGoldenKernelComesBackWordForWord) {
  for (const std::string name : {"vector_add", "row_softmax", "matmul", "attention"}) {
    const auto first = compile(request_for(name)), second = compile(request_for(name));
    ASSERT_TRUE(is_from_disk(*second)) << name << "\n" << second->explain();
    EXPECT_EQ(second->dump("optimize"), first->dump("optimize"));
    ASSERT_EQ(second->remarks.size(), first->remarks.size() + 1);
    for (std::size_t i = 0; i < first->remarks.size(); ++i) {
      EXPECT_EQ(second->remarks[i].reason, first->remarks[i].reason);
      EXPECT_EQ(second->remarks[i].values, first->remarks[i].values);
      EXPECT_EQ(second->remarks[i].loc.line, first->remarks[i].loc.line);
    }
  }
}

TEST_F(Stored, ADamagedEntryIsCompiledAgainAndReplaced) {
  compile(request_for("vector_add"));
  ASSERT_EQ(entries().size(), 1u);
  std::string bytes = read_file(entries()[0]);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  std::ofstream(entries()[0], std::ios::binary) << bytes;

  const auto again = compile(request_for("vector_add"));
  EXPECT_THAT(verbs(*again), Contains("optimize"));
  EXPECT_THAT(again->explain(), HasSubstr("is damaged (checksum differs): compiled again"));
  EXPECT_TRUE(is_from_disk(*compile(request_for("vector_add"))));
}

/// Sound bytes, another content: what a bug of the writer or another hand leaves after.
TEST_F(Stored, AnEntryWithOtherContentIsAMiss) {
  Compilation k;
  const CompileRequest request = request_for("vector_add");
  key(k, request);
  trace(k, request);
  optimize(k, request);
  const std::string simt = ir::print(k.simt);
  const auto renamed = [&](std::string text) {
    return text.replace(text.find(k.name), k.name.size(), "other");
  };
  const std::string meta =
      R"({"plan": [], "report": {}, "remarks": [{"pass": 1}], "something": null})";
  const std::vector<CacheEntry> wrong = {
      {},
      {.meta = "{", .cubin = "", .ptx = "", .ir = simt, .log = ""},
      {.meta = "[1, 2]", .cubin = "", .ptx = "", .ir = simt, .log = ""},
      {.meta = meta, .cubin = "", .ptx = "", .ir = simt, .log = ""},
      {.meta = meta, .cubin = "", .ptx = "", .ir = renamed(simt), .log = ""}};
  for (const CacheEntry& entry : wrong) {
    fs::remove_all(settings_.cache_dir);
    KernelCache({.folder = settings_.cache_dir, .log = {}}).store(disk_key(k, request), entry);
    ASSERT_EQ(entries().size(), 1u);
    const auto got = compile(request_for("vector_add"));
    EXPECT_THAT(got->explain(), HasSubstr("is unusable"));
    EXPECT_EQ(got->dump("optimize"), simt);
    EXPECT_TRUE(is_from_disk(*compile(request_for("vector_add")))) << "a good one took its place";
  }
}

/// The same with meta and IR that can be read: the kernel is checked against the one requested.
TEST_F(Stored, AKernelOfAnotherNameIsNotTaken) {
  compile(request_for("vector_add"));
  Compilation k;
  const CompileRequest request = request_for("vector_add");
  key(k, request);
  trace(k, request);
  KernelCache cache({.folder = settings_.cache_dir, .log = {}});
  auto entry = cache.find(disk_key(k, request));
  ASSERT_TRUE(entry);
  entry->ir.replace(entry->ir.find("@" + k.name), k.name.size() + 1, "@other");
  cache.discard(disk_key(k, request));
  cache.store(disk_key(k, request), *entry);
  EXPECT_THAT(compile(request_for("vector_add"))->explain(), HasSubstr("(internal error"));
}

/// Replaces `from` in the metadata of the only entry, under a checksum that is right.
void change_meta(const std::string& name, const fs::path& folder, std::string_view from,
                 const std::string& to) {
  Compilation k;
  const CompileRequest request = request_for(name);
  key(k, request);
  trace(k, request);
  KernelCache cache({.folder = folder, .log = {}});
  auto entry = cache.find(disk_key(k, request));
  ASSERT_TRUE(entry);
  const std::size_t at = entry->meta.find(from);
  ASSERT_NE(at, std::string::npos) << entry->meta;
  entry->meta.replace(at, from.size(), to);
  cache.discard(disk_key(k, request));
  cache.store(disk_key(k, request), *entry);
}

/// explain() only reports the plan of an entry, so it must not throw for one that the passes
/// reject.
TEST_F(Stored, APlanThatNoPassAcceptsIsExplained) {
  const std::pair<std::string_view, std::string> changes[] = {
      {"wgmma=0", "wgmma=1"},         {"persistent=0", "persistent=1"}, {"stages=", "stages=9"},
      {"num_warps=", "num_warps=77"}, {"num_warps=", "num_warps=-"},    {"swap_ab=0", "swap_ab=1"}};
  for (const auto& [from, to] : changes) {
    SCOPED_TRACE(to);
    fs::remove_all(settings_.cache_dir);
    compile(request_for("vector_add"));
    change_meta("vector_add", settings_.cache_dir, from, to);
    const auto again = compile(request_for("vector_add"));
    EXPECT_TRUE(is_from_disk(*again));
    EXPECT_THAT(again->explain(), HasSubstr("this plan has no Schedule: "));
    const Tensor x = Tensor::full({100}, 1, DType::f32, Device::sim());
    EXPECT_EQ(sum_of(*again, x, x).to_vector<float>(), std::vector<float>(100, 2.f));
  }
}

/// Two plans that are accepted: their Schedules are shown.
TEST_F(Stored, AnotherPlanThatPassesAcceptIsExplained) {
  for (const std::string to : {"stages=1", "stages=5"}) {
    fs::remove_all(settings_.cache_dir);
    const auto first = compile(request_for("vector_add"));
    change_meta("vector_add", settings_.cache_dir, "stages=" + std::to_string(first->plan.stages),
                to);
    const auto again = compile(request_for("vector_add"));
    EXPECT_TRUE(is_from_disk(*again));
    EXPECT_THAT(again->explain(), AllOf(HasSubstr("role"), Not(HasSubstr("no Schedule"))));
  }
}

TEST_F(Stored, AllInputsArePartOfTheKey) {
  const auto nth = [&](std::size_t n, CompileRequest r) {
    const auto k = compile(r);
    EXPECT_FALSE(is_from_disk(*k)) << n;
    EXPECT_EQ(entries().size(), n);
  };
  nth(1, request_for("vector_add"));
  CompileRequest r = request_for("vector_add");
  r.target = ir::Target("sm_80");
  nth(2, r);
  r = request_for("vector_add");
  r.backend = Backend::Llvm;
  nth(3, r);
  r = request_for("vector_add");
  r.plan = ir::Plan{.num_warps = 8};
  nth(4, r);
  r = request_for("vector_add");
  r.lineinfo = true;
  nth(5, r);
  r = request_for("vector_add");
  r.trace = [] {
    ir::Kernel k = golden("vector_add");
    k.info.name = "sum";
    return k;
  };
  nth(6, r);
  r = request_for("vector_add");
  r.planned = ir::parse_plan_request("num_warps=8");
  nth(7, r);
}

TEST_F(Stored, OffAndDumpsBypassTheCache) {
  settings_.cache = "off";
  apply();
  compile(request_for("vector_add"));
  EXPECT_FALSE(fs::exists(settings_.cache_dir));

  settings_.cache = "on";
  apply();
  compile(request_for("vector_add"));
  ASSERT_EQ(entries().size(), 1u);
  settings_.cache = "off";
  apply();
  EXPECT_FALSE(is_from_disk(*compile(request_for("vector_add"))));
  settings_.cache = "on";
  settings_.dump = "all:" + (folder_ / "dump").string();
  apply();
  EXPECT_FALSE(is_from_disk(*compile(request_for("row_softmax"))));
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(Stored, ReadOnlyReadsAndDoesNotWrite) {
  compile(request_for("vector_add"));
  settings_.cache = "readonly";
  apply();
  EXPECT_TRUE(is_from_disk(*compile(request_for("vector_add"))));
  EXPECT_FALSE(is_from_disk(*compile(request_for("row_softmax"))));
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(Stored, AFolderThatCannotBeMadeCostsTheCacheOnly) {
  write_file(folder_ / "file", "");
  settings_.cache_dir = folder_ / "file" / "cache";
  apply();
  EXPECT_FALSE(is_from_disk(*compile(request_for("vector_add"))));
}

TEST_F(Stored, TheInterpreterNeedsNone) {
  compile(request_for("vector_add", Device::cpu()));
  EXPECT_FALSE(fs::exists(settings_.cache_dir));
}

// ---- machine code, without a GPU: up to the verb `launch` nothing requests one

class StoredCode : public Stored {
 protected:
  StoredCode() {
    settings_.llvm = tool("libtegula_llvm.so", "an emitter");
    settings_.ptxas = tool("ptxas", "an assembler");
    apply();
    request_ = request_for("matmul", Device::cuda());
    request_.backend = Backend::Llvm;
    request_.target = ir::Target("sm_90a");
  }

  Compilation traced() const {
    Compilation k;
    key(k, request_);
    trace(k, request_);
    return k;
  }

  /// As `emit` and `assemble` would leave it.
  void build(Compilation& k) const {
    optimize(k, request_);
    k.emitted.ptx = "// ptx";
    k.cubin.assign(2000, 'x');
    std::memcpy(k.cubin.data(), "\177ELF", 4);
    k.cubin[18] = static_cast<char>(190);  // the machine: CUDA
    k.cubin[19] = 0;
    k.report.registers = 168;
    k.report.warnings = {"a warning"};
    k.report.serialised = true;
  }

  bool publish(void (*change)(Compilation&) = [](Compilation&) {}) const {
    Compilation k = traced();
    DiskCacheLookup stored(k, request_);
    Artefact artefact;
    if (stored.load(artefact)) return false;
    build(k);
    change(k);
    stored.save(make_artefact(k));
    return true;
  }

  bool loads() const {
    Compilation k = traced();
    Artefact artefact;
    return DiskCacheLookup(k, request_).load(artefact);
  }

  CompileRequest request_;
};

TEST_F(StoredCode, CodeRecipeAndReportComeBack) {
  ASSERT_TRUE(publish());
  Compilation of = traced(), k = traced();
  build(of);
  const std::string simt = ir::print(of.simt, {.locations = false});
  const Artefact want = make_artefact(of);
  DiskCacheLookup stored(k, request_);
  Artefact got;
  const bool found = stored.load(got);
  if (!found) stored.save(got);  // tells why
  ASSERT_TRUE(found) << k.remarks.back().reason;
  EXPECT_EQ(got.name, "matmul");
  EXPECT_EQ(got.target, ir::Target("sm_90a"));
  EXPECT_EQ(got.kind, ImageKind::cubin);
  EXPECT_EQ(got.image, want.image);
  EXPECT_EQ(got.code, "// ptx");
  EXPECT_EQ(got.report.registers, 168);
  EXPECT_EQ(got.report.warnings, want.report.warnings);
  EXPECT_TRUE(got.report.serialised);
  EXPECT_EQ(got.threads, want.threads);
  EXPECT_EQ(got.cluster, want.cluster);
  EXPECT_EQ(got.shared_bytes, want.shared_bytes);
  EXPECT_EQ(got.persistent, want.persistent);
  EXPECT_EQ(got.has_wgmma, want.has_wgmma);
  EXPECT_EQ(got.schedule_text, want.schedule_text);
  EXPECT_EQ(k.plan, of.plan);
  EXPECT_EQ(got.recipe, want.recipe);
  // A launch does not need the IR, which is parsed when it is read.
  EXPECT_TRUE(k.simt.info.name.empty());
  const CompiledKernel kernel(std::move(k), std::move(got));
  EXPECT_EQ(ir::print(kernel.simt(), {.locations = false}), simt);
}

TEST_F(StoredCode, CodeThatNoDriverWouldTakeIsAMiss) {
  ASSERT_TRUE(publish([](Compilation& k) { k.cubin.assign(2000, 'x'); }));
  EXPECT_FALSE(loads());
  ASSERT_TRUE(publish([](Compilation& none) {
    none.cubin.clear();
    none.emitted.ptx.clear();
  })) << "the bad one is gone";
  EXPECT_FALSE(loads());
}

/// A recipe is read without the IR that it was made from, so an entry with another one is a miss.
TEST_F(StoredCode, ARecipeThatIsNotTheKernelsIsAMiss) {
  const auto planted = [&](const char* from, const char* to) {
    SCOPED_TRACE(from);
    fs::remove_all(settings_.cache_dir);
    ASSERT_TRUE(publish());
    KernelCache cache({.folder = settings_.cache_dir, .log = {}});
    const Compilation k = traced();
    auto entry = cache.find(disk_key(k, request_));
    ASSERT_TRUE(entry);
    const std::size_t at = entry->meta.find(from);
    ASSERT_NE(at, std::string::npos) << entry->meta;
    entry->meta.replace(at, std::string_view(from).size(), to);
    cache.discard(disk_key(k, request_));
    cache.store(disk_key(k, request_), *entry);
    EXPECT_FALSE(loads()) << entry->meta;
  };
  planted(R"("steps":[["dim",)", R"("steps":[["stride",)");
  planted(R"(["map",0,)", R"(["map",9,)");
  planted(R"("ranks":[2,)", R"("ranks":[1,)");
  planted(R"("box":[)", R"("box":[7,)");  // a rank other than that of the order
  planted(R"("threads":)", R"("threads":9)");
  planted(R"("name":"matmul")", R"("name":"matmil")");
}

TEST_F(StoredCode, AToolReplacedInPlaceMakesAnotherKey) {
  ASSERT_TRUE(publish());
  EXPECT_FALSE(publish()) << "nothing changed";
  tool("ptxas", "an Assembler");
  EXPECT_TRUE(publish());
  tool("libtegula_llvm.so", "an Emitter");
  EXPECT_TRUE(publish());
  settings_.ptxas = folder_ / "none";
  apply();
  EXPECT_FALSE(loads()) << "an error of the assembler's, not of ours";
}

TEST_F(StoredCode, NvrtcIsNamedByItsContentAndItsBuiltins) {
  std::string why;
  const auto nvrtc = find_nvrtc(&why);
  if (!nvrtc) GTEST_SKIP() << why;
  request_.backend = Backend::Nvrtc;
  const std::string key = disk_key(traced(), request_).str();
  EXPECT_THAT(key, HasSubstr("nvrtc: " + tool_hash(nvrtc->path).hex()));
  EXPECT_THAT(key, HasSubstr("nvrtc builtins: "));
  EXPECT_THAT(key, Not(HasSubstr("ptxas")));
  EXPECT_THAT(key, Not(HasSubstr(nvrtc->path.string()))) << "where a tool lies does not matter";
}

/// Machine code has no lines: a moved kernel is found, without its previous lines.
TEST_F(StoredCode, LinesMatterOnlyWhereTheyAreKept) {
  const auto moved = [](CompileRequest r) {
    r.trace = [trace = r.trace] {
      ir::Kernel k = trace();
      walk(k, k.body(), [&](ir::OpId op) { k[op].loc = Loc("moved.cpp", 7, 1); });
      return k;
    };
    return r;
  };
  const Compilation k = traced();
  Compilation m = traced();
  m.tile = moved(request_).trace();
  EXPECT_EQ(disk_key(k, request_).hash(), disk_key(m, request_).hash());
  request_.lineinfo = true;
  EXPECT_NE(disk_key(k, request_).hash(), disk_key(m, request_).hash());
}

}  // namespace
}  // namespace tegula::runtime::stored_kernel_test
