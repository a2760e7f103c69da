// Any bytes are read or refused: kernels, types, layouts, plans, variables, devices, what ptxas
// says, comments of reproducers and entries of the disk cache. TEGULA_FUZZ_INPUTS chooses how many,
// TEGULA_FUZZ_SEED which; a crash reports its seed.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "ir/layout/linear_layout.h"
#include "ir/layout/shared_layout.h"
#include "ir/opt_command.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/assemble.h"
#include "runtime/cache_format.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/device.h"
#include "tegula/error.h"
#include "tests/fuzz/guarded.h"
#include "tests/fuzz/mutated_text.h"
#include "tests/fuzz/number_from_env.h"

namespace tegula::fuzz::parsers_test {
namespace {

using Texts = std::vector<std::string>;
using Words = std::vector<std::string_view>;

/// Every mnemonic, attribute and mark of the grammar.
const Words& kernel_words() {
  static const Words words = [] {
    Words w{"kernel",
            "@k",
            "tile",
            "machine",
            "simt",
            "target",
            "threads",
            "smem",
            "cluster",
            "min_ctas_per_sm",
            "persistent",
            "launch",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "<",
            ">",
            "%",
            "%0",
            "%x",
            "=",
            ":",
            ",",
            ";",
            "loc(\"a\":1:2)",
            "\"",
            "\\",
            "x",
            "?",
            "#lin<",
            "#swz<",
            "tile<4x4xf32>",
            "tile<4xi1>",
            "v<4xi32>",
            "v<2xptr<f32>>",
            "view<?xi32, in>",
            "view<?x?xbf16, inout, align=16, strides=?x1>",
            "view<f32, out>",
            "smem<2x64xbf16>",
            "pending<",
            "pending<v<64xf32>>",
            "tmap",
            "token",
            "ptr<f32>",
            "ptr<",
            "i1",
            "i32",
            "i64",
            "f32",
            "bf16",
            "f8e4m3",
            "inf",
            "-inf",
            "nan",
            "yield"};
    for (int i = 0; i < ir::kOpCount; ++i)
      w.emplace_back(ir::info(static_cast<ir::Opcode>(i)).mnemonic);
#define ATTR(name, kind, doc) w.emplace_back(#name);
#include "ir/attrs.def"
#undef ATTR
    return w;
  }();
  return words;
}

/// All kernels that the file tests and the tracer's tests hold.
const Texts& right_kernels() {
  static const Texts texts = [] {
    Texts t;
    for (const char* folder : {"/tests/filetests", "/tests/unit/dsl/golden"})
      for (const auto& e :
           std::filesystem::recursive_directory_iterator(std::string(TEGULA_SOURCE_DIR) + folder)) {
        if (e.path().extension() != ".tir") continue;
        std::string text = read_file(e.path());
        if (text.size() < 6000) t.push_back(std::move(text));
      }
    std::ranges::sort(t);
    return t;
  }();
  return texts;
}

/// Inputs of one parser; `reads` throws only what its users are promised.
template <class Reads>
void feed(const Texts& right, const Words& words, std::uint64_t share, const Reads& reads) {
  const std::uint64_t count = std::max<std::uint64_t>(
                          1, number_from_env("TEGULA_FUZZ_INPUTS", 4000) / share),
                      first = number_from_env("TEGULA_FUZZ_SEED", 1);
  Guard guard(20);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    TextMutator mutator(seed, right, words);
    const std::string text = mutator.text();
    guard.begin(seed);
    try {
      reads(text);
    } catch (const CompileError&) {
    } catch (const DeviceError&) {
    } catch (const std::exception& e) {
      ADD_FAILURE() << "TEGULA_FUZZ_SEED=" << seed << " TEGULA_FUZZ_INPUTS=1: " << e.what() << "\n"
                    << text.substr(0, 4000);
      return;
    }
  }
}

TEST(Parsers, KernelsAreReadOrRefused) {
  std::int64_t parsed = 0, verified = 0;
  feed(right_kernels(), kernel_words(), 1, [&](const std::string& text) {
    const ir::Kernel k = ir::parse(text, "fuzz");
    ++parsed;
    if (!ir::verify(k).empty()) return;
    ++verified;
    // Well-formed text reads back as what it is.
    const std::string printed = ir::print(k);
    const std::string again = ir::print(ir::parse(printed, "fuzz"));
    if (again != printed) throw InternalError("prints as\n" + printed + "and then as\n" + again);
  });
  std::printf("kernels: %lld parsed, %lld well formed\n", static_cast<long long>(parsed),
              static_cast<long long>(verified));
  EXPECT_GT(parsed, 0);
}

TEST(Parsers, TypesAndLayouts) {
  const Texts types{
      "tile<64x32xf32, #lin<64x32; reg=[(0,1),(0,2)]; lane=[(1,0),(2,0),(4,0),(0,4),(0,8)]; "
      "warp=[(8,0),(16,0)]; rep=[0*2,1*2]>>",
      "tile<12x48xbf16, #lin<12x48; reg=[(0,1)]; lane=[(0,2),(0,4),(0,8),(1,0),(2,0)]; "
      "rep=[0*3,1*3]>>",
      "smem<2x64x64xbf16, #swz<64x64:2; order=[1,0]; rows=[128]>>",
      "view<?x16xf32, inout, align=16, strides=?x1, dim_div=16x1>",
      "pending<v<64xf32>>",
      "ptr<bf16>",
      "v<8xptr<i64>>",
      "lin<1>",
      "swz<8x64:2; order=[1,0]; rows=[128*1]>",
      "swz<8x8:4; order=[0,1]; rows=[plain:8*2]; batch=0>"};
  feed(types, kernel_words(), 2, [](const std::string& text) {
    std::string_view rest = text;
    if (const auto t = ir::parse_type(rest)) {
      const std::string text_of_type = t->str();
      std::string_view printed = text_of_type;
      if (ir::parse_type(printed) != t) throw InternalError("another type: " + text_of_type);
    }
    if (const auto layout = ir::LinearLayout::parse(text);
        layout && !(ir::LinearLayout::parse(layout->str())))
      throw InternalError("layout");
    if (const auto layout = ir::SharedLayout::parse(text);
        layout && !(ir::SharedLayout::parse(layout->str())))
      throw InternalError("shared layout");
  });
}

TEST(Parsers, Plans) {
  ir::Plan other;
  other.stages = 3;
  const Texts plans{ir::Plan{}.str(), other.str(), "stages=2 persistent=1",
                    "num_warps=8,producer_warps=1"};
  const Words words{"=",     " ",    ",",     "plan {", "}",           "stages",   "persistent",
                    "warps", "true", "false", "-1",     "99999999999", "registers"};
  feed(plans, words, 4, [](const std::string& text) {
    ir::Plan plan;
    plan.apply(ir::parse_plan_request(text).fields());
    ir::Plan again;
    again.apply(ir::parse_plan_patch(plan.str()));
    if (!(again == plan)) throw InternalError("another plan: " + plan.str());
  });
}

TEST(Parsers, VariablesDevicesAndLogs) {
  const Texts texts{
      "cuda:0",
      "sim",
      "llvm",
      "retrace,retrace",
      "all:/tmp/x",
      "1",
      "readonly",
      "ptxas info    : Used 168 registers, used 16 barriers, 464 bytes cmem[0]\nptxas info    : "
      "Function properties for k\n    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill "
      "loads\nptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized\n",
      ir::opt_comment("tegula opt --plan=\"plan { stages=2 }\"", "canonicalize,plan")};
  const Words words{":",
                    ",",
                    "|",
                    "cuda",
                    "cuda:",
                    "registers",
                    "bytes",
                    "spill stores",
                    "barriers",
                    "ptxas info",
                    "tegula opt",
                    "--plan=",
                    "--passes=",
                    "\"",
                    "TEGULA_PLAN=",
                    "\n"};
  feed(texts, words, 4, [](const std::string& text) {
    static_cast<void>(ir::opt_header(text));
    static_cast<void>(runtime::parse_assembler_log(text));
    static_cast<void>(dtype_from_name(text));
    static_cast<void>(unknown_variables({text}));
    try {
      static_cast<void>(Device::parse(text));
    } catch (const CompileError&) {
    }
    static_cast<void>(Env::read([&](const char*) { return std::optional(text); }));
  });
}

/// A damaged entry whose checksum is right, as a bug or a hand would leave it.
TEST(Parsers, EntriesOfTheDiskCache) {
  runtime::CacheKey key;
  key.add("ir", "kernel");
  std::string long_text;
  for (int i = 0; i < 400; ++i) long_text += std::to_string(i * i);
  const Texts entries{
      runtime::encode_entry(key, {"{\"plan\": [1, 2]}", "", "ptx", "kernel @k", "log"}),
      runtime::encode_entry(key, {long_text, "", long_text, "", ""})};
  const Words words{"\0\0\0\0", "\xff\xff\xff\xff", "kernel"};
  feed(entries, words, 2, [&](std::string file) {
    constexpr std::size_t kTrailer = 24;
    if (file.size() > kTrailer && file.size() % 4 != 0) {
      const Hash128 hash = hash128(std::string_view(file).substr(0, file.size() - kTrailer));
      std::memcpy(&file[file.size() - kTrailer], &hash.high, 8);
      std::memcpy(&file[file.size() - kTrailer + 8], &hash.low, 8);
    }
    static_cast<void>(runtime::decode_entry(file, key));
    static_cast<void>(runtime::entry_key(file));
  });
}

}  // namespace
}  // namespace tegula::fuzz::parsers_test
