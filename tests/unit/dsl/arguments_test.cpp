// Arguments of calls that cannot be passed: numbers that do not fit their Scalar, more arguments
// than there may be, and addresses outside of all tensors. The kernel object stays usable.
#include <gmock/gmock.h>

#include <limits>

#include "dsl/instance.h"
#include "runtime/storage.h"
#include "tegula/tegula.h"

namespace tegula::dsl::arguments_test {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

class Arguments : public testing::TestWithParam<Device> {
 protected:
  static Tensor tensor(const Dims& shape, DType dtype = DType::f32) {
    return Tensor::zeros(shape, dtype, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Arguments, testing::Values(Device::cpu(), Device::sim()),
                         [](const auto& info) { return info.param.str(); });

/// Returns the code of the first diagnostic and the distance of its line from the line of the call
/// of this function.
template <class F>
std::string error_of(const F& f, std::source_location at = std::source_location::current()) {
  const auto text = [&](const Diagnostic& d) {
    if (!std::string_view(d.loc.file).ends_with("arguments_test.cpp"))
      return d.code + " in " + d.loc.file;
    return d.code +
           (d.loc.line < at.line() ? " above" : " +" + std::to_string(d.loc.line - at.line()));
  };
  try {
    f();
  } catch (const CompileError& e) {
    return text(e.diagnostic());
  } catch (const ProgramError& e) {
    return text(e.diagnostic());
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

// ---- numbers ------------------------------------------------------------------------------------
enum Small { kThree = 3 };

TEST_P(Arguments, NumbersFitTheirScalars) {
  const Tensor z = tensor({4});
  const auto k =
      kernel("k", [](Out<f32, 1> z, Scalar<u32> a, Scalar<i32> b, Scalar<f16> c, Scalar<i64> d) {
        for (auto i : grid(z, 1)) z(i) = cast<f32>(a) + cast<f32>(b) + cast<f32>(c) + cast<f32>(d);
      });
  EXPECT_EQ(error_of([&] { k(z, -1, 0, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(z, 0, 3000000000u, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(z, 1, 2, 70000, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(Stream(GetParam()), z, 0.5, 0, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(z, 0, 0, 0, 9.3e18); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { (void)k.trace(z, 0, 1ll << 31, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { (void)k.compile("sm_80", spec<f32>(4), 1ll << 32, 0, 0, 0); }),
            "T0713 +0");
  k(z, 1u, 2ll, 0.25, kThree);
  EXPECT_EQ(z.to_doubles()[0], 6.25);
}

TEST_P(Arguments, NumbersFitConstantParameters) {
  const Tensor z = tensor({1});
  const auto k = kernel("k", [](Out<f32, 1> z, int a, unsigned b, std::uint8_t c, float d) {
    for (auto i : grid(z, 1)) z(i) = full<f32>(float(a) + float(b) + float(c) + d);
  });
  EXPECT_EQ(error_of([&] { k(z, 3000000000u, 0, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(z, 2.5, 0, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(z, 0, -1, 0, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { k(Stream(GetParam()), z, 0, 0, 300, 0); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { (void)k.trace(z, 0, 0, 0, 1e39); }), "T0713 +0");
  k(z, -2ll, 4u, kThree, 0.5);
  EXPECT_EQ(z.to_doubles()[0], 5.5);
}

TEST(HostNumbers, CapturedScalarsRejectNumbersOutOfRange) {
  Scalar<i32> n = 5;
  Scalar<bool> flag = true;
  Scalar<f8e4m3> small = 448;
  EXPECT_EQ(error_of([&] { n = 1ll << 40; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { n.set(1e10); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { n = std::numeric_limits<float>::quiet_NaN(); }), "T0713 +0");
  EXPECT_EQ(error_of([&] { flag = 2; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { small = 449; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { small = kInf; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { Scalar<u8> byte = 256; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { Scalar<f32> wide = 1e39; }), "T0713 +0");
  EXPECT_EQ(error_of([&] { Scalar<i64> wide = 9223372036854775808.0; }), "T0713 +0");
}

TEST(HostNumbers, ConversionsWithinTheRangeStayLegal) {
  Scalar<i64> wide = 5;
  Scalar<f32> number = 1;
  Scalar<f64> exact = 1.5f;
  Scalar<f16> half = 1.5;
  Scalar<bf16> other = f16(2.0f);
  Scalar<u64> most = std::numeric_limits<std::uint64_t>::max();
  Scalar deduced(2.0f);
  static_assert(std::is_same_v<decltype(deduced), Scalar<f32>>);
  EXPECT_EQ(error_of([&] {
              wide = kThree;
              wide = -9.2e18;
              number = kInf;
              number = 1e-300;
              number = 0.1;
              number = std::numeric_limits<float>::max();
              half = -kInf;
              half = f16(1.0f);
              other = 3e38;
              most = 1.8e19;
              exact = 1ull << 63;
              deduced.set(7);
            }),
            "none");
}

TEST_P(Arguments, CopiesOfAScalarShareItsNumber) {
  Scalar<i32> n = 5;
  struct Holder {
    Scalar<i32> n;
    int other;
  };
  const Holder first{n, 1};
  Holder second{1, 2};
  second = first;
  const auto k = kernel("k", [n](Out<f32, 1> z) {
    for (auto i : grid(z, 1)) z(i) = cast<f32>(n);
  });
  const Tensor z = tensor({1});
  EXPECT_EQ(error_of([&] { second.n = 3e9; }), "T0713 +0");
  k(z);
  EXPECT_EQ(z.to_doubles()[0], 5);
  second.n = 7;
  k(z);
  EXPECT_EQ(z.to_doubles()[0], 7);
  second.n = Scalar<i32>(9);  // another number
  k(z);
  EXPECT_EQ(z.to_doubles()[0], 7);
}

// ---- numbers of arguments -----------------------------------------------------------------------
TEST_P(Arguments, AreAtMost64AtRunTime) {
  using Eight = std::array<In<f32, 1>, 8>;
  const Tensor x = Tensor::full({8}, 1, DType::f32, GetParam()), z = tensor({8});
  const std::vector<Tensor> captured(40, x);
  const auto k = kernel("k", [&](std::array<Eight, 3> in, bool more, Out<f32, 1> z) {
    for (auto i : grid(z, 8)) {
      Tile s = zeros<f32>(8);
      for (const Eight& e : in)
        for (const auto& v : e) s += v(i);
      for (std::size_t c = 0; c < (more ? 40 : 39); ++c) s += view<f32, 1>(captured[c])(i);
      z(i) = s;
    }
  });
  const auto call = [&](bool more) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      k(((void)I, x)..., more, z);
    }(std::make_index_sequence<24>{});
  };
  EXPECT_EQ(error_of([&] { call(true); }), "T0714 above");
  call(false);  // 64 arguments
  EXPECT_EQ(z.to_doubles()[0], 63);
  EXPECT_EQ(error_of([&] { call(true); }), "T0714 above");
  call(false);
  const auto wide = kernel("wide", [](std::array<Eight, 9>) {});
  EXPECT_EQ(error_of([&] {
              [&]<std::size_t... I>(std::index_sequence<I...>) {
                wide(((void)I, x)...);
              }(std::make_index_sequence<72>{});
            }),
            "T0714 above");
}

TEST_P(Arguments, CapturedTensorsBeyond64AreCounted) {
  const std::vector<Tensor> captured(300, tensor({8}));
  const auto k = kernel("k", [&](Out<f32, 1> z) {
    for (auto i : grid(z, 8)) {
      Tile s = zeros<f32>(8);
      for (const Tensor& t : captured) s += view<f32, 1>(t)(i);
      z(i) = s;
    }
  });
  try {
    k(tensor({8}));
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("kernel k has 301 run-time arguments; the limit is 64"));
  }
}

// ---- addresses ----------------------------------------------------------------------------------
auto load_it() {
  return kernel("load_it", [](Ptr<f32> x, Out<f32, 1> y) {
    for (auto i : grid(y, 32)) y(i) = load(x + i.indices());
  });
}

TEST_P(Arguments, AddressesInsideTensorsAreTaken) {
  const Tensor x = Tensor::full({64}, 3, DType::f32, GetParam()), y = tensor({32}),
               n = tensor({64}, DType::i32);
  const auto address = [](const Tensor& t) { return static_cast<f32*>(t.data()); };
  const auto store_it = kernel("store_it", [](Ptr<f32> x) {
    for (auto i : grid({64}, 64)) store(x + i.indices(), 1.0f);
  });
  const auto add_it = kernel("add_it", [](Ptr<i32> x) {
    for (auto i : grid({64}, 64)) atomic_add(x + i.indices(), 1);
  });
  const auto k = load_it();
  k(x, y);
  k(address(x) + 32, y);
  EXPECT_EQ(y.to_doubles()[31], 3);
  store_it(Stream(GetParam()), address(x));
  EXPECT_EQ(x.to_doubles()[63], 1);
  add_it(Stream(GetParam()), static_cast<i32*>(n.data()));
  EXPECT_EQ(n.to_doubles()[63], 1);
  EXPECT_EQ(error_of([&] { k(address(x) + 33, y); }), "T1302 above");  // one element too many
  EXPECT_EQ(error_of([&] { k(address(x) - 1, y); }), "T1302 above");
  k(address(x), y);
}

TEST_P(Arguments, AddressesOutsideOfTensorsAreReported) {
  const Tensor y = tensor({64});
  std::vector<float> own(64, 2.0f);
  const auto k = load_it();
  EXPECT_EQ(error_of([&] { k(own.data(), y); }), "T1302 above");
  EXPECT_EQ(error_of([&] { k(static_cast<f32*>(nullptr), y); }), "T1302 above");
  {
    const Tensor borrowed = Tensor::borrow(own.data(), {64}, DType::f32, GetParam());
    Tensor part = borrowed.slice(0, 0, 8);
    k(own.data(), y);
    EXPECT_EQ(y.to_doubles()[63], 2);
    k(own.data(), y.slice(0, 0, 8));
  }
  EXPECT_EQ(error_of([&] { k(own.data(), y); }), "T1302 above");  // no longer borrowed
  const float* gone = nullptr;
  {
    const Tensor x = tensor({64});
    gone = static_cast<const f32*>(x.data());
    k(gone, y);
  }
  EXPECT_EQ(error_of([&] { k(gone, y); }), "T1302 above");
}

TEST_P(Arguments, AnUndefinedTensorIsNotAnAddress) {
  const Tensor y = tensor({64});
  const auto k = load_it();
  EXPECT_EQ(error_of([&] { k(Tensor(), y); }), "T0703 above");
  k(Tensor::full({64}, 3, DType::f32, GetParam()), y);
  EXPECT_EQ(y.to_doubles()[0], 3);
}

TEST(BorrowedMemory, IsListedUntilTheLastViewIsGone) {
  alignas(16) static float memory[16];
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  bool is_released = false;
  {
    Tensor view;
    {
      std::shared_ptr<void> owner(memory, [&](void*) { is_released = true; });
      const Tensor t = Tensor::borrow(memory + 15, {4, 4}, DType::f32, Device::cpu(), {-4, -1},
                                      std::move(owner));
      EXPECT_EQ(runtime::host_memory_of(begin)->bytes, sizeof memory);
      view = t.select(0, 0);
    }
    EXPECT_EQ(runtime::host_memory_of(begin + 63)->begin, begin);
    EXPECT_FALSE(runtime::host_memory_of(begin + 64));
    EXPECT_FALSE(is_released);
  }
  EXPECT_TRUE(is_released);
  EXPECT_FALSE(runtime::host_memory_of(begin));
}

}  // namespace
}  // namespace tegula::dsl::arguments_test
