// Round trips of the text form, the verifier's reports, and the table of ops.
#include "ir/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/builder.h"
#include "ir/verify.h"
#include "tegula/error.h"

namespace tegula::ir::text_test {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string first_error(const std::string& text) {
  try {
    const auto found = verify(parse(text));
    return found.empty() ? "" : found.front().message;
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  }
}

TEST(Text, EveryTirFileReadsVerifiesAndPrintsBack) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TEGULA_SOURCE_DIR "/tests/filetests")) {
    if (entry.path().extension() != ".tir") continue;
    if (read(entry.path()).find("; malformed") != std::string::npos) continue;
    SCOPED_TRACE(entry.path());
    ++files;
    const Kernel k = parse(read(entry.path()), entry.path().string());
    for (const Diagnostic& d : verify(k)) ADD_FAILURE() << d.str();
    const std::string once = print(k);
    EXPECT_EQ(once, print(parse(once)));
    EXPECT_EQ(once, print(clone(k)));
  }
  EXPECT_GE(files, 2);
}

TEST(Text, KeepsLocationsFloatsAndStrings) {
  const std::string text =
      "kernel @k tile target(sm_80) (%x: f32) {\n"
      "  %0 = const [value = inf] : f32 loc(\"a \\\"b\\\".cpp\":3:4)\n"
      "  %1 = const [value = 0.1] : f32\n"
      "  %2 = const [value = -3] : i32\n"
      "  %3 = add %x, %0 : f32\n"
      "}\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, InfersTypesThatAreLeftOut) {
  const Kernel k = parse(
      "kernel @k tile target(sm_90a) (%x: tile<4x8xf32>) { %y = reduce %x [axis = 1, kind = "
      "\"sum\"] }");
  const OpId op = k[k.body()].first;
  EXPECT_EQ(k.type(k[op].results[0]).str(), "tile<4xf32>");
}

TEST(Text, TypesRoundTrip) {
  for (const char* text :
       {"i32", "ptr<bf16>", "tile<128x64xbf16>", "tile<7xptr<f32>>", "v<8xi32>",
        "pending<v<128xf32>>", "tmap", "view<f32, out>",
        "view<?x64xbf16, out, align=16, strides=?x1, dim_div=16x64, stride_div=8x1>"}) {
    std::string_view rest = text;
    const auto type = parse_type(rest);
    ASSERT_TRUE(type) << text;
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(type->str(), text);
  }
}

std::string refusal_of(const std::string& text) {
  try {
    parse(text);
  } catch (const CompileError& e) {
    return e.what();
  }
  return "read";
}

/// Found by tests/fuzz/parsers_test.cpp.
TEST(Text, RejectsInvalidText) {
  const std::string head = "kernel @k tile target(sm_90a) (%x: tile<4xf32>, %c: i1) { ";
  EXPECT_NE(refusal_of(head + "%y = expand_dims %x [axis = 1.5] }").find("'axis' is an integer"),
            std::string::npos);
  std::string nested = head;
  for (int i = 0; i < 100000; ++i) nested += "if %c { ";
  EXPECT_NE(refusal_of(nested).find("more than 100 regions in each other"), std::string::npos);
  std::string pending = "kernel @k simt target(sm_90a) (%x: ";
  for (int i = 0; i < 100000; ++i) pending += "pending<";
  EXPECT_NE(refusal_of(pending).find("expected a type"), std::string::npos);
  EXPECT_NE(refusal_of("kernel @k machine target(sm_90a) (%x: smem<2x4xf32, "
                       "#swz<1048576x64:4; order=[1,0]; rows=[128]>>) { }")
                .find("expected a type"),
            std::string::npos);
  EXPECT_NE(first_error("kernel @k tile target(sm_90a) cluster(0) (%t: tile<4xf32>) { %s = "
                        "cluster_reduce_scatter %t [axis = 0] : tile<4xf32> }")
                .find("a cluster cannot have 0 programs"),
            std::string::npos);
}

/// Values without a name are numbered, past the names of parameters.
TEST(Text, NumbersAroundNamesOfParameters) {
  const std::string text =
      "kernel @k tile target(sm_90a) (%1: i32) {\n"
      "  %0 = const [value = 1] : i32\n"
      "  %2 = add %1, %0 : i32\n"
      "}\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Verify, NamesTheViolation) {
  EXPECT_NE(
      first_error("kernel @k simt target(sm_90a) (%x: i32) { %y = program_id [axis = 0] : i32 }")
          .find("not legal in simt form"),
      std::string::npos);
  EXPECT_NE(
      first_error("kernel @k tile target(sm_90a) (%x: i32, %y: f32) { %z = add %x, %y : i32 }")
          .find("element types differ"),
      std::string::npos);
  EXPECT_NE(first_error("kernel @k tile target(sm_90a) (%x: i32) { %z = add %x, %x : i64 }")
                .find("should be i32"),
            std::string::npos);
  EXPECT_NE(first_error("kernel @k tile target(sm_90a) (%x: i1, %y: i32) { if %x { %z = add %y, %y "
                        "} { } %w = add %z, %y : i32 }")
                .find("not visible"),
            std::string::npos);
  EXPECT_NE(first_error("kernel @k tile target(sm_90a) (%x: i1) { %z = if %x : i32 { } { } }")
                .find("does not end in yield"),
            std::string::npos);
  EXPECT_NE(first_error("kernel @k tile target(sm_90a) (%x: i32) { %z = for %x, %x, %x, %x : i32 { "
                        "(%i: i32, %c: i32) %f = const [value = 1.0] : f32 yield %f } }")
                .find("yields f32"),
            std::string::npos);
}

TEST(Verify, ReshapesKeepTheElements) {
  const std::string head = "kernel @k tile target(sm_90a) (%x: tile<4x8xf32>) { %y = reshape %x : ";
  EXPECT_EQ(first_error(head + "tile<32xf32> }"), "");
  for (const char* type : {"tile<16xf32>", "tile<32xi32>", "f32"})
    EXPECT_NE(first_error(head + type + " }").find("is not a reshape of tile<4x8xf32>"),
              std::string::npos)
        << type;
}

TEST(Verify, PendingIsUsedOnceAndOnlyByWaits) {
  const std::string head =
      "kernel @k simt target(sm_90a) (%d: i64, %f: i1, %s: i32) { %n = poison : v<32xf32> %p = "
      "wgmma %n, %d, %d, %f [shape = [64, 64, 16]] ";
  EXPECT_EQ(first_error(head + "%r = wgmma_wait %p [count = 0] : v<32xf32> }"), "");
  EXPECT_NE(
      first_error(
          head +
          "%r = wgmma_wait %p [count = 0] : v<32xf32> %t = wgmma_wait %p [count = 0] : v<32xf32> }")
          .find("a second time"),
      std::string::npos);
  EXPECT_NE(first_error(head + "%r = concat %p }").find("operands must be registers"),
            std::string::npos);
}

TEST(OpTable, NamesAreUniqueAndDocumented) {
  for (const OpInfo& row : all_ops()) {
    EXPECT_TRUE(find_op(row.mnemonic)) << row.mnemonic;
    EXPECT_EQ(&info(*find_op(row.mnemonic)), &row) << row.mnemonic << " is declared twice";
    EXPECT_TRUE(row.doc.ends_with(".")) << row.mnemonic;
  }
}

}  // namespace
}  // namespace tegula::ir::text_test
