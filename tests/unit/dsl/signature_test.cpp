// The key of a call: what it distinguishes, and what it must not.
#include "dsl/signature.h"

#include <gmock/gmock.h>

#include "dsl/call_key.h"
#include "run_on_host.h"

namespace tegula::dsl::signature_test {
namespace {

using test::kHost;
using testing::HasSubstr;

/// One kernel of one matrix; both keys of a call of it.
class Keys {
 public:
  Keys() : kernel_(kernel("k", [](In<f32, 2>) {})) {}

  std::string full(const Tensor& t) const { return kernel_.instance().signature(args(t)).text(); }
  CallKey fast(const Tensor& t) const {
    CallArgs unused;
    return make_call_key(kernel_.instance(), args(t), kHost, unused);
  }
  /// Both keys agree on whether two tensors are of one class.
  void expect_same(const Tensor& a, const Tensor& b, bool same) const {
    EXPECT_EQ(full(a) == full(b), same) << a.str() << " and " << b.str();
    EXPECT_EQ(fast(a) == fast(b), same) << a.str() << " and " << b.str();
  }

 private:
  static std::array<HostArg, 1> args(const Tensor& t) {
    return {HostArg{ParamKind::View, DType::f32, &t, 0}};
  }
  Kernel<In<f32, 2>> kernel_;
};

alignas(64) float memory[4096];
Tensor at(std::size_t offset, const Dims& shape, const Dims& strides = {}) {
  return Tensor::borrow(memory + offset, shape, DType::f32, kHost, strides);
}

TEST(Key, LengthsVaryWithinAClass) {
  const Keys k;
  k.expect_same(at(0, {16, 32}), at(0, {48, 32}), true);
  k.expect_same(at(0, {5, 32}), at(0, {7, 32}), true);
  k.expect_same(at(0, {16, 32}), at(4, {16, 32}), true);  // 16 bytes further on
}

TEST(Key, DistinguishesDivisibility) {
  const Keys k;
  for (std::int64_t n : {1, 2, 4, 8}) k.expect_same(at(0, {3 * n, 32}), at(0, {6 * n, 32}), false);
  k.expect_same(at(0, {16, 32}), at(0, {32, 32}), true);
  k.expect_same(at(0, {16, 32}, {64, 1}), at(0, {16, 32}, {40, 1}), false);
}

TEST(Key, DistinguishesAlignmentStridesAndEmptiness) {
  const Keys k;
  k.expect_same(at(0, {16, 32}), at(1, {16, 32}), false);
  k.expect_same(at(1, {16, 32}), at(2, {16, 32}), false);
  k.expect_same(at(0, {16, 32}, {32, 1}), at(0, {16, 32}, {1, 16}), false);
  k.expect_same(at(0, {16, 5}, {16, 1}), at(0, {16, 5}, {16, 3}), false);
  k.expect_same(at(0, {16, 5}, {16, 5}), at(0, {16, 5}, {16, 3}), true);
  k.expect_same(at(0, {16, 32}), at(0, {0, 32}), false);
}

TEST(Key, IndicesWidenShortOf2To31) {
  const Keys k;
  const std::int64_t limit = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);
  const auto of_span = [](std::int64_t span) { return at(0, {2, 16}, {span - 15, 1}); };
  k.expect_same(of_span(limit - 16), of_span(limit - 32), true);
  k.expect_same(of_span(limit - 16), of_span(limit), false);
  const Tensor wide = of_span(limit), narrow = of_span(limit - 1);
  const HostArg w{ParamKind::View, DType::f32, &wide, 0},
      n{ParamKind::View, DType::f32, &narrow, 0};
  EXPECT_EQ(index_type_of(std::span(&w, 1)), DType::i64);
  EXPECT_EQ(index_type_of(std::span(&n, 1)), DType::i32);
}

TEST(Key, BecomesTheTypeOfTheParameter) {
  const Tensor t = at(2, {6, 32}, {64, 1});
  const ArgClass c = classify({ParamKind::View, DType::f32, &t, 0},
                              {ParamKind::View, DType::f32, 2, detail::ViewAccess::InOut});
  EXPECT_EQ(type_of(c).str(),
            "view<?x?xf32, inout, align=8, strides=?x1, dim_div=2x16, stride_div=16x1>");
}

TEST(Key, ReadsAsText) {
  const auto k = kernel("k", [](In<f32, 2>, Scalar<i32>, Ptr<bf16>, bool) {});
  const Tensor t = at(0, {6, 32}), p = Tensor::zeros({8}, DType::bf16, kHost);
  const auto trace = k.trace(t, 3, p, true);
  EXPECT_EQ(trace.result().signature.text(),
            "index i32\nconstant 0x1\narg0 in f32 align 16 [2n by 16n] [16n by 1]\narg1 scalar "
            "i32\narg2 pointer bf16 align 16\n");
}

}  // namespace
}  // namespace tegula::dsl::signature_test
