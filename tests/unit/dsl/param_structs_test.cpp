// Structs of parameters: what their members are, and that a call gives one argument for each.
#include <gmock/gmock.h>

#include "run_on_host.h"

namespace tegula::param_structs_test {
namespace {

using test::empty;
using test::host;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Mode : std::uint8_t { add, multiply };

struct Pair {
  In<f32, 1> x;
  std::optional<In<f32, 1>> y;
};
struct Everything {
  Pair in;
  Mode mode;
  Out<f32, 1> z;
  Scalar<f32> scale;
  std::optional<Out<i32, 2>> extra;
  Ptr<u32> counter;
  bool is_negated;
};
struct Sixteen {
  Scalar<i32> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
struct Empty {};

template <class... T>
using List = detail::TypeList<T...>;

static_assert(std::is_same_v<detail::MemberTypes<Everything>,
                             List<Pair, Mode, Out<f32, 1>, Scalar<f32>, std::optional<Out<i32, 2>>,
                                  Ptr<u32>, bool>>);
static_assert(std::is_same_v<detail::Leaves<int, Pair, Empty>,
                             List<int, In<f32, 1>, std::optional<In<f32, 1>>>>);
static_assert(detail::MemberTypes<Sixteen>::kSize == 16);
static_assert(
    std::is_same_v<detail::Leaves<std::array<In<f32, 1>, 2>>, List<In<f32, 1>, In<f32, 1>>>);
static_assert(
    std::is_same_v<KernelOf<Pair, bool>, Kernel<In<f32, 1>, std::optional<In<f32, 1>>, bool>>);

auto computed() {
  return kernel("computed", [](const Everything& p, Scalar<f32> offset) {
    for (auto i : grid(p.z, 16)) {
      const Tile y = p.in.y ? Tile((*p.in.y)(i)) : full<f32>(1, 16);
      const Tile v = (p.mode == Mode::add ? p.in.x(i) + y : p.in.x(i) * y) * p.scale + offset;
      p.z(i) = p.is_negated ? -v : v;
    }
  });
}

TEST(ParamStructs, ACallGivesOneArgumentForEachMember) {
  const auto k = computed();
  const Tensor x = host({1, 2}), y = host({3, 4}), z = empty({2});
  k(x, y, Mode::add, z, 10.0f, Tensor(), nullptr, false, 0.5f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(40.5f, 60.5f));
  k(x, y, Mode::multiply, z, 10.0f, Tensor(), nullptr, true, 0.0f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(-30, -80));
  k(x, Tensor(), Mode::add, z, 1.0f, Tensor(), nullptr, false, 0.0f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(2, 3));
}

TEST(ParamStructs, RecordTheSameAsPositionalParameters) {
  struct Views {
    In<f32, 1> x;
    int factor;
    Out<f32, 1> z;
  };
  const auto text = [](const auto& k) {
    return k.trace(host({1, 2, 3}), 2, empty({3}), 1.5f).text();
  };
  const auto by_struct = kernel("k", [](Views v, Scalar<f32> s) {
    for (auto i : grid(v.z, 16)) v.z(i) = v.x(i) * v.factor + s;
  });
  const auto positional = kernel("k", [](In<f32, 1> x, int factor, Out<f32, 1> z, Scalar<f32> s) {
    for (auto i : grid(z, 16)) z(i) = x(i) * factor + s;
  });
  EXPECT_EQ(text(by_struct), text(positional));
}

TEST(ParamStructs, AnyExtentOfAMemberIsCompiledOnce) {
  struct Views {
    In<f32, 1> x;
    Out<f32, 1> z;
  };
  const auto k = kernel("k", [](bool is_doubled, Views v) {
    v.x.do_not_specialize(0), v.z.do_not_specialize(0);
    for (auto i : grid(v.z, 16)) v.z(i) = is_doubled ? v.x(i) * 2 : v.x(i);
  });
  for (const std::int64_t n : {16, 17, 18, 20})
    k(true, Tensor::zeros({n}, DType::f32, test::kHost), empty({n}));
  EXPECT_EQ(k.instance().launcher.compiled(), 1u);
}

TEST(ParamStructs, ArraysAreStructs) {
  const auto k = kernel("k", [](std::array<In<f32, 1>, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = x[0](i) - x[1](i);
  });
  const Tensor z = empty({2});
  k(host({5, 6}), host({1, 3}), z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(4, 3));
}

TEST(ParamStructs, AFunctionMayTakeThem) {
  void (*body)(Pair, Out<f32, 1>) = [](Pair in, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = in.y ? in.x(i) : -in.x(i);
  };
  const Tensor z = empty({2});
  kernel("k", body)(host({1, 2}), Tensor(), z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(-1, -2));
}

TEST(ParamStructs, MembersHaveNames) {
  const auto k = kernel("k", [](Pair in, Out<f32, 1> z) {
                   for (auto i : grid(z, 16)) z(i) = in.x(i);
                 }).named("in.x[N]", "in.y[N]", "z[N]");
  const Tensor z = empty({2});
  k(host({1, 2}), Tensor(), z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(k.dump("trace"), HasSubstr("%in.x: view<"));
  EXPECT_THROW(k(host({1, 2, 3}), Tensor(), z), CompileError);
  EXPECT_THROW(k.named("in..x", "in.y", "z"), CompileError);
}

}  // namespace
}  // namespace tegula::param_structs_test
