// The exactness of distances when the pass hoist_broadcast_terms converts positions instead.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/eval/eval.h"
#include "ir/pipeline.h"
#include "ir/text.h"

namespace tegula::ir::hoist_broadcast_terms_test {
namespace {

constexpr std::int64_t kRows = 4, kColumns = 8;

/// Stores cast<f32>(kv - q) for kv = first_kv + 0 .. 7, q = first_q + 0 .. 3.
constexpr const char* kDistances = R"(
kernel @distances tile target(sm_90a) (%q0: i64 [arg = 0], %kv0: i64 [arg = 1], %y: view<?x?xf32, out> [arg = 2]) {
  %zero = const [value = 0] : i32
  %rows = arange [start = 0] : tile<4xi64>
  %q = add %rows, %q0 : tile<4xi64>
  %q1 = expand_dims %q [axis = 1] : tile<4x1xi64>
  %wide_q = broadcast %q1 : tile<4x8xi64>
  %columns = arange [start = 0] : tile<8xi64>
  %kv = add %columns, %kv0 : tile<8xi64>
  %kv1 = expand_dims %kv [axis = 0] : tile<1x8xi64>
  %wide_kv = broadcast %kv1 : tile<4x8xi64>
  %d = sub %wide_kv, %wide_q : tile<4x8xi64>
  %f = cast %d [reassoc = 1] : tile<4x8xf32>
  store_view %y, %f, %zero, %zero [axes = [0, 1]]
})";

std::vector<float> distances(const Kernel& k, std::int64_t q, std::int64_t kv) {
  std::vector<float> out(kRows * kColumns);
  const std::vector<EvalArg> args{
      Cell{.i = q}, Cell{.i = kv},
      TensorArg{out.data(), {kRows, kColumns}, {kColumns, 1}, DType::f32}};
  EXPECT_EQ(evaluate(k, args).str(), "");
  return out;
}

TEST(HoistBroadcastTerms, DistancesKeepTheirAccuracyFarOut) {
  Kernel k = parse(kDistances, "distances");
  PassContext context;
  ASSERT_TRUE(find_pass(ir_passes(), "hoist_broadcast_terms")->run(k, context));
  ASSERT_EQ(print(k).find("tile<4x8xi64>\n  store"), std::string::npos);
  const std::int64_t far = std::int64_t{1} << 40, exact = std::int64_t{1} << 24;
  for (const std::int64_t q : {std::int64_t{0}, std::int64_t{12345}, exact - 3, far + 7, -far})
    for (const std::int64_t away : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1000},
                                    -exact + 100, exact + 1, far + 3, -far}) {
      const std::vector<float> got = distances(k, q, q + away);
      for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
        const std::int64_t d = away + i % kColumns - i / kColumns;
        const double error = std::abs(static_cast<double>(got[static_cast<std::size_t>(i)]) -
                                      static_cast<double>(d));
        const bool is_exact = std::abs(d) + kRows + kColumns < exact;
        EXPECT_LE(error, is_exact ? 0 : std::abs(static_cast<double>(d)) * 0x1p-22)
            << "distance " << d << " from " << q;
      }
    }
}

}  // namespace
}  // namespace tegula::ir::hoist_broadcast_terms_test
