// The rules of absence (docs/language/absence.md), each op with each way in which elements can be
// absent: what it stores against a model that keeps for every coordinate and every element whether
// it is there.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::absence_test {
namespace {

constexpr int kN = 16;
constexpr float kUntouched = -777;

enum class Pattern : std::uint8_t { All, Ragged, None, Outside, Mask };
constexpr std::array kPatterns{Pattern::All, Pattern::Ragged, Pattern::None, Pattern::Outside,
                               Pattern::Mask};
constexpr std::array kPatternNames{"all", "ragged", "none", "outside", "mask"};

/// A tile of kN x kN, or of kN where `rank` is 1 (then only the first column counts).
struct Model {
  std::array<bool, kN> rows{}, columns{};           ///< coordinates that exist
  std::array<std::array<bool, kN>, kN> elements{};  ///< and elements that are there
  std::array<std::array<double, kN>, kN> value{};
  int rank = 2;

  Model() {
    rows.fill(true), columns.fill(true);
    for (auto& line : elements) line.fill(true);
  }
  bool is_there(int i, int j) const {
    const auto r = static_cast<std::size_t>(i), c = static_cast<std::size_t>(j);
    return rows[r] && columns[c] && elements[r][c];
  }
  double& at(int i, int j) {
    return value[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
  double at(int i, int j) const {
    return value[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
};

template <class F>
void for_all(const F& f) {
  for (int i = 0; i < kN; ++i)
    for (int j = 0; j < kN; ++j) f(i, j);
}

bool is_chosen(int i, int j) { return (i * 5 + j * 3) % 4 != 0; }
double number(int which, int i, int j) { return (i * 7 + j * 3 + which * 5) % 9 - 4; }

std::pair<int, int> extents(int which, Pattern p) {
  return p == Pattern::Ragged ? (which == 0 ? std::pair(11, 13) : std::pair(9, 14))
                              : std::pair(kN, kN);
}

Model source(int which, Pattern p) {
  Model m;
  const auto [rows, columns] = extents(which, p);
  for_all([&](int i, int j) { m.at(i, j) = number(which, i, j); });
  for (int i = 0; i < kN; ++i) {
    m.rows[static_cast<std::size_t>(i)] = p != Pattern::None && i < rows;
    m.columns[static_cast<std::size_t>(i)] = i < columns;
  }
  for_all([&](int i, int j) {
    m.elements[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] =
        p != Pattern::Outside && (p != Pattern::Mask || is_chosen(i, j));
  });
  return m;
}

Tensor tensor(int which, Pattern p, Device d) {
  const auto [rows, columns] = extents(which, p);
  std::vector<float> v;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) v.push_back(static_cast<float>(number(which, i, j)));
  return Tensor::from(v, d).reshape({1, rows, columns});
}

Tile chosen(const Index& r, const Index& c) {
  return (expand(r.indices(), 1) * 5 + expand(c.indices(), 0) * 3) % 4 != 0;
}

Tile load(const In<f32, 3>& x, Pattern p, const Index& r, const Index& c) {
  switch (p) {
    case Pattern::None:
      return x(0, r.shifted(kN), c);
    case Pattern::Outside:
      return x(3, r, c);
    case Pattern::Mask:
      return where(chosen(r, c), x(0, r, c), x(3, r, c));
    default:
      return x(0, r, c);
  }
}

// ---- the rules ----------------------------------------------------------------------------------
Model elementwise(const Model& a, const Model& b, const std::function<double(double, double)>& f) {
  Model m = a;
  for (std::size_t i = 0; i < kN; ++i)
    m.rows[i] = a.rows[i] && b.rows[i], m.columns[i] = a.columns[i] && b.columns[i];
  for_all([&](int i, int j) {
    const auto r = static_cast<std::size_t>(i), c = static_cast<std::size_t>(j);
    m.elements[r][c] = a.elements[r][c] && b.elements[r][c];
    m.at(i, j) = f(a.at(i, j), b.at(i, j));
  });
  return m;
}

Model choose(const Model& a, const Model& b, const std::function<bool(int, int)>& takes) {
  Model m;
  for (std::size_t i = 0; i < kN; ++i)
    m.rows[i] = a.rows[i] || b.rows[i], m.columns[i] = a.columns[i] || b.columns[i];
  for_all([&](int i, int j) {
    const Model& from = takes(i, j) ? a : b;
    m.elements[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = from.is_there(i, j);
    m.at(i, j) = from.at(i, j);
  });
  return m;
}

Model filled(Model m, double with) {
  for_all([&](int i, int j) { m.at(i, j) = m.is_there(i, j) ? m.at(i, j) : with; });
  Model all;
  all.value = m.value;
  return all;
}

Model plus_all(Model a, double n) {
  for_all([&](int i, int j) { a.at(i, j) += n; });
  return a;
}

Model constant(double value) {
  Model m;
  for_all([&](int i, int j) { m.at(i, j) = value; });
  return m;
}

Model transposed(const Model& a) {
  Model m;
  m.rows = a.columns, m.columns = a.rows;
  for_all([&](int i, int j) {
    m.at(j, i) = a.at(i, j);
    m.elements[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)] =
        a.elements[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  });
  return m;
}

/// Folds each row; `with_identity`: of nothing comes the identity, else nothing.
Model folded(const Model& a, double identity, bool with_identity,
             const std::function<double(double, double)>& f) {
  Model m;
  m.rank = 1;
  m.rows = a.rows;
  for (int i = 0; i < kN; ++i) {
    bool any = false;
    double sum = identity;
    for (int j = 0; j < kN; ++j) {
      if (!a.is_there(i, j)) continue;
      sum = any ? f(sum, a.at(i, j)) : a.at(i, j);
      any = true;
    }
    m.at(i, 0) = sum;
    m.elements[static_cast<std::size_t>(i)][0] = any || with_identity;
  }
  return m;
}

Model product(const Model& a, const Model& b, const Model& acc) {
  Model m = acc;
  for (std::size_t i = 0; i < kN; ++i)
    m.rows[i] = a.rows[i] && acc.rows[i], m.columns[i] = b.columns[i] && acc.columns[i];
  for_all([&](int i, int j) {
    for (int k = 0; k < kN; ++k)
      if (a.is_there(i, k) && b.is_there(k, j)) m.at(i, j) += a.at(i, k) * b.at(k, j);
  });
  return m;
}

struct Case {
  const char* name;
  bool takes_two;
  std::function<Tile(const Tile& a, const Tile& b, const Index& r, const Index& c)> kernel;
  std::function<Model(const Model& a, const Model& b)> model;
};

double larger(double a, double b) { return a > b ? a : b; }
double plus(double a, double b) { return a + b; }
bool is_upper(int i, int j) { return i <= j; }
Tile upper(const Index& r, const Index& c) {
  return expand(r.indices(), 1) <= expand(c.indices(), 0);
}

/// Elements that move where a reshape splits and merges dimensions are absent one by one.
Model by_elements(const Model& a) {
  Model m = a;
  m.rows.fill(true), m.columns.fill(true);
  for_all([&](int i, int j) {
    m.elements[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = a.is_there(i, j);
  });
  return m;
}

using I = const Index&;
using T = const Tile&;
using M = const Model&;

std::vector<Case> cases_of_choices() {
  return {
      {"copy", false, [](T a, T, I, I) { return a; }, [](M a, M) { return a; }},
      {"add", true, [](T a, T b, I, I) { return a + b; },
       [](M a, M b) { return elementwise(a, b, plus); }},
      {"where", true, [](T a, T b, I r, I c) { return where(upper(r, c), a, b); },
       [](M a, M b) { return choose(a, b, is_upper); }},
      {"where_constant", false, [](T a, T, I r, I c) { return where(upper(r, c), a, 5.0f); },
       [](M a, M) { return choose(a, constant(5), is_upper); }},
      {"where_then_fold", true, [](T a, T b, I r, I c) { return sum(where(upper(r, c), a, b), 1); },
       [](M a, M b) { return folded(choose(a, b, is_upper), 0, true, plus); }},
      {"where_scalar", true, [](T a, T b, I r, I) { return where(r.first() == 0, a, b); },
       [](M a, M) { return a; }},
      {"plus_assign", true,
       [](T a, T b, I, I) {
         Tile x = a;
         x += b;
         return x;
       },
       [](M a, M b) { return elementwise(a, filled(b, 0), plus); }},
      {"times_assign", true,
       [](T a, T b, I, I) {
         Tile x = a;
         x *= b;
         return x;
       },
       [](M a, M b) {
         return elementwise(a, filled(b, 1), [](double x, double y) { return x * y; });
       }},
      {"branch_taken", true,
       [](T a, T b, I r, I) {
         Tile x = a;
         if_(r.first() == 0, [&] { x = b; });
         return x;
       },
       [](M, M b) { return b; }},
      {"branch_not_taken", true,
       [](T a, T b, I r, I) {
         Tile x = a;
         if_(r.first() > 0, [&] { x = b * 2.0f; });
         return x;
       },
       [](M a, M) { return a; }},
  };
}

std::vector<Case> cases_of_folds() {
  return {
      {"transpose", false, [](T a, T, I, I) { return permute(a, {1, 0}); },
       [](M a, M) { return transposed(a); }},
      {"reshape", false,
       [](T a, T, I, I) { return reshape(reshape(a, {4, 4, kN}) + 1.0f, {kN, kN}); },
       [](M a, M) { return by_elements(plus_all(a, 1)); }},
      {"sum", false, [](T a, T, I, I) { return sum(a, 1); },
       [](M a, M) { return folded(a, 0, true, plus); }},
      {"max", false, [](T a, T, I, I) { return max(a - 10.0f, axis(1)); },
       [](M a, M) { return folded(plus_all(a, -10), -HUGE_VAL, true, larger); }},
      {"argmax", false, [](T a, T, I, I) { return cast<f32>(argmax(a, 1)); },
       [](M a, M) {
         Model m = folded(a, 0, true, larger);
         for (int i = 0; i < kN; ++i) {
           int best = -1;
           for (int j = 0; j < kN; ++j)
             if (a.is_there(i, j) && (best < 0 || a.at(i, j) > a.at(i, best))) best = j;
           m.at(i, 0) = best < 0 ? 0 : best;
         }
         return m;
       }},
      {"reduce", false,
       [](T a, T, I, I) { return reduce(a, 1, [](T x, T y) { return max(x, y); }); },
       [](M a, M) { return folded(a, 0, false, larger); }},
      {"cumsum", false, [](T a, T, I, I) { return cumsum(a, 1); },
       [](M a, M) {
         Model m = a;
         for (int i = 0; i < kN; ++i) {
           double sum = 0;
           for (int j = 0; j < kN; ++j) m.at(i, j) = sum += a.is_there(i, j) ? a.at(i, j) : 0;
         }
         return m;
       }},
      {"dot", true,
       [](T a, T b, I, I) { return dot(a + 1.0f, permute(b + 1.0f, {1, 0}), zeros<f32>(kN, kN)); },
       [](M a, M b) { return product(plus_all(a, 1), transposed(plus_all(b, 1)), constant(0)); }},
      {"dot_acc", true, [](T a, T b, I, I) { return dot(full<f32>(1.0f, kN, kN), b, a); },
       [](M a, M b) { return product(constant(1), b, a); }},
      {"fill", false, [](T a, T, I, I) { return fill_absent(a, 3); },
       [](M a, M) { return filled(a, 3); }},
      {"crop", false, [](T a, T, I, I) { return crop(a, 1, -2, 9); },
       [](M a, M) {
         Model m = a;
         for (std::size_t j = 0; j < kN; ++j) m.columns[j] = m.columns[j] && j >= 2 && j < 11;
         return m;
       }},
  };
}

std::vector<Case> cases() {
  std::vector<Case> all = cases_of_choices();
  for (Case c : cases_of_folds()) all.push_back(std::move(c));
  return all;
}

// ---- running ------------------------------------------------------------------------------------
class Absence : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Absence, testing::ValuesIn(devices()), device_name);

void expect_stored(const Model& m, const Tensor& tile, const Tensor& line) {
  const std::vector<double> got = (m.rank == 2 ? tile : line).to_doubles();
  std::vector<double> want(got.size(), kUntouched);
  for (int i = 0; i < kN; ++i)
    for (int j = 0; j < (m.rank == 2 ? kN : 1); ++j)
      if (m.is_there(i, j))
        want[static_cast<std::size_t>(m.rank == 2 ? i * kN + j : i)] = m.at(i, j);
  EXPECT_EQ(got, want);
}

void run(const Case& test, Pattern p, Pattern q, Device d) {
  SCOPED_TRACE(std::string(test.name) + " " + kPatternNames[static_cast<std::size_t>(p)] + " " +
               kPatternNames[static_cast<std::size_t>(q)]);
  const auto k =
      kernel("absence", [&test, p, q](In<f32, 3> a, In<f32, 3> b, Out<f32, 2> y, Out<f32, 1> v) {
        y.partial(), v.partial();
        for (auto [r, c] : grid(y, kN, kN)) {
          const Tile x = load(a, p, r, c),
                     z = test.takes_two ? load(b, q, r, c) : full<f32>(0.0f, kN, kN),
                     result = test.kernel(x, z, r, c);
          if (result.rank() == 2)
            y(r, c) = result;
          else
            v(r) = result;
        }
      });
  const Tensor y = Tensor::full({kN, kN}, kUntouched, DType::f32, d),
               v = Tensor::full({kN}, kUntouched, DType::f32, d);
  try {
    k(Stream(d), tensor(0, p, d), tensor(1, q, d), y, v);
    expect_stored(test.model(source(0, p), source(1, q)), y, v);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

TEST_P(Absence, EachOp) {
  for (const Case& test : cases())
    for (const Pattern p : kPatterns)
      for (const Pattern q : kPatterns)
        if (test.takes_two || q == Pattern::All) run(test, p, q, GetParam());
}

/// A dimension without an end is stored wherever the program's tile is.
TEST_P(Absence, AChoiceFarFromTheStart) {
  const auto k = kernel("far", [](In<f32, 1> x, Out<f32, 1> by_where, Out<f32, 1> by_if) {
    by_where.partial(), by_if.partial();
    for (auto r : grid(by_where, kN)) {
      by_where(r) = where(r.first() == 0, x(r), 7.0f);
      Tile t = full<f32>(7.0f, kN);
      if_(r.first() == 0, [&] { t = x(r) * 1.0f; });
      by_if(r) = t;
    }
  });
  const Device d = GetParam();
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, d),
               a = Tensor::full({8 * kN}, kUntouched, DType::f32, d),
               b = Tensor::full({8 * kN}, kUntouched, DType::f32, d);
  k(Stream(d), x, a, b);
  std::vector<double> want(8 * kN, 7);
  for (std::size_t i = 0; i < kN; ++i) want[i] = i < 3 ? static_cast<double>(i + 1) : kUntouched;
  EXPECT_EQ(a.to_doubles(), want);
  EXPECT_EQ(b.to_doubles(), want);
}

}  // namespace
}  // namespace tegula::test::absence_test
