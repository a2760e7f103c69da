// Every named routing scheme against double precision, for numbers of experts, choices and tokens.
// TEGULA_FUZZ_PROGRAMS=1 runs all of them, which takes long; else a few of each.
#include "tests/differential/moe/scheme_matrix.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/differential/devices.h"
#include "tests/fuzz/number_from_env.h"

namespace tegula::test::experts::scheme_matrix_test {
namespace {

constexpr int kExperts[] = {1, 7, 64, 160, 256, 384, 512};

/// A number of experts for each number of choices, other ones for each scheme.
SchemeCase some_case(const NamedScheme& scheme, int number, int turn) {
  const int k = scheme.k > 0 ? scheme.k : 1 + (3 * number + 5 * turn) % 10;
  for (int i = number + 3 * turn;; ++i)
    if (const SchemeCase c{kExperts[i % 7], k, 0}; scheme.has(c)) return c;
}

class SchemeMatrix : public testing::TestWithParam<std::tuple<Device, int>> {
 protected:
  Device device() const { return std::get<0>(GetParam()); }
  int number() const { return std::get<1>(GetParam()); }
  const NamedScheme& scheme() const { return named_schemes()[static_cast<std::size_t>(number())]; }
  bool runs_all() const { return fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 0) > 0; }
};
INSTANTIATE_TEST_SUITE_P(Schemes, SchemeMatrix,
                         testing::Combine(testing::ValuesIn(devices()),
                                          testing::Range(0,
                                                         static_cast<int>(named_schemes().size()))),
                         [](const auto& info) {
                           const auto n = static_cast<std::size_t>(std::get<1>(info.param));
                           return std::string(named_schemes()[n].name) + "_" +
                                  name_of(std::get<0>(info.param));
                         });

TEST_P(SchemeMatrix, Values) {
  if (!runs_all()) {
    expect_scheme_values(scheme(), some_case(scheme(), number(), 0), {0, 1, 3, 70}, device());
    return;
  }
  // The simulator and the interpreter take minutes for 4096 tokens of many experts.
  std::vector<int> tokens{0, 1, 3, 127};
  for (const int experts : kExperts)
    for (int k = 1; k <= 10; ++k) {
      const bool is_some = k == 1 || k == 2 || k == 5 || k == 10;
      const SchemeCase c{experts, k, 0};
      if (!scheme().has(c) || (device().kind != DeviceKind::cpu && !is_some)) continue;
      std::vector<int> all = tokens;
      if (device().kind == DeviceKind::cuda || (experts <= 64 && k == 2)) all.push_back(4096);
      expect_scheme_values(scheme(), c, all, device());
      if (HasFailure()) return;
    }
}

TEST_P(SchemeMatrix, NoCapacityAtAll) {
  const int turns = runs_all() ? 7 : 1;
  for (int turn = 1; turn <= turns; ++turn)
    expect_scheme_values(scheme(), some_case(scheme(), number(), turn), {3}, device(), 0);
}

}  // namespace
}  // namespace tegula::test::experts::scheme_matrix_test
