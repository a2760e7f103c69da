// Loops with any graph of dots: operands that other dots compute, tiles read plain and transposed,
// sums into memory within the loop. Exact on small integers, on every device that is here.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::dot_graph_test {
namespace {

class DotGraph : public test::OnDevice {
 protected:
  template <class Kernel>
  void expect_wgmmas(const Kernel& kernel, int count) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain();
    int found = 0;
    for (std::size_t at = 0; (at = said.find("dot by wgmma", at)) != std::string::npos; ++at)
      ++found;
    EXPECT_EQ(found, count) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DotGraph, testing::ValuesIn(test::devices()), test::device_name);

using Matrix = std::vector<double>;

/// rows x depth times depth x columns; either may be given as its transpose.
Matrix product(const Matrix& a, const Matrix& b, int rows, int columns, int depth, bool a_turned,
               bool b_turned) {
  Matrix c(static_cast<std::size_t>(rows * columns));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int l = 0; l < depth; ++l)
        c[static_cast<std::size_t>(i * columns + j)] +=
            a[static_cast<std::size_t>(a_turned ? l * rows + i : i * depth + l)] *
            b[static_cast<std::size_t>(b_turned ? j * depth + l : l * columns + j)];
  return c;
}

Matrix clamped(Matrix m) {
  for (double& v : m) v = std::clamp(v, -2.0, 2.0);
  return m;
}

/// Attention's five products, with a clamp in place of exponentials. Keys are the rows of scores,
/// or queries are, so that other operands are transposed.
auto five_products(int bq, int bk, bool keys_first) {
  return kernel("five_products",
                [=](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, In<bf16, 2> G, In<f32, 1> D,
                    InOut<f32, 2> dQ, Out<f32, 2> dK, Out<f32, 2> dV) {
                  const int dim = Q.static_dim(1);
                  for (auto n : grid(rows(dK), bk)) {
                    const Tile k = K(n, all), v = V(n, all);
                    Tile dk = zeros<f32>(bk, dim), dv = zeros<f32>(bk, dim);
                    for (auto m : steps(Q.rows(), bq)) {
                      const Tile q = Q(m, all), g = G(m, all);
                      if (keys_first) {
                        const Tile p = min(max(dot(k, q.T()), -2.0f), 2.0f);
                        dv = dot(cast<bf16>(p), g, dv);
                        const Tile t = min(max(dot(v, g.T()) - expand(D(m), 0), -2.0f), 2.0f);
                        const Tile ds = cast<bf16>(p * t);
                        dk = dot(ds, q, dk);
                        atomic_add(dQ(m, all), dot(ds.T(), k));
                      } else {
                        const Tile p = min(max(dot(q, k.T()), -2.0f), 2.0f);
                        dv = dot(cast<bf16>(p).T(), g, dv);
                        const Tile t = min(max(dot(g, v.T()) - expand(D(m), 1), -2.0f), 2.0f);
                        const Tile ds = cast<bf16>(p * t);
                        dk = dot(ds.T(), q, dk);
                        atomic_add(dQ(m, all), dot(ds, k));
                      }
                    }
                    dK(n, all) = dk;
                    dV(n, all) = dv;
                  }
                });
}

struct Blocks {
  int bq, bk, dim, queries, keys;
  bool keys_first;
};

TEST_P(DotGraph, FiveProductsInOneLoop) {
  for (const Blocks b : {Blocks{64, 128, 64, 200, 136, true}, Blocks{64, 128, 128, 192, 128, true},
                         Blocks{64, 128, 64, 136, 264, false}, Blocks{64, 64, 64, 64, 64, true},
                         Blocks{64, 128, 64, 0, 128, true}, Blocks{128, 128, 64, 264, 136, true}}) {
    SCOPED_TRACE(testing::Message() << b.bq << "x" << b.bk << "x" << b.dim << b.keys_first);
    const Tensor Q = integers({b.queries, b.dim}, DType::bf16, 1),
                 K = integers({b.keys, b.dim}, DType::bf16, 2),
                 V = integers({b.keys, b.dim}, DType::bf16, 3),
                 G = integers({b.queries, b.dim}, DType::bf16, 4),
                 D = integers({b.queries}, DType::f32, 5),
                 dQ = Tensor::zeros({b.queries, b.dim}, DType::f32, GetParam()),
                 dK = empty({b.keys, b.dim}, DType::f32), dV = empty({b.keys, b.dim}, DType::f32);
    const auto kernel = five_products(b.bq, b.bk, b.keys_first);
    kernel(stream(), Q, K, V, G, D, dQ, dK, dV);
    const Matrix q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(), g = G.to_doubles(),
                 d = D.to_doubles();
    // Scores are of keys by queries.
    const Matrix p = clamped(product(k, q, b.keys, b.queries, b.dim, false, true));
    Matrix t = product(v, g, b.keys, b.queries, b.dim, false, true);
    for (std::size_t i = 0; i < t.size(); ++i) t[i] -= d[i % static_cast<std::size_t>(b.queries)];
    t = clamped(t);
    for (std::size_t i = 0; i < t.size(); ++i) t[i] *= p[i];
    test::expect_equal(dV, product(p, g, b.keys, b.dim, b.queries, false, false));
    test::expect_equal(dK, product(t, q, b.keys, b.dim, b.queries, false, false));
    test::expect_equal(dQ, product(t, k, b.queries, b.dim, b.keys, true, false));
    expect_wgmmas(kernel, 5);
  }
}

/// Keys are rows of both products, as in decoding: threads load the few rows of Q before the loop,
/// and store them to shared memory once. Keys are selected by an index tile, or consecutive.
auto products_of_few_rows(int rows, bool are_gathered) {
  return kernel("products_of_few_rows", [=](In<bf16, 2> Q, In<i32, 1> from, In<bf16, 2> K,
                                            In<bf16, 2> V, In<i32, 1> keys, Out<f32, 2> O) {
    const int columns = V.static_dim(1);
    for (auto m : grid(tegula::rows(O), rows)) {
      const Tile q = fill_absent(Q(from(m), all), 0);
      Tile sum = zeros<f32>(columns, rows);
      for (auto n : steps(keys.dim(0), 64)) {
        const Subscript at = are_gathered ? Subscript(keys(n)) : Subscript(n);
        const Tile k = fill_absent(K(at, all), 0), v = fill_absent(V(at, all), 0);
        const Tile p = min(max(dot(k, q.T()), -2.0f), 2.0f);
        sum = dot(v.T(), cast<bf16>(p), sum);
      }
      O(m, all) = sum.T();
    }
  });
}

TEST_P(DotGraph, SecondOperandsFromBeforeTheLoop) {
  for (const auto& [rows, dim] : {std::pair{16, 64}, {16, 80}, {32, 128}, {32, 48}})
    for (const bool are_gathered : {false, true}) {
      SCOPED_TRACE(testing::Message() << rows << "x" << dim << ", gathered " << are_gathered);
      const int queries = 40, keys = 200, columns = 64;
      const Tensor Q = integers({queries, dim}, DType::bf16, 1),
                   K = integers({keys, dim}, DType::bf16, 2),
                   V = integers({keys, columns}, DType::bf16, 3),
                   O = empty({queries, columns}, DType::f32);
      const auto numbers = [&](int count) {
        std::vector<i32> all(static_cast<std::size_t>(count));
        std::iota(all.rbegin(), all.rend(), 0);
        return all;
      };
      const auto turned = [&](const Tensor& t, int count) {
        Matrix m = t.to_doubles(), other;
        for (int i = count - 1; i >= 0; --i)
          other.insert(other.end(), m.begin() + i * t.size(1), m.begin() + (i + 1) * t.size(1));
        return other;
      };
      const auto kernel = products_of_few_rows(rows, are_gathered);
      kernel(stream(), Q, Tensor::from(numbers(queries), GetParam()), K, V,
             Tensor::from(numbers(keys), GetParam()), O);
      // The order of keys does not change sums.
      const Matrix p =
          clamped(product(turned(Q, queries), K.to_doubles(), queries, keys, dim, false, true));
      test::expect_equal(O, product(p, V.to_doubles(), queries, columns, keys, false, false));
      expect_wgmmas(kernel, 2);
    }
}

/// Three products with the columns of Q and K in parts, whose contributions to the scores are added
/// one after another.
auto products_of_parts(std::vector<int> parts) {
  return kernel("products_of_parts",
                [=](In<bf16, 2> Q, In<bf16, 2> K, InOut<f32, 2> dQ, Out<f32, 2> dK) {
                  const int bq = 64, bk = 128;
                  for (auto n : grid(rows(dK), bk)) {
                    std::vector<Tile> k, dk;
                    std::vector<Index> columns;
                    int first = 0;
                    for (const int part : parts) {
                      columns.push_back(slice(first, part));
                      k.push_back(K(n, columns.back())), dk.push_back(zeros<f32>(bk, part));
                      first += part;
                    }
                    for (auto m : steps(Q.rows(), bq)) {
                      std::vector<Tile> q;
                      Tile s = zeros<f32>(bk, bq);
                      for (std::size_t i = 0; i < k.size(); ++i) {
                        q.push_back(Q(m, columns[i]));
                        s = dot(k[i], q[i].T(), s);
                      }
                      const Tile ds = cast<bf16>(min(max(s, -2.0f), 2.0f));
                      for (std::size_t i = 0; i < k.size(); ++i) {
                        dk[i] = dot(ds, q[i], dk[i]);
                        atomic_add(dQ(m, columns[i]), dot(ds.T(), k[i]));
                      }
                    }
                    for (std::size_t i = 0; i < k.size(); ++i) dK(n, columns[i]) = dk[i];
                  }
                });
}

/// The accumulators of 256 columns fit because that of the scores is free before dQ is computed: by
/// themselves the two largest would need 250 registers.
TEST_P(DotGraph, AccumulatorsAreLiveOneAfterAnother) {
  for (const std::vector<int>& parts : {std::vector{256}, {128, 64}, {64, 32, 16}}) {
    const auto kernel = products_of_parts(parts);
    const int dim = std::accumulate(parts.begin(), parts.end(), 0), queries = 136, keys = 264;
    SCOPED_TRACE(dim);
    const Tensor Q = integers({queries, dim}, DType::bf16, 1),
                 K = integers({keys, dim}, DType::bf16, 2),
                 dQ = Tensor::zeros({queries, dim}, DType::f32, GetParam()),
                 dK = empty({keys, dim}, DType::f32);
    kernel(stream(), Q, K, dQ, dK);
    const Matrix q = Q.to_doubles(), k = K.to_doubles(),
                 s = clamped(product(k, q, keys, queries, dim, false, true));
    test::expect_equal(dK, product(s, q, keys, dim, queries, false, false));
    test::expect_equal(dQ, product(s, k, queries, dim, keys, true, false));
    // The report lists the products for the scores, which are alike, once.
    expect_wgmmas(kernel, 2 * static_cast<int>(parts.size()) + 1);
  }
}

/// A tile of B that stays on chip, and results that are stored in the loop.
TEST_P(DotGraph, StationaryB) {
  const auto stationary = kernel("stationary", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto n : grid(cols(C), 64)) {
      const Tile b = B(all, n);
      for (auto m : steps(A.rows(), 128)) C(m, n) = dot(A(m, all), b);
    }
  });
  const Tensor A = integers({392, 128}, DType::bf16, 1), B = integers({128, 136}, DType::bf16, 2),
               C = empty({392, 136}, DType::f32);
  stationary(stream(), A, B, C);
  test::expect_equal(C, test::product(A, B));
  expect_wgmmas(stationary, 1);
}

/// A state that the loop carries is one dot's sum and, rounded, another one's operand.
TEST_P(DotGraph, LinearAttention) {
  const auto chunks =
      kernel("chunks", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O) {
        const int keys = K.static_dim(1), values = V.static_dim(1);
        for (auto b : grid(Tile(1), 1)) {
          Tile state = zeros<f32>(keys, values);
          for (auto t : steps(Q.rows(), 64)) {
            const Tile q = Q(t, all), k = K(t, all), v = V(t, all);
            Tile s = min(max(dot(q, k.T()), -2.0f), 2.0f);
            s = where(expand(t, 1) >= expand(t, 0), s, 0.0f);
            const Tile h = min(max(state, -3.0f), 3.0f);
            O(t, all) = dot(cast<bf16>(s), v, dot(q, cast<bf16>(h))) + cast<f32>(b.first());
            state = dot(k.T(), v, state);
          }
        }
      });
  const int length = 200, keys = 64, values = 128;
  const Tensor Q = integers({length, keys}, DType::bf16, 1),
               K = integers({length, keys}, DType::bf16, 2),
               V = integers({length, values}, DType::bf16, 3),
               O = empty({length, values}, DType::f32);
  chunks(stream(), Q, K, V, O);
  const Matrix q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles();
  const auto at = [](const Matrix& m, int row, int columns, int column) {
    return m[static_cast<std::size_t>(row * columns + column)];
  };
  Matrix state(static_cast<std::size_t>(keys * values)), want;
  for (int first = 0; first < length; first += 64) {
    const int end = std::min(length, first + 64);
    for (int i = first; i < end; ++i)
      for (int c = 0; c < values; ++c) {
        double sum = 0;
        for (int j = first; j <= i; ++j) {
          double s = 0;
          for (int l = 0; l < keys; ++l) s += at(q, i, keys, l) * at(k, j, keys, l);
          sum += std::clamp(s, -2.0, 2.0) * at(v, j, values, c);
        }
        for (int l = 0; l < keys; ++l)
          sum += at(q, i, keys, l) * std::clamp(at(state, l, values, c), -3.0, 3.0);
        want.push_back(sum);
      }
    for (int l = 0; l < keys; ++l)
      for (int c = 0; c < values; ++c)
        for (int j = first; j < end; ++j)
          state[static_cast<std::size_t>(l * values + c)] +=
              at(k, j, keys, l) * at(v, j, values, c);
  }
  test::expect_equal(O, want);
  expect_wgmmas(chunks, 4);
}

/// A loop without iterations implies nothing about another one.
TEST_P(DotGraph, AssumptionsOfALoop) {
  const auto sums = kernel("assumed", [](In<bf16, 2> A, In<bf16, 2> B, Scalar<i32> first,
                                         Scalar<i32> second, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      Tile one = zeros<f32>(64, 64), other = zeros<f32>(64, 64);
      for (auto k : steps(first, 64)) {
        assume(0 < second);
        one = dot(A(m, k), B(k, n), one);
      }
      for (auto k : steps(second, 64)) other = dot(A(m, k), B(k, n), other);
      C(m, n) = one + other;
    }
  });
  const Tensor A = Tensor::full({64, 128}, 1, DType::bf16, GetParam()),
               B = Tensor::full({128, 64}, 1, DType::bf16, GetParam()),
               C = empty({64, 64}, DType::f32);
  for (const auto& [first, second] : {std::pair{0, 0}, {64, 128}}) {
    sums(stream(), A, B, first, second, C);
    test::expect_equal(C, std::vector<double>(64 * 64, first + second));
  }
  expect_wgmmas(sums, 2);
}

}  // namespace
}  // namespace tegula::dot_graph_test
