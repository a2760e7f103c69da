// Runs every tests/filetests/**/*.tir (file_test.h says what one holds); TEGULA_BLESS=1 rewrites
// what the directives print. Where a file has `eval` directives, each is repeated after the passes
// of each of its `opt` directives and must give the same: passes keep the meaning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <stdexcept>

#include "ir/pipeline.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tests/comparable.h"
#include "tests/filetests/runner/file_test.h"

namespace tegula::filetest {
namespace {

const std::filesystem::path kFolder = TEGULA_SOURCE_DIR "/tests/filetests";

/// Relative to the folder, in order. Those of emit/ and g0/ belong to other tests, which give their
/// comments another meaning (tests/unit/llvm/emit_files_test.cpp).
std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kFolder)) {
    const std::string name = std::filesystem::relative(entry.path(), kFolder).generic_string();
    if (entry.path().extension() == ".tir" && !name.starts_with("emit/") &&
        !name.starts_with("g0/"))
      out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string_view arguments_of(std::string_view command, std::string_view verb) {
  return command.starts_with(verb) && command.substr(verb.size()).starts_with(' ')
             ? trim(command.substr(verb.size()))
             : std::string_view();
}

/// Where the meaning changed, or "".
std::string meaning_lost(const std::vector<Directive>& all, std::string_view text,
                         std::string_view file) {
  for (const Directive& eval : all)
    for (const Directive& opt : all) {
      const auto arguments = arguments_of(eval.command, "eval"),
                 passes = arguments_of(opt.command, "opt");
      if (arguments.empty() || passes.empty()) continue;
      const std::string after = evaluated_after(passes, arguments, text, file);
      if (!after.empty() && after != output_of(eval.command, text, file))
        return "after '" + opt.command + "', '" + eval.command + "' gives\n" + after;
    }
  return "";
}

class FileTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FileTest, MatchesItsExpectations) {
  const std::filesystem::path path = kFolder / GetParam();
  const std::string text = read_file(path);
  const std::vector<Directive> all = directives(text);
  ASSERT_FALSE(all.empty()) << GetParam() << " has no line '; run: ...'";
  std::vector<std::string> outputs;
  try {
    for (const Directive& d : all) outputs.push_back(output_of(d.command, text, GetParam()));
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
  EXPECT_EQ(meaning_lost(all, text, GetParam()), "");
  if (env().bless) return write_file(path, with_outputs(text, outputs));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(test::comparable(outputs[i]), test::comparable(all[i].expected))
        << GetParam() << ": " << all[i].command << "\nTEGULA_BLESS=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(Files, FileTest, ::testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Files, ShowEveryPass) {
  std::string commands;
  for (const std::string& file : files())
    for (const Directive& d : directives(read_file(kFolder / file))) commands += d.command + ",\n";
  for (const ir::Pass& pass : ir::ir_passes()) {
    // Last in its list: the output is this pass's.
    const std::string name(pass.name);
    const bool is_shown = commands.find(" " + name + ",\n") != commands.npos ||
                          commands.find("," + name + ",\n") != commands.npos;
    EXPECT_TRUE(is_shown) << "no file ends in the pass " << name;
  }
}

// ---- the runner itself --------------------------------------------------------------------------

constexpr std::string_view kText = R"(; A comment.
kernel @k tile (%x: view<?xi32, in>, %y: view<?xi32, out>) {
  %i = const [value = 0] : i32
  %a = load_view %x, %i [axes = [0]] : tile<4xi32>
  %b = add %a, %a
  store_view %y, %b, %i [axes = [0]]
}
; run: eval 4 4
;> %y = 2 4 6 8
; run: verify
)";

TEST(Runner, FindsDirectivesAndTheirExpectations) {
  const auto all = directives(kText);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].command, "eval 4 4");
  EXPECT_EQ(all[0].expected, "%y = 2 4 6 8\n");
  EXPECT_EQ(all[1].expected, "");
  EXPECT_THROW(directives("; run: verify\n\n;> stray\n"), std::invalid_argument);
}

TEST(Runner, RewritesExpectationsOnly) {
  const std::string once = with_outputs(kText, {"a\n\nb\n", "c\n"});
  EXPECT_NE(once.find("; run: eval 4 4\n;> a\n;>\n;> b\n; run: verify\n;> c\n"), once.npos) << once;
  EXPECT_EQ(directives(once)[0].expected, "a\n\nb\n");
  EXPECT_EQ(with_outputs(once, {"a\n\nb\n", "c\n"}), once);
  EXPECT_EQ(once.substr(0, once.find("; run")), kText.substr(0, kText.find("; run")));
}

TEST(Runner, EvaluatesBeforeAndAfterPasses) {
  EXPECT_EQ(output_of("eval 4 4", kText, "k.tir"), "%y = 2 4 6 8\n");
  EXPECT_EQ(output_of("eval 3 4", kText, "k.tir"), "%y = 2 4 6 0\n");
  EXPECT_EQ(evaluated_after("canonicalize", "4 4", kText, "k.tir"), "%y = 2 4 6 8\n");
}

TEST(Runner, RefusesWrongDirectives) {
  for (const char* wrong : {"opt nonsense", "opt", "eval 4", "eval 4 x", "eval 4 2x2", "emit ptx",
                            "verify it", "Verify", ""})
    EXPECT_THROW(output_of(wrong, kText, "k.tir"), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace tegula::filetest
