// tests/filetests/emit/*.tir: each file is emitted by LLVM, compared with the directives in its
// comments and assembled.
//   ; ptx: TEXT          occurs
//   ; ptx-count N: TEXT  occurs exactly N times
//   ; ptx-not: TEXT      does not occur
// One more test keeps every op of the simt form covered by some file.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "ir/op.h"
#include "tests/unit/llvm/emit_testing.h"

namespace tegula::emit_files_test {
namespace {

using emit_cases::count;

std::map<std::string, std::string> emit_files() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/tests/filetests/emit"))
    if (entry.path().extension() == ".tir") files[entry.path().stem()] = read_file(entry.path());
  return files;
}

void check_directive(std::string_view directive, std::string_view text, const std::string& ptx) {
  if (directive == "ptx") {
    EXPECT_GT(count(ptx, text), 0) << "expected: " << text;
  } else if (directive == "ptx-not") {
    EXPECT_EQ(count(ptx, text), 0) << "not expected: " << text;
  } else if (directive.starts_with("ptx-count ")) {
    int n = -1;
    directive.remove_prefix(10);
    std::from_chars(directive.data(), directive.data() + directive.size(), n);
    EXPECT_EQ(count(ptx, text), n) << text;
  }
}

class EmitFile : public ::testing::TestWithParam<std::string> {};

TEST_P(EmitFile, IsEmittedAsItsDirectivesSayAndAssembles) {
  const std::string text = emit_files().at(GetParam());
  const ir::Kernel kernel = emit_cases::kernel_of(text, GetParam());
  const std::string ptx = codegen::emit_llvm(kernel).ptx;
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with("; ptx")) continue;
    line.remove_prefix(2);
    const auto colon = line.find(": ");
    ASSERT_NE(colon, line.npos) << line;
    check_directive(line.substr(0, colon), line.substr(colon + 2), ptx);
  }
  if (HasFailure()) std::fputs(ptx.c_str(), stderr);
  emit_cases::expect_sound(ptx, std::string(kernel.info.target.name()), GetParam());
}

std::vector<std::string> file_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : emit_files()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Emit, EmitFile, ::testing::ValuesIn(file_names()),
                         [](const auto& info) { return info.param; });

TEST(EmitFiles, UseEveryOpThatReachesAnEmitter) {
  std::set<ir::Opcode> used;
  for (const auto& [name, text] : emit_files()) {
    const ir::Kernel k = ir::parse(text, name);
    ir::walk(k, k.body(), [&](ir::OpId op) { used.insert(k[op].opcode); });
  }
  const auto ops = ir::all_ops();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool emitted = ops[i].family == ir::Family::Structure ||
                         ops[i].family == ir::Family::Elementwise ||
                         ops[i].family == ir::Family::Simt;
    EXPECT_TRUE(!emitted || used.contains(static_cast<ir::Opcode>(i)))
        << ops[i].mnemonic << " is in no file of tests/filetests/emit";
  }
}

}  // namespace
}  // namespace tegula::emit_files_test
