// Mistakes of a kernel's author that gave wrong values, and correct programs close to them: tables
// that are shorter than the positions that index them, loops that wait by plain loads, stores of
// several values to one element, and epilogues whose inputs are too short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::user_faults_test {
using namespace kernels;
namespace {

using testing::AnyOf;

class UserFaults : public testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  Tensor f32s(const Dims& shape) const { return Tensor::full(shape, 1, DType::f32, device()); }
  Tensor i32s(const Dims& shape, double value = 0) const {
    return Tensor::full(shape, value, DType::i32, device());
  }
  Tensor heads(std::int64_t count, std::int64_t length) const {
    return Tensor::normal({1, count, length, 64}, DType::bf16, 0, 1, 1, device());
  }
  bool on_sim() const { return device().kind == DeviceKind::sim; }
};
INSTANTIATE_TEST_SUITE_P(Devices, UserFaults, testing::Values(Device::cpu(), Device::sim()),
                         device_name);

/// Returns the code of the error that the call throws; "" if it throws none.
std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    const std::string text = e.what();
    const auto at = text.find("T1");
    return at == std::string::npos ? text : text.substr(at, 5);
  }
  return "";
}

// ---- tables of masks and scores -----------------------------------------------------------------

using T = const Tile&;

TEST_P(UserFaults, TablesThatPositionsIndexDirectly) {
  const Tensor q = heads(4, 32), k = heads(2, 48), o = q.clone();
  const auto code = [&](AttentionSpec spec) {
    return code_of([&] { attention(spec)(q, k, k, o); });
  };
  const auto by_pair = [&](const Tensor& t) {
    return code(
        {.mask = [t](T, T, T q, T kv) { return view<i32, 1>(t)(q) == view<i32, 1>(t)(kv); }});
  };
  EXPECT_EQ(by_pair(i32s({20}, 5)), "T1664");
  EXPECT_EQ(by_pair(i32s({32}, 5)), "T1664");  // 48 keys
  EXPECT_EQ(by_pair(i32s({48}, 5)), "");
  const auto of_heads = [&](const Tensor& t) {
    return code({.score = [t](T s, T, T h, T, T) { return s + view<f32, 1>(t)(h); }});
  };
  EXPECT_EQ(of_heads(f32s({2})), "T1664");
  EXPECT_EQ(of_heads(f32s({4})), "");
  const auto of_rows = [&](const Tensor& t) {
    return code({.score = [t](T s, T, T, T q, T kv) { return s + view<f32, 2>(t)(q, kv); }});
  };
  EXPECT_EQ(of_rows(f32s({31, 48})), "T1664");
  EXPECT_EQ(of_rows(f32s({32, 47})), "T1664");
  EXPECT_EQ(of_rows(f32s({32, 48})), "");
}

TEST_P(UserFaults, TablesThatOtherNumbersIndex) {
  const Tensor q = heads(2, 40), o = q.clone();
  const auto code = [&](AttentionSpec spec) {
    return code_of([&] { attention(spec)(q, q, q, o); });
  };
  const auto by_quarter = [&](const Tensor& t) {
    return code({.mask = [t](T, T, T, T kv) { return view<i32, 1>(t)(kv / 4) != 0; }});
  };
  EXPECT_EQ(by_quarter(i32s({5}, 1)), "T1314");
  EXPECT_EQ(by_quarter(i32s({10}, 1)), "");
  const auto documents = [&](const Tensor& t) {
    return code({.mask = [t](T, T, T q, T kv) {
      return kv <= q && view<i32, 1>(t)(q) == view<i32, 1>(t)(kv);
    }});
  };
  EXPECT_EQ(documents(i32s({39}, 1)), "T1314");
  EXPECT_EQ(documents(i32s({40}, 1)), "");
  const auto distances = [&](const Tensor& t) {
    return code({.mask = [](T, T, T q, T kv) { return kv <= q; },
                 .score = [t](T s, T, T, T q, T kv) { return s + view<f32, 1>(t)(q - kv); }});
  };
  EXPECT_EQ(distances(f32s({38})), "T1314");
  EXPECT_EQ(distances(f32s({40})), "");  // negative distances are masked
}

TEST_P(UserFaults, GuardedTables) {
  const Tensor q = heads(2, 40), o = q.clone(), t = i32s({20}, 1);
  const auto code = [&](AttentionSpec spec) {
    return code_of([&] { attention(spec)(q, q, q, o); });
  };
  EXPECT_EQ(code({.mask = [t](T, T, T, T kv) { return kv < 20 && view<i32, 1>(t)(kv) != 0; }}), "");
  EXPECT_EQ(
      code({.mask = [t](T, T, T, T kv) { return where(kv < 20, view<i32, 1>(t)(kv), 1) != 0; }}),
      "");
  EXPECT_EQ(code({.mask = [t](T, T, T, T kv) { return kv < 21 && view<i32, 1>(t)(kv) != 0; }}),
            "T1314");
}

TEST_P(UserFaults, TablesOfEvaluatedLists) {
  const Tensor q = heads(2, 256), blocks = i32s({1, 2}, 1), positions = i32s({200}, 1);
  const auto code = [&](const Mask& mask) {
    return code_of([&] { (void)attention({.mask = mask}).block_list(Stream(device()), q, q); });
  };
  EXPECT_EQ(code([t = blocks](T, T, T q, T kv) { return view<i32, 2>(t)(q / 128, kv / 128) != 0; }),
            "T1314");
  EXPECT_EQ(code([t = positions](T, T, T, T kv) { return view<i32, 1>(t)(kv) != 0; }), "T1664");
  EXPECT_EQ(code([t = i32s({2, 2}, 1)](T, T, T q, T kv) {
              return view<i32, 2>(t)(q / 128, kv / 128) != 0;
            }),
            "");
}

TEST_P(UserFaults, TablesOfSequences) {
  const auto tensor = [&](std::int64_t n) {
    return Tensor::normal({n, 2, 64}, DType::bf16, 0, 1, 1, device());
  };
  const Tensor q = tensor(50), o = tensor(50),
               starts = Tensor::from(std::vector<i32>{0, 20, 50}, device());
  const auto code = [&](const Tensor& t) {
    return code_of([&] {
      attention({.mask = [t](T, T, T, T kv) {
        return view<i32, 1>(t)(kv) != 0;
      }}).varlen(Stream(device()), q, q, q, o, {starts, starts, 40});
    });
  };
  EXPECT_EQ(code(i32s({29}, 1)), "T1314");
  EXPECT_EQ(code(i32s({30}, 1)), "");
}

// ---- loops that wait ----------------------------------------------------------------------------

TEST_P(UserFaults, WaitsByPlainLoads) {
  Env few = env();
  few.loop_limit = 100'000;
  const EnvOverride with(few);
  const auto code = [&](auto body) {
    const Tensor f = i32s({9}), z = f32s({8});
    return code_of([&] { kernel("waits", body)(f, z); });
  };
  const auto expected = on_sim() ? AnyOf("T1315", "T1315") : AnyOf("T1307", "T1308");
  EXPECT_THAT(code([](Ptr<i32> f, Out<f32, 1> z) {
                for (auto i : grid(z, 1)) {
                  while_([&] { return load(f + i.first()) == 0; }, [&] {});
                  store(f + i.first() + 1, 1);
                  z(i) = 1.0f;
                }
              }),
              expected);
  EXPECT_THAT(code([](Ptr<i32> f, Out<f32, 1> z) {
                for (auto i : grid(z, 1)) {
                  Tile n = full<i32>(0);
                  while_([&] { return load(f) == 0; }, [&] { n += 1; });
                  z(i) = cast<f32>(n);
                }
              }),
              expected);
  EXPECT_THAT(code([](InOut<i32, 1> f, Out<f32, 1> z) {
                for (auto i : grid(z, 1)) {
                  while_([&] { return f(i) == 0; }, [&] {});
                  f(i.shifted(1)) = 1;
                  z(i) = 1.0f;
                }
              }),
              expected);
  EXPECT_THAT(code([](In<i32, 1> f, Out<f32, 1> z) {
                for (auto i : grid(z, 1)) {
                  while_([&] { return f(i) == 0; }, [&] {});
                  z(i) = 1.0f;
                }
              }),
              expected);
}

TEST_P(UserFaults, LoopsThatReadAndEnd) {
  const Tensor f = Tensor::iota({9}, DType::i32, device()), z = f32s({8});
  const auto k = kernel("ends", [](In<i32, 1> f, Out<f32, 1> z) {
    for (auto i : grid(z, 1)) {
      Tile n = full<i32>(0);
      while_([&] { return f(n) < 5; }, [&] { n += 1; });
      while_([&] { return f(0) != 0; }, [&] {});
      z(i) = cast<f32>(n);
    }
  });
  EXPECT_EQ(code_of([&] { k(f, z); }), "");
  EXPECT_EQ(z.to_doubles()[3], 5);
}

// ---- scatters -----------------------------------------------------------------------------------

TEST_P(UserFaults, ScattersOfSeveralValuesToOneElement) {
  const auto k = kernel("scatter", [](In<i32, 1> at, In<f32, 1> x, InOut<f32, 1> z) {
    for (auto i : grid(x, 64)) z(at(i)) = x(i);
  });
  const Tensor x = Tensor::iota({64}, DType::f32, device()), z = f32s({64});
  EXPECT_EQ(code_of([&] { k(i32s({64}, 3), x, z); }), "T1319");
  EXPECT_EQ(code_of([&] { k(i32s({64}, 3), f32s({64}), z); }), "");  // equal values
  EXPECT_EQ(code_of([&] { k(i32s({64}, -1), x, z); }), "");          // all dropped
  EXPECT_EQ(code_of([&] { k(Tensor::iota({64}, DType::i32, device()), x, z); }), "");
  const auto lines = kernel("lines", [](In<i32, 1> at, In<f32, 2> x, InOut<f32, 2> z) {
    for (auto [i, j] : grid(x, 16, 32)) z(at(i), j) = x(i, j);
  });
  const Tensor rows = Tensor::normal({16, 32}, DType::f32, 0, 1, 1, device());
  EXPECT_EQ(code_of([&] { lines(i32s({16}, 2), rows, f32s({16, 32})); }), "T1319");
  const auto by_address = kernel("by_address", [](Ptr<f32> z, In<f32, 1> x) {
    for (auto i : grid(x, 64)) store(z + arange(64) / 2, x(i));
  });
  EXPECT_EQ(code_of([&] { by_address(z, x); }), "T1319");
  const auto in_a_tile = kernel("in_a_tile", [](In<i32, 1> at, In<f32, 1> x, InOut<f32, 1> z) {
    for (auto i : grid(x, 64)) z(i) = scatter(zeros<f32>(64), at(i), x(i), 0);
  });
  EXPECT_EQ(code_of([&] { in_a_tile(i32s({64}, 3), x, z); }), "T1319");
  const auto counts = kernel("counts", [](In<i32, 1> at, InOut<f32, 1> z) {
    for (auto i : grid(at, 64)) z(at(i)) += full<f32>(1, 64);
  });
  EXPECT_EQ(code_of([&] { counts(i32s({64}, 3), z); }), "T1319");
  EXPECT_EQ(code_of([&] { counts(Tensor::iota({64}, DType::i32, device()), z); }), "");
  const auto keeps = kernel("keeps", [](Ptr<f32> z, In<f32, 1> x) {
    for (auto i : grid(x, 64)) {
      const Tile at = z + arange(64) / 2;
      store(at, where(x(i) < 0.0f, x(i), load(at)));
    }
  });
  EXPECT_EQ(code_of([&] { keeps(z, x); }), "");  // nothing changes
  const auto adds = kernel("adds", [](In<i32, 1> at, In<f32, 1> x, InOut<f32, 1> z) {
    for (auto i : grid(x, 64)) atomic_add(z(at(i)), x(i));
  });
  EXPECT_EQ(code_of([&] { adds(i32s({64}, 3), x, z); }), "");
}

/// Outputs of which several elements have one address.
TEST_P(UserFaults, StoresToOverlappingElements) {
  const auto copy = kernel("copy", [](In<f32, 2> x, Out<f32, 2> z) {
    for (auto [i, j] : grid(z, 16, 16)) z(i, j) = x(i, j);
  });
  const Tensor memory = f32s({512}), x = Tensor::normal({16, 16}, DType::f32, 0, 1, 1, device());
  const auto strided = [&](const Dims& shape, const Dims& strides) {
    return Tensor::borrow(memory.data(), shape, DType::f32, device(), strides);
  };
  for (const Dims& strides : {Dims{0, 1}, Dims{1, 0}, Dims{0, 0}, Dims{1, 1}, Dims{15, 1},
                              Dims{1, 8}, Dims{2, 3}, Dims{4, 1}})
    EXPECT_EQ(code_of([&] { copy(x, strided({16, 16}, strides)); }), "T1319") << strides[0];
  // Strides of which none is too small, equal values, and inputs.
  for (const Dims& strides : {Dims{16, 1}, Dims{1, 16}, Dims{32, 2}, Dims{20, 1}})
    EXPECT_EQ(code_of([&] { copy(x, strided({16, 16}, strides)); }), "") << strides[0];
  EXPECT_EQ(code_of([&] { copy(x, strided({2, 16}, {1, 2})); }), "");
  EXPECT_EQ(code_of([&] { copy(x, strided({1, 16}, {0, 1})); }), "");
  EXPECT_EQ(code_of([&] { copy(f32s({16, 16}), strided({16, 16}, {0, 1})); }), "");
  const Tensor z = f32s({16, 16});
  for (const Dims& strides : {Dims{0, 1}, Dims{1, 1}})
    EXPECT_EQ(code_of([&] { copy(strided({16, 16}, strides), z); }), "") << strides[0];
  // Only one of the elements with the same address is stored, or all are added.
  const auto first_row = kernel("first_row", [](In<f32, 2> x, InOut<f32, 2> z) {
    for (auto j : grid(cols(z), 16)) z(0, j) = x(0, j);
  });
  EXPECT_EQ(code_of([&] { first_row(x, strided({16, 16}, {0, 1})); }), "");
  const auto adds = kernel("adds", [](In<f32, 2> x, InOut<f32, 2> z) {
    for (auto [i, j] : grid(z, 16, 16)) atomic_add(z(i, j), x(i, j));
  });
  EXPECT_EQ(code_of([&] { adds(x, strided({16, 16}, {0, 1})); }), "");
}

/// The columns beyond the bias are absent from the result.
TEST_P(UserFaults, ABiasThatIsTooShort) {
  const auto dense = fused_matmul<bf16, bf16>([](Tile acc, Index /*m*/, Index n, In<bf16, 1> bias) {
    return acc + expand(cast<f32>(bias(n)), 0);
  });
  const Tensor x = Tensor::zeros({64, 64}, DType::bf16, device()), y = x.clone();
  const auto code_for = [&](std::int64_t columns) {
    const Tensor bias = Tensor::zeros({columns}, DType::bf16, device());
    return code_of([&] { dense(Stream(device()), x, x, y, bias); });
  };
  EXPECT_EQ(code_for(50), "T1306");
  EXPECT_EQ(code_for(64), "");
}

}  // namespace
}  // namespace tegula::test::user_faults_test
