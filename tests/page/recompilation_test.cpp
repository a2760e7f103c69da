// Compiles and runs the kernels of docs/language/recompilation.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::recompilation_test {
namespace {

class Recompilation : public Page {};

/// Returns how many times a kernel was compiled, according to explain().
template <class K>
int compiled(const K& kernel) {
  const std::string text = kernel.explain();
  int times = 0;
  for (std::size_t at = 0; (at = text.find("compiled: ", at)) != std::string::npos; ++at) ++times;
  return times;
}

TEST_P(Recompilation, ScalarsAreReadAgain) {
  const Tensor X = ones_of({1000}), Y = empty_of({1000});
#include "recompilation_1.inc"
  EXPECT_EQ(Y.to_doubles().front(), 9);
  EXPECT_EQ(compiled(scaled), 2) << scaled.explain();
}

TEST_P(Recompilation, AnyExtent) {
#include "recompilation_2.inc"
  for (const std::int64_t n : {1, 2, 7, 64, 1000, 1024}) {
    const Tensor x = iota_of({n}), y = empty_of({n});
    copied(x, y);
    EXPECT_EQ(y.to_doubles(), x.to_doubles());
  }
  EXPECT_EQ(compiled(copied), 1) << copied.explain();
}

TEST_P(Recompilation, RowsOfOneBucket) {
  const auto sums = kernel("sums", [](In<f32, 2> x, Out<f32, 1> y) {
    for (auto r : grid(y, 1)) y(r) = sum(x(r, all));
  });
  for (const std::int64_t n : {129, 131, 255}) sums(ones_of({3, n}), empty_of({3}));
  EXPECT_EQ(compiled(sums), 1) << sums.explain();
  sums(ones_of({3, 256}), empty_of({3}));
  EXPECT_EQ(compiled(sums), 2) << sums.explain();
}

INSTANTIATE_TEST_SUITE_P(Devices, Recompilation, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::recompilation_test
