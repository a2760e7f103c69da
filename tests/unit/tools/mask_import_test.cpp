// Masks extracted from IR: as tiles in a kernel, and masks that cannot be followed.
#include <gtest/gtest.h>

#include "dsl/instance.h"
#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/formula.h"
#include "ir/text.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tools/workload/traced_mask.h"

namespace tegula::mask_import_test {
using namespace kernels;
namespace {

using ir::BlockCoverage;
using namespace masks;

/// The mask as a kernel applies it: to a column of queries and a row of keys.
ir::MaskExpr import_tiles(const Mask& mask) {
  const auto traced = kernel("tiles", [mask](Out<i32, 2> out) {
    for (auto [m, n] : grid(out, 32, 64))
      out(m, n) = where(mask(0, 0, expand(m, 1), expand(n, 0)), 1, 0);
  });
  const Tensor out = Tensor::empty({128, 128}, DType::i32, Device::cpu());
  const std::vector<tegula::detail::HostArg> args{
      tegula::detail::ParamTraits<Out<i32, 2>>::pack(out)};
  const dsl::TraceResult result = traced.instance().trace(traced.instance().signature(args));
  ir::MaskArgs roles;
  ir::Value root;
  ir::walk(result.kernel, result.kernel.body(), [&](ir::OpId op) {
    const ir::OpData& d = result.kernel[op];
    if (d.opcode == ir::Opcode::Select) root = d.operands[0];
    if (d.opcode != ir::Opcode::ExpandDims) return;
    (d.attrs.i(ir::AttrName::axis) == 1 ? roles.query : roles.key) = d.results[0];
  });
  return ir::import_mask(result.kernel, root, roles);
}

BlockCoverage classify(const ir::MaskExpr& e, std::int64_t q, std::int64_t kv,
                       const ir::MaskParams& params = {}) {
  return ir::MaskBlocks(e).classify({0, 0, q, q + 32, kv, kv + 64}, params);
}

TEST(MaskImport, TilesAreReadLikeScalars) {
  const ir::MaskExpr e = import_tiles(sliding_window(100));
  EXPECT_EQ(e.str(), trace_mask(sliding_window(100)).expr.str());
  EXPECT_EQ(e.str(), "and(le(kv, q), le(sub(q, kv), 100))");
  EXPECT_EQ(classify(e, 64, 0), BlockCoverage::Full);
  EXPECT_EQ(classify(e, 0, 64), BlockCoverage::Empty);
  EXPECT_EQ(classify(e, 32, 0), BlockCoverage::Partial);
}

TEST(MaskImport, AGatherIsATable) {
  std::vector<i32> ids;
  for (int i = 0; i < 128; ++i) ids.push_back(i / 64);
  const ir::MaskExpr e = import_tiles(document(Tensor::from(ids, Device::cpu())));
  EXPECT_EQ(e.str(), "eq(table0[q], table0[kv])");
  const std::vector<ir::MaskTable> tables{
      ir::MaskTable(std::vector<std::int64_t>(ids.begin(), ids.end()))};
  const ir::MaskParams params(std::vector<std::int64_t>{}, tables);
  EXPECT_EQ(classify(e, 0, 0, params), BlockCoverage::Full);
  EXPECT_EQ(classify(e, 0, 64, params), BlockCoverage::Empty);
  EXPECT_EQ(classify(e, 0, 64), BlockCoverage::Partial) << "without its contents";
}

TEST(MaskImport, ANumberOfTheLaunchIsAParameter) {
  const ir::MaskExpr e = import_tiles(prefix_lm(Scalar<i32>(64)));
  ASSERT_EQ(e.params.size(), 1u);
  EXPECT_EQ(e.str(), "or(lt(kv, p0), le(kv, q))");
  EXPECT_EQ(classify(e, 0, 0, std::vector<std::int64_t>{64}), BlockCoverage::Full);
  EXPECT_EQ(classify(e, 0, 0, std::vector<std::int64_t>{63}), BlockCoverage::Partial);
  EXPECT_EQ(classify(e, 0, 0), BlockCoverage::Partial) << "whatever the number is";
}

TEST(MaskImport, ReshapedPositionsAreUnknown) {
  // The query of an element of a reshaped tile is not followed, even if no element moves.
  const ir::MaskExpr e = import_tiles(
      [](Tile, Tile, Tile q, Tile kv) { return q.reshape({1, 32}).T() + 0 * kv >= kv; });
  EXPECT_TRUE(e.depends(e.root, ir::kOnUnknown));
  EXPECT_EQ(classify(e, 96, 0), BlockCoverage::Partial);
}

TEST(MaskImport, SharedExpressionsAreFollowedOnce) {
  const TracedMask m = trace_mask([](Tile, Tile, Tile q, Tile kv) {
    Tile x = kv, y = cast<f32>(q);
    for (int i = 0; i < 60; ++i) {
      x = (x + x) ^ (x & q);
      y = y + y;
    }
    return x < q && y < 1.0f;
  });
  EXPECT_LT(m.expr.nodes.size(), 200u);
  EXPECT_LT(m.expr.str().size(), 100000u);
  EXPECT_EQ(ir::solve_mask(m.expr).mask_class, ir::MaskClass::Data);
  EXPECT_EQ(classify(m.expr, 0, 0), BlockCoverage::Partial);
}

TEST(MaskImport, SumsOfOneValueAreFollowedOnce) {
  const TracedMask m = trace_mask([](Tile, Tile, Tile q, Tile kv) {
    Tile x = kv, seen = kv < q;
    for (int i = 0; i < 60; ++i) {
      x = x + x;
      seen = !(seen && (seen || x < q));
    }
    return seen && x < q;
  });
  EXPECT_EQ(classify(m.expr, 0, 0), BlockCoverage::Partial);
  ir::solve_mask(m.expr);
}

TEST(MaskImport, ANumberThatALoopChangesIsUnknown) {
  const ir::Kernel k = ir::parse(R"(kernel @k tile (%q: i32, %kv: i32, %n: i32) {
    %zero = const [value = 0] : i32
    %one = const [value = 1] : i32
    %sum = for %zero, %n, %one, %zero : i32 {
      (%i: i32, %carry: i32)
      %inside = cmp %kv, %i [pred = "lt"] : i1
      %sure = cmp %kv, %n [pred = "lt"] : i1
      yield %i
    }
  })");
  ir::Value inside, sure;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode != ir::Opcode::Cmp) return;
    (inside ? sure : inside) = k[op].results[0];
  });
  const ir::MaskArgs roles{{}, {}, k.params()[0].value, k.params()[1].value};
  EXPECT_EQ(ir::import_mask(k, inside, roles).str(), "lt(kv, ?)");
  EXPECT_EQ(ir::import_mask(k, sure, roles).str(), "lt(kv, p0)");
}

}  // namespace
}  // namespace tegula::mask_import_test
