// docs/ir.md is what the op table says.
#include <gtest/gtest.h>

#include "ir/op_docs.h"
#include "support/env.h"
#include "support/text.h"

namespace tegula::ir {
namespace {

TEST(Docs, IrPageIsUpToDate) {
  const std::string path = TEGULA_SOURCE_DIR "/docs/ir.md";
  if (env().bless) write_file(path, ops_markdown());
  EXPECT_EQ(read_file(path), ops_markdown()) << "TEGULA_BLESS=1 rewrites " << path;
}

}  // namespace
}  // namespace tegula::ir
