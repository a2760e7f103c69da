// Tables that a mask looks up by row: no iteration of attention's mainloop may make warps
// synchronise for them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/pipeline.h"
#include "ir/plan.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tests/assemble/assembled.h"

namespace tegula::row_tables_test {
using namespace kernels;
namespace {

/// Attention with a table of documents; traced only once in a process.
ir::Kernel attention_with_documents() {
  const Tensor ids = Tensor::zeros({64}, DType::i32, Device::cpu()),
               starts = Tensor::zeros({2}, DType::i32, Device::cpu());
  const Tensor t = test::host({1, 1, 64, 128}), O = test::host({1, 1, 64, 128});
  const Attention attention({.mask = masks::packed_causal(ids, starts)});
  return test::traced("attention", [&] { attention(t, t, t, O); });
}

/// As far as every tile has its layout.
ir::Kernel laid_out(const std::string& target) {
  static const ir::Kernel traced = attention_with_documents();
  ir::Kernel k = ir::clone(traced);
  k.info.target = ir::Target::find(target).value();
  std::vector<ir::Pass> passes;
  for (const ir::Pass& pass : ir::ir_passes()) {
    passes.push_back(pass);
    if (pass.name == std::string_view("assign_layouts")) break;
  }
  ir::PassContext context;
  ir::run_pipeline(k, passes, context, {});
  return k;
}

struct Conversions {
  int all = 0, in_loops = 0;
};

/// The number of values that were looked up: the tile's other values are floats.
Conversions conversions(const ir::Kernel& k, ir::RegionId region, bool in_loop = false) {
  Conversions found;
  for (ir::OpId op : k.ops(region)) {
    const ir::OpData& d = k[op];
    if (d.opcode == ir::Opcode::ConvertLayout && k.type(d.results[0]).dtype() == DType::i32) {
      ++found.all;
      found.in_loops += in_loop;
    }
    for (ir::RegionId inner : d.regions) {
      const Conversions c = conversions(k, inner, in_loop || d.opcode == ir::Opcode::For);
      found.all += c.all;
      found.in_loops += c.in_loops;
    }
  }
  return found;
}

TEST(RowTables, AreReadAsTheAccumulatorsLie) {
  const ir::Kernel k = laid_out("sm_90a");
  EXPECT_EQ(conversions(k, k.body()).all, 0);
}

TEST(RowTables, AreConvertedBeforeTheLoopWithoutWgmma) {
  const ir::Kernel k = laid_out("sm_80");
  const Conversions found = conversions(k, k.body());
  EXPECT_GT(found.all, 0);
  EXPECT_EQ(found.in_loops, 0);
}

}  // namespace
}  // namespace tegula::row_tables_test
