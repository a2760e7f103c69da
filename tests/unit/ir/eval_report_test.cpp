// Every fault the interpreter reports: a program that has it, word for word, and a near miss that
// stays silent.
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_report_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- out of bounds ------------------------------------------------------------------------------
constexpr const char* kGather = R"(kernel @g tile (%x: ptr<f32>, %o: ptr<f32>, %n: i32) {
    %p = addptr %x, %n loc("k.cpp":3:1)
    %v = load %p loc("k.cpp":4:5)
    store %o, %v loc("k.cpp":5:5)
  })";

TEST(EvalReport, RawLoadOutOfBounds) {
  HostTensor<f32> x = iota<f32>({4}), out({1});
  for (const std::int64_t n : {4, -1}) {
    const EvalReport r = run(kGather, {x.pointer(), out.pointer(), int_arg(n)});
    EXPECT_THAT(texts(r),
                ElementsAre("load reads x[" + std::to_string(n) + "], outside of x (16 bytes)"));
    EXPECT_EQ(r.findings[0].kind, FindingKind::OutOfBounds);
    EXPECT_EQ(r.findings[0].loc, Loc("k.cpp", 4, 5));
  }
  EXPECT_TRUE(run(kGather, {x.pointer(), out.pointer(), int_arg(3)}).clean());
}

TEST(EvalReport, AStrayOffsetNeverFallsIntoAnotherArgument) {
  // Both arguments are in one allocation; the offset is exact, and still outside.
  std::vector<f32> both(8, 1);
  const EvalArg x = PointerArg{both.data(), both.data(), both.data() + 4};
  const EvalArg y = PointerArg{both.data() + 4, both.data() + 4, both.data() + 8};
  EXPECT_THAT(texts(run(kGather, {x, y, int_arg(4)})),
              ElementsAre("load reads x[4], outside of x (16 bytes)"));
}

TEST(EvalReport, RawStoreOutOfBoundsIsDropped) {
  HostTensor<i32> x({4}, {1, 2, 3, 4});
  const std::string text = R"(kernel @s tile (%x: ptr<i32>) {
    %r = arange [start = START] : tile<3xi32>
    %p = addptr %x, %r
    %v = const [value = 9] : tile<3xi32>
    store %p, %v loc("k.cpp":7:2)
  })";
  std::string bad = text, good = text;
  bad.replace(bad.find("START"), 5, "2");
  good.replace(good.find("START"), 5, "1");
  const EvalArg inner = PointerArg{x.storage.data(), x.storage.data(), x.storage.data() + 4};
  const EvalReport r = run(bad, {inner});
  EXPECT_THAT(texts(r), ElementsAre("store writes x[4], outside of x (16 bytes)"));
  EXPECT_THAT(x.storage, ElementsAre(1, 2, 9, 9));
  EXPECT_TRUE(run(good, {inner}).clean());
}

TEST(EvalReport, AnUnknownAddress) {
  HostTensor<f32> out({1});
  const EvalReport r = run(R"(kernel @n tile (%o: ptr<f32>) {
    %a = const [value = 64] : i64
    %p = bitcast %a : ptr<f32>
    %v = load %p
  })",
                           {out.pointer()});
  EXPECT_THAT(texts(r), ElementsAre("load reads 0x40, which no argument owns"));
}

TEST(EvalReport, AProvedBoxMustBeInside) {
  HostTensor<f32> x = iota<f32>({6});
  const std::string text = R"(kernel @b tile (%x: view<?xf32, in, strides=1>, %n: i32) {
    %t = load_view %x, %n [axes = [0], in_bounds = [0], offset_divisibility = 2] : tile<4xf32> loc("k.cpp":2:1)
  })";
  EXPECT_THAT(
      texts(run(text, {x.view(), int_arg(4)})),
      ElementsAre("load_view was proved inside of x along dimension 0, but touches [4, 8) of 6"));
  EXPECT_THAT(
      texts(run(text, {x.view(), int_arg(1)})),
      ElementsAre("the offset along dimension 0 of x is 1, but was proved a multiple of 2"));
  EXPECT_TRUE(run(text, {x.view(), int_arg(2)}).clean());
}

// ---- poison -------------------------------------------------------------------------------------
/// A masked-off load (poison where the mask is false) and what is done with it.
std::string masked(const std::string& use, bool mask, const std::string& fill = "") {
  return "kernel @m tile (%x: ptr<f32>, %o: view<4xf32, out>, %q: ptr<i32>) { %z = const [value = "
         "0] : i32 %zf = const [value = 0.0] : f32 "
         "%m = const [value = " +
         std::string(mask ? "1" : "0") +
         "] : i1 "
         "%v = load %x, %m" +
         fill + " loc(\"k.cpp\":4:5)\n %c = cmp %v, %zf [pred = \"gt\"] %n = cast %v : i32 " + use +
         "}";
}
std::vector<std::string> run_masked(const std::string& use, bool mask,
                                    const std::string& fill = "") {
  HostTensor<f32> x({4}, {1, 1, 1, 1}), out({4});
  HostTensor<i32> q({4});
  return texts(run(masked(use, mask, fill), {x.pointer(), out.view(), q.pointer()}));
}

TEST(EvalReport, PoisonThatReachesMemory) {
  const std::string use = "store_view %o, %v, %z [axes = []] loc(\"k.cpp\":9:2)";
  EXPECT_THAT(run_masked(use, false),
              ElementsAre("store_view writes poison to o[0], made by load at k.cpp:4:5"));
  EXPECT_THAT(run_masked(use, true), IsEmpty());
  EXPECT_THAT(run_masked(use, false, ", %zf"), IsEmpty());
  EXPECT_THAT(run_masked("store %q, %n", false),
              ElementsAre("store writes poison to q[0], made by load at k.cpp:4:5"));
  EXPECT_THAT(run_masked("%old = atomic_rmw %q, %n [kind = \"add\"]", false),
              ElementsAre("atomic_rmw writes poison to q[0], made by load at k.cpp:4:5"));
}

TEST(EvalReport, PoisonThatDecides) {
  const std::string made = ", made by load at k.cpp:4:5";
  EXPECT_THAT(run_masked("if %c { yield } { yield }", false),
              ElementsAre("if uses poison as a branch condition" + made));
  EXPECT_THAT(
      run_masked("%one = const [value = 1] : i32 for %z, %n, %one { (%i: i32) yield }", false),
      ElementsAre("for uses poison as a loop bound" + made));
  EXPECT_THAT(run_masked("%p = addptr %q, %n %w = load %p", false),
              ElementsAre("load uses poison as an address" + made));
  EXPECT_THAT(run_masked("store %q, %z, %c", false),
              ElementsAre("store uses poison as a mask" + made));
  EXPECT_THAT(run_masked("%w = load_view %o, %n [axes = []] : f32", false),
              ElementsAre("load_view uses poison as an offset" + made));
  EXPECT_THAT(run_masked("assume %c", false),
              ElementsAre("assume uses poison as a condition" + made));
  EXPECT_THAT(run_masked("while { yield %c } { yield }", false),
              ElementsAre("yield uses poison as a loop condition" + made));
}

TEST(EvalReport, UnusedPoisonIsNotReported) {
  EXPECT_THAT(run_masked("%w = add %v, %v", false), IsEmpty());
  EXPECT_THAT(run_masked("%s = select %m, %v, %zf store_view %o, %s, %z [axes = []]", false),
              IsEmpty());
  EXPECT_THAT(run_masked("%s = select %m, %zf, %v store_view %o, %s, %z [axes = []]", false),
              ElementsAre("store_view writes poison to o[0], made by load at k.cpp:4:5"));
}

TEST(EvalReport, PoisonSpreadsThroughTiles) {
  const std::string tile = R"(%r = arange [start = 0] : tile<4xi32>
    %p = addptr %x, %r
    %two = const [value = 2] : i32
    %mm = cmp %r, %two [pred = "lt"]
    %t = load %p, %mm loc("k.cpp":20:1) )";
  const std::string made = ", made by load at k.cpp:20:1";
  EXPECT_THAT(run_masked(tile + "store_view %o, %t, %z [axes = [0]]", true),
              ElementsAre("store_view writes poison to o[2]" + made));
  EXPECT_THAT(
      run_masked(
          tile + "%s = reduce %t [axis = 0, kind = \"sum\"] store_view %o, %s, %z [axes = []]",
          true),
      ElementsAre("store_view writes poison to o[0]" + made));
  EXPECT_THAT(
      run_masked(
          tile + "%s = scan %t [axis = 0, kind = \"sum\"] store_view %o, %s, %z [axes = [0]]",
          true),
      ElementsAre("store_view writes poison to o[2]" + made));
  EXPECT_THAT(run_masked(tile + "%a = reshape %t : tile<2x2xf32> %w = const [value = 0.0] : "
                                "tile<2x2xf32> %d = dot %a, %w, %w "
                                "%f = reshape %d : tile<4xf32> store_view %o, %f, %z [axes = [0]]",
                         true),
              ElementsAre("store_view writes poison to o[2]" + made));
  EXPECT_THAT(run_masked(tile + "%w = const [value = 0.0] : tile<4xf32> %s = select %mm, %t, %w "
                                "store_view %o, %s, %z [axes = [0]]",
                         true),
              IsEmpty());
}

TEST(EvalReport, ThePoisonOp) {
  HostTensor<f32> out({1});
  EXPECT_THAT(texts(run("kernel @p tile (%o: ptr<f32>) { %v = poison : f32 store %o, %v }",
                        {out.pointer()})),
              ElementsAre("store writes poison to o[0], made by poison"));
}

/// An element of a view is there wherever it lies: outside it is 0, and reported where it decides.
TEST(EvalReport, AnElementOutsideThatDecidesIsReported) {
  HostTensor<i32> x({2});
  const std::string text = R"(kernel @a tile (%x: view<?xi32, in>, %n: i32) {
    %v = load_view %x, %n [axes = []] : i32
    %z = const [value = 0] : i32
    %c = cmp %v, %z [pred = "eq"]
    if %c { yield } { yield }
  })";
  EXPECT_FALSE(run(text, {x.view(), int_arg(2)}).clean());
  EXPECT_TRUE(run(text, {x.view(), int_arg(1)}).clean());
}

/// The fold of nothing by a function is the one scalar that may be absent.
TEST(EvalReport, AnAbsentElementMustNotDecide) {
  HostTensor<i32> x({2});
  const std::string text = R"(kernel @a tile (%x: view<?xi32, in>, %n: i32) {
    %t = load_view %x, %n [axes = [0]] : tile<1xi32>
    %v = reduce_with %t [axis = 0] : i32 { (%a: i32, %b: i32) yield %a }
    %z = const [value = 0] : i32
    %c = cmp %v, %z [pred = "eq"]
    if %c { yield } { yield }
  })";
  EXPECT_THAT(texts(run(text, {x.view(), int_arg(2)})),
              ElementsAre("if uses an absent element as a branch condition"));
  EXPECT_TRUE(run(text, {x.view(), int_arg(1)}).clean());
}

// ---- division by zero ---------------------------------------------------------------------------
TEST(EvalReport, IntegerDivisionByZero) {
  const std::string text = R"(kernel @d tile (%n: i32, %o: ptr<i32>) {
    %ten = const [value = 10] : i32
    %z = const [value = 0] : i32
    %q = OP %ten, %n loc("k.cpp":3:9)
    %bad = cmp %n, %z [pred = "eq"]
    %s = select %bad, %z, %q
    store %o, STORED loc("k.cpp":6:1)
  })";
  HostTensor<i32> out({1});
  for (const std::string op : {"div", "rem"}) {
    std::string used = text;
    used.replace(used.find("OP"), 2, op);
    std::string guarded = used;
    used.replace(used.find("STORED"), 6, "%q");
    guarded.replace(guarded.find("STORED"), 6, "%s");
    const EvalReport r = run(used, {int_arg(0), out.pointer()});
    ASSERT_THAT(
        texts(r),
        ElementsAre("store at k.cpp:6:1 writes the result of an integer division by zero to o[0]"));
    EXPECT_EQ(r.findings[0].kind, FindingKind::DivisionByZero);
    EXPECT_EQ(r.findings[0].loc, Loc("k.cpp", 3, 9));
    EXPECT_TRUE(run(guarded, {int_arg(0), out.pointer()}).clean());
    EXPECT_TRUE(run(used, {int_arg(3), out.pointer()}).clean());
  }
}

// ---- races --------------------------------------------------------------------------------------
/// Two programs run `body`; %i is the program's number.
EvalReport two_programs(const std::string& body, std::vector<EvalArg> args,
                        const EvalOptions& options = {}) {
  return run(
      "kernel @r tile (%x: view<?xi32, inout>, %p: ptr<i32>) {\n launch { %two = const [value = 2] "
      ": i32 "
      "%lone = const [value = 1] : i32 yield %two, %lone, %lone }\n %i = program_id [axis = 0] : "
      "i32 "
      "%z = const [value = 0] : i32 %one = const [value = 1] : i32\n" +
          body + "}",
      std::move(args), options);
}

TEST(EvalReport, TwoProgramsWriteOneElement) {
  HostTensor<i32> x({4}), p({4});
  const EvalReport r = two_programs("store_view %x, %i, %one [axes = []] loc(\"k.cpp\":8:3)",
                                    {x.view(), p.pointer()});
  EXPECT_THAT(
      texts(r),
      ElementsAre(
          "x[1] is touched without an order by store_view at k.cpp:8:3 in program (0, 0, 0) and "
          "store_view at k.cpp:8:3 in program (1, 0, 0)"));
  EXPECT_EQ(r.findings[0].kind, FindingKind::Race);
  EXPECT_TRUE(two_programs("store_view %x, %i, %i [axes = []]", {x.view(), p.pointer()}).clean());
}

TEST(EvalReport, AReadAndAWriteRaceInAnyOrder) {
  HostTensor<i32> x({4}), p({4});
  // Program 0 writes element 0 and program 1 reads it; and the other way round.
  for (const std::string who :
       {"%first = cmp %i, %z [pred = \"eq\"]", "%first = cmp %i, %z [pred = \"ne\"]"}) {
    const std::string body = who +
                             " if %first { store_view %x, %i, %z [axes = []] yield } { %v = "
                             "load_view %x, %z [axes = []] : i32 yield }";
    EXPECT_EQ(two_programs(body, {x.view(), p.pointer()}).findings.size(), 1u);
    EvalOptions shuffled;
    shuffled.shuffle_seed = 7;
    EXPECT_EQ(two_programs(body, {x.view(), p.pointer()}, shuffled).findings.size(), 1u);
  }
  EXPECT_TRUE(
      two_programs("%v = load_view %x, %z [axes = []] : i32", {x.view(), p.pointer()}).clean());
}

TEST(EvalReport, EachProgramMayReadAndWriteItsOwn) {
  HostTensor<i32> x({4}), p({4});
  EXPECT_TRUE(
      two_programs("%v = load_view %x, %i [axes = []] : i32 store_view %x, %v, %i [axes = []] "
                   "%w = load_view %x, %i [axes = []] : i32",
                   {x.view(), p.pointer()})
          .clean());
  // Reading the neighbour's as well is a race, though each element's first reader is its writer:
  // program 1 reads what 0 wrote, and writes what 0 read.
  EXPECT_EQ(
      two_programs("%v = load_view %x, %i [axes = []] : i32 store_view %x, %v, %i [axes = []] "
                   "%n = sub %one, %i %w = load_view %x, %n [axes = []] : i32",
                   {x.view(), p.pointer()})
          .findings.size(),
      2u);
}

TEST(EvalReport, ArgumentsThatOverlapShareTheirElements) {
  HostTensor<i32> x({4});
  // Program 0 writes x[1] as a view's element, program 1 as a pointer's.
  const std::string body =
      "%first = cmp %i, %z [pred = \"eq\"] if %first { store_view %x, %i, %one [axes = []] yield } "
      "{ %a = addptr %p, OFFSET store %a, %i yield }";
  std::string same = body, other = body;
  same.replace(same.find("OFFSET"), 6, "%z");
  other.replace(other.find("OFFSET"), 6, "%one");
  const EvalArg p = PointerArg{x.storage.data() + 1, x.storage.data(), x.storage.data() + 4};
  EXPECT_EQ(two_programs(same, {x.view(), p}).findings.size(), 1u);
  EXPECT_TRUE(two_programs(other, {x.view(), p}).clean());
}

TEST(EvalReport, RacesThroughTheAddressOfAView) {
  HostTensor<i32> x({4}), p({4});
  EXPECT_EQ(two_programs("%a = view_ptr %x store %a, %i", {x.view(), p.pointer()}).findings.size(),
            1u);
  EXPECT_TRUE(
      two_programs("%a = view_ptr %x %b = addptr %a, %i store %b, %i", {x.view(), p.pointer()})
          .clean());
}

TEST(EvalReport, AtomicsDoNotRaceWithEachOther) {
  HostTensor<i32> x({4}), p({4});
  EXPECT_TRUE(
      two_programs("%old = atomic_rmw %p, %one [kind = \"add\"]", {x.view(), p.pointer()}).clean());
  EXPECT_EQ(p.storage[0], 2);
  EXPECT_EQ(two_programs("%first = cmp %i, %z [pred = \"eq\"] if %first { %old = atomic_rmw %p, "
                         "%one [kind = \"add\"] yield } "
                         "{ store %p, %one yield }",
                         {x.view(), p.pointer()})
                .findings.size(),
            1u);
}

TEST(EvalReport, APlainReadRacesWithAnAtomic) {
  HostTensor<i32> x({4}), p({4});
  for (const std::string who : {"eq", "ne"})
    EXPECT_EQ(
        two_programs("%first = cmp %i, %z [pred = \"" + who +
                         "\"] if %first { %old = atomic_rmw %p, %one [kind = \"add\"] yield } "
                         "{ %v = load %p yield }",
                     {x.view(), p.pointer()})
            .findings.size(),
        1u);
}

// Each program writes its element and counts; the last to arrive reads both.
std::string last_reads(const std::string& sem) {
  return "store_view %x, %i, %i [axes = []] %was = atomic_rmw %p, %one [kind = \"add\", sem = \"" +
         sem +
         "\"] "
         "%last = cmp %was, %one [pred = \"eq\"] if %last { %v = load_view %x, %z [axes = [0]] : "
         "tile<2xi32> yield } { yield }";
}

TEST(EvalReport, ReleaseAndAcquireOrderTheirPrograms) {
  for (const std::string sem : {"relaxed", "release", "acquire"}) {
    HostTensor<i32> x({2}), p({1});
    EXPECT_EQ(two_programs(last_reads(sem), {x.view(), p.pointer()}).findings.size(), 1u) << sem;
  }
  HostTensor<i32> x({2}), p({1});
  EXPECT_TRUE(two_programs(last_reads("acq_rel"), {x.view(), p.pointer()}).clean());
}

TEST(EvalReport, WritesAfterTheReleaseAreNotOrdered) {
  HostTensor<i32> x({2}), p({1});
  const EvalReport r = two_programs(
      "%was = atomic_rmw %p, %one [kind = \"add\", sem = \"acq_rel\"] store_view %x, %i, %i [axes "
      "= []] "
      "%last = cmp %was, %one [pred = \"eq\"] if %last { %v = load_view %x, %z [axes = [0]] : "
      "tile<2xi32> yield } { yield }",
      {x.view(), p.pointer()});
  EXPECT_EQ(r.findings.size(), 1u);
}

TEST(EvalReport, RacesAreFoundOnTwoThreads) {
  HostTensor<i32> x({64});
  const std::string text = R"(kernel @r tile (%x: view<?xi32, out>) {
    launch { %n = const [value = 64] : i32  %one = const [value = 1] : i32  yield %n, %one, %one }
    %i = program_id [axis = 0] : i32
    %two = const [value = 2] : i32
    %h = div %i, DIVISOR
    store_view %x, %i, %h [axes = []]
  })";
  std::string bad = text, good = text;
  bad.replace(bad.find("DIVISOR"), 7, "%two");
  good.replace(good.find("%h = div %i, DIVISOR"), 20, "%h = add %i, %i");
  EvalOptions threads;
  threads.threads = 2;
  const EvalReport r = run(bad, {x.view()}, threads);
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].count, 32);
  EXPECT_TRUE(run(good, {x.view()}, threads).clean());
}

// ---- assumptions --------------------------------------------------------------------------------
TEST(EvalReport, AssumptionsAreChecked) {
  const std::string text = R"(kernel @a tile (%n: i32) {
    %r = arange [start = 0] : tile<4xi32>
    %c = cmp %r, %n [pred = "lt"]
    assume %c loc("k.cpp":3:3)
  })";
  const EvalReport r = run(text, {int_arg(2)});
  ASSERT_THAT(texts(r), ElementsAre("assumption does not hold at [2]: 2 < 2"));
  EXPECT_EQ(r.findings[0].kind, FindingKind::AssumeViolated);
  EXPECT_EQ(r.findings[0].count, 2);
  EXPECT_EQ(r.str(),
            "k.cpp:3:3: assumption violated: assumption does not hold at [2]: 2 < 2 "
            "(program 0, 0, 0; 2 times)\n");
  EXPECT_TRUE(run(text, {int_arg(4)}).clean());
}

TEST(EvalReport, ReportsNothingUnlessRequested) {
  HostTensor<f32> x = iota<f32>({4}), out({1});
  EvalOptions fast;
  fast.check = false;
  EXPECT_TRUE(run(kGather, {x.pointer(), out.pointer(), int_arg(1000)}, fast).clean());
  EXPECT_TRUE(run(kGather, {x.pointer(), out.pointer(), int_arg(2)}, fast).clean());
  EXPECT_EQ(out.storage[0], 2);
}

}  // namespace
}  // namespace tegula::ir::eval_report_test
