// Results that several CTAs put together: the last one to arrive sees what the others have written,
// and the counter is 0 again; a read without that order is reported.
#include "support/text.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_arrival_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Four programs write their numbers plus 1; who is told to be the last of %n adds all of them.
constexpr std::string_view kSum =
    R"(kernel @m tile (%c: ptr<u32>, %x: view<?xi32, inout>, %o: view<?xi32, out>, %n: i32) {
    launch {
      %four = const [value = 4] : i32
      %one = const [value = 1] : i32
      yield %four, %one, %one
    }
    %zero = const [value = 0] : i32
    %unit = const [value = 1] : i32
    %p = program_id [axis = 0] : i32
    %v = add %p, %unit
    BEFORE
    %last = arrive_and_test_last %c, %n : i1
    BEHIND
    if %last {
      %all = load_view %x, %zero [axes = [0]] : tile<4xi32>
      %sum = reduce %all [axis = 0, kind = "sum"] : i32
      store_view %o, %sum, %zero [axes = []]
    } {
    }
  })";

struct Ran {
  std::vector<std::string> findings;
  i32 sum = 0;
  u32 counter = 0;
};

Ran run_sum(int count, bool stores_before = true) {
  HostTensor<u32> counter({1});
  HostTensor<i32> x({4}), out({1}, {-1});
  const std::string store = "store_view %x, %v, %p [axes = []]";
  std::string text(kSum);
  text.replace(text.find("BEFORE"), 6, stores_before ? store : "");
  text.replace(text.find("BEHIND"), 6, stores_before ? "" : store);
  const EvalReport r = run(text, {counter.pointer(), x.view(), out.view(), int_arg(count)});
  return {texts(r), out.storage[0], counter.storage[0]};
}

TEST(EvalArrival, TheLastSeesAll) {
  const Ran r = run_sum(4);
  EXPECT_THAT(r.findings, IsEmpty());
  EXPECT_EQ(r.sum, 10);
  EXPECT_EQ(r.counter, 0u);
}

TEST(EvalArrival, WritesAfterTheArrivalAreRaces) {
  EXPECT_THAT(run_sum(4, false).findings, Contains(HasSubstr("without an order")));
}

TEST(EvalArrival, WithTooManyArrivalsNoneIsTheLast) {
  const Ran r = run_sum(5);
  EXPECT_THAT(r.findings, IsEmpty());
  EXPECT_EQ(r.sum, -1);
  EXPECT_EQ(r.counter, 4u);
}

/// The second of four reads what the others write later.
TEST(EvalArrival, TooFewOneReadsTooEarly) {
  EXPECT_THAT(run_sum(2).findings, Contains(HasSubstr("without an order")));
}

}  // namespace
}  // namespace tegula::ir::eval_arrival_test
