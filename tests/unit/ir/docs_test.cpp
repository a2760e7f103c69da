// docs/ir.md matches the op table, and docs/architecture.md names every pass.
#include <gtest/gtest.h>

#include "ir/op_docs.h"
#include "support/env.h"
#include "support/text.h"

namespace tegula::ir::docs_test {
namespace {

TEST(Docs, IrPageIsUpToDate) {
  const std::string path = TEGULA_SOURCE_DIR "/docs/ir.md";
  if (env().bless) write_file(path, ops_markdown());
  EXPECT_EQ(read_file(path), ops_markdown()) << "TEGULA_BLESS=1 rewrites " << path;
}

TEST(Docs, ArchitectureNamesEveryPass) {
  const std::string page = read_file(TEGULA_SOURCE_DIR "/docs/architecture.md");
#define PASS(name, from, to, what) \
  EXPECT_NE(page.find("`" #name "`"), std::string::npos) << #name " is in passes.def";
#include "ir/passes/passes.def"
#undef PASS
}

}  // namespace
}  // namespace tegula::ir::docs_test
