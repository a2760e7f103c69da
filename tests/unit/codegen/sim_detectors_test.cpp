// Every detector has a fault it must find and, one edit away, a sound kernel on which the whole
// simulator stays silent. Disabling a detector loses exactly its own cases.
#include "tests/unit/codegen/sim_cases.h"

namespace tegula::sim::sim_detectors_test {
namespace {

Report run(const std::string& text, Grid grid, std::uint64_t seed, DetectorSet detectors) {
  static Buffer<bf16> matrix(64 * 64, bf16(1.0f)), copied(64 * 64);
  static Buffer<std::int32_t> words(256);
  const auto in = matrix_map(matrix, 64, 64, 64, 64, 128),
             out = matrix_map(copied, 64, 64, 64, 64, 128);
  std::fill(words.begin(), words.end(), 0);
  std::fill(words.begin() + 160, words.begin() + 192, -1);
  const auto first = reinterpret_cast<std::uintptr_t>(words.data() + 160);
  const std::vector<ir::ReleasedMemory> released{{first, first + 32 * 4, 4}};
  Launch1 l;
  l.options.seed = seed;
  l.options.detectors = detectors;
  l.options.max_steps = 20000;
  l.options.released = released;
  l.options.ranges = {{matrix.data(), matrix.data() + matrix.size()},
                      {copied.data(), copied.data() + copied.size()}};
  l.map(in).map(out).pointer(words).pointer(matrix);
  return l.run(parse_located(text), grid);
}

TEST(SimDetectors, FindTheFaultAndStaySilentOneEditAway) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.name);
    std::string found;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      // The name of some races depends on which access came first, so one order of the four must
      // give this one.
      const Report bad = run(faulty(c), c.grid, seed, DetectorSet::all());
      EXPECT_FALSE(bad.clean()) << "nothing found; seed " << seed;
      if (bad.find(c.kind)) found = bad.str();
      const Report good = run(c.sound, c.grid, seed, DetectorSet::all());
      EXPECT_TRUE(good.clean()) << "seed " << seed << "\n" << good.str();
    }
    EXPECT_NE(found, "") << name(c.kind) << " not found";
  }
}

TEST(SimDetectors, EachIsDisabledAlone) {
  const auto cases = all_cases();
  for (int d = 0; d < kDetectorCount; ++d) {
    const auto disabled = static_cast<Detector>(d);
    bool has_case = false;
    for (const Case& c : cases) {
      const Report r = run(faulty(c), c.grid, 1, DetectorSet::all().without(disabled));
      EXPECT_EQ(r.find(c.kind) == nullptr, c.kind == disabled)
          << c.name << " with " << name(disabled) << " off\n"
          << r.str();
      has_case |= c.kind == disabled;
    }
    has_case |= disabled == Detector::Unstored;  // below: it needs an argument of its own
    EXPECT_TRUE(has_case) << "no case for " << name(disabled);
  }
}

/// A box outside its tensor arrives as zeros, but the copy engine reads the base of the map.
TEST(SimDetectors, EmptyBoxesReadTheBaseOfTheirMap) {
  Buffer<bf16> tensor(64 * 64, bf16(1.0f)), unknown(64 * 64, bf16(1.0f));
  Buffer<std::int32_t> words(256);
  const ir::Kernel k =
      parse_located(replaced(kTmaLoad, "%bar, %zero, %zero", "%bar, %zero, %c16k"));
  for (Buffer<bf16>* base : {&tensor, &unknown}) {
    const auto map = matrix_map(*base, 64, 64, 64, 64, 128);
    Launch1 l;
    l.map(map).map(map).pointer(words).pointer(tensor);
    const Report r = l.run(k);
    EXPECT_EQ(r.find(Detector::TensorMapRule) != nullptr, base == &unknown) << r.str();
    EXPECT_EQ(r.clean(), base == &tensor) << r.str();
  }
}

TEST(SimDetectors, FindingsNameBothLines) {
  const Report r = run(replaced(exchange(32), "bar_sync %zero [count = 64]", "pin"), {1, 1, 1}, 1,
                       DetectorSet::all());
  const Finding* f = r.find(Detector::SharedRace);
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->loc.known() && f->other.known() && f->loc.line != f->other.line) << f->str();
  EXPECT_NE(f->text.find("st_shared"), std::string::npos);
  EXPECT_NE(f->text.find("ld_shared"), std::string::npos);
}

TEST(SimDetectors, AssumptionsReportComparedValues) {
  const std::string compared =
      replaced(kTrap, "trap", "trap %t, %one [kind = \"assume\", pred = \"gt\"]");
  const Report r =
      run(replaced(compared, "cmp %t, %zero [pred = \"lt\"]", "cmp %t, %one [pred = \"le\"]"),
          {1, 1, 1}, 1, DetectorSet::all());
  const Finding* f = r.find(Detector::Assume);
  ASSERT_NE(f, nullptr) << r.str();
  EXPECT_EQ(f->text, "assumption does not hold: 0 > 1");
}

TEST(SimDetectors, DeadlockReportsTheWaitOfEachWarp) {
  const Report r =
      run(replaced(kTmaLoad, "mbar_init %bar [count = 1]", "mbar_init %bar [count = 2]"), {1, 1, 1},
          1, DetectorSet::all());
  const Finding* f = r.find(Detector::Deadlock);
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->text.find("warp 0 waits for parity 0 of mbarrier"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("warp 1 waits for"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("1 of 2 arrivals"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("test.tir:"), std::string::npos) << f->text;
}

TEST(SimDetectors, RacesOfAClusterNameBothCtas) {
  const Report r = run(replaced(kCluster, kWritten, ""), kTwoCtas, 1, DetectorSet::all());
  const Finding* f = r.find(Detector::SharedRace);
  ASSERT_NE(f, nullptr) << r.str();
  EXPECT_NE(f->text.find("ld_cluster of warp"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("of CTA 0"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("of CTA 1"), std::string::npos) << f->text;
}

TEST(SimDetectors, RacesOfGlobalMemoryNameElementAndLines) {
  const Report r =
      run(replaced(exchange_in_global(32), bar, "pin"), {1, 1, 1}, 1, DetectorSet::all());
  const Finding* f = r.find(Detector::ProgramRace);
  ASSERT_NE(f, nullptr) << r.str();
  EXPECT_TRUE(f->loc.known() && f->other.known() && f->loc.line != f->other.line) << f->str();
  EXPECT_NE(f->text.find("st_global at test.tir:"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("ld_global at test.tir:"), std::string::npos) << f->text;
  EXPECT_EQ(code(f->kind), "T1309");
}

TEST(SimDetectors, EndlessWaitsNameTheWordAndItsLastWriter) {
  const Report r = run(replaced(kLock, "%lock, %zero, %first", "%lock, %one, %first"), {2, 1, 1}, 1,
                       DetectorSet::all());
  const Finding* f = r.find(Detector::Deadlock);
  ASSERT_NE(f, nullptr) << r.str();
  EXPECT_NE(f->text.find("which contains 1 and no thread changes"), std::string::npos) << f->text;
  EXPECT_NE(f->text.find("changed last by atom_global at test.tir:"), std::string::npos) << f->text;
}

/// The threads store their numbers to an argument of `rows` rows of 8 words, of which they reach
/// 64 words; `options.detectors` sees to the rest.
Report store_rows(std::int64_t rows, bool must_be_stored, DetectorSet detectors) {
  static Buffer<std::int32_t> words(256);
  Launch1 l;
  l.options.detectors = detectors;
  l.args.emplace_back(arg_pointer(words.data()));
  GlobalRange range{words.data(), words.data() + rows * 8};
  range.name = "z";
  range.tensor = ir::TensorArg{words.data(), {rows, 8}, {8, 1}, DType::i32};
  range.must_be_stored = must_be_stored;
  l.options.ranges.push_back(range);
  const std::int64_t most = std::min<std::int64_t>(64, rows * 8 - 1);
  return l.run(parse_located(fmt::format(R"(
kernel @k simt target(sm_90a) threads(64) (%z: ptr<i32>) {{
  %t = tid
  %most = const [value = {}] : i32
  %inside = cmp %t, %most [pred = "lt"]
  %at = addptr %z, %t
  st_global %at, %t, %inside [width = 1]
}})",
                                         must_be_stored ? most : 64)),
               {1, 1, 1});
}

TEST(SimDetectors, ElementsThatWereNotStored) {
  const Report left = store_rows(8, true, DetectorSet::all());
  ASSERT_NE(left.find(Detector::Unstored), nullptr) << left.str();
  EXPECT_EQ(
      left.find(Detector::Unstored)->text,
      "1 of 64 elements of z were stored by no program, first z[7, 7]; the store here leaves out "
      "z[7, 7], as its value is absent there");
  EXPECT_TRUE(left.find(Detector::Unstored)->loc.known());
  const Report none = store_rows(9, true, DetectorSet::all());
  EXPECT_EQ(none.find(Detector::Unstored)->text,
            "8 of 72 elements of z were stored by no program, first z[8, 0]");
  EXPECT_TRUE(store_rows(8, false, DetectorSet::all()).clean());
  EXPECT_TRUE(store_rows(9, false, DetectorSet::all()).clean());
  EXPECT_TRUE(store_rows(8, true, DetectorSet::all().without(Detector::Unstored)).clean());
}

// ---- further near misses: right kernels close to a fault ----------------------------------------

void expect_silent(const std::string& text) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Report r = run(text, {1, 1, 1}, seed, DetectorSet::all());
    EXPECT_TRUE(r.clean()) << r.str();
  }
}

TEST(SimDetectors, SilentOnEqualValuesWrittenByAll) {
  expect_silent(kernel(64, R"(
  st_shared %base, %four [width = 1]
  bar_sync %zero [count = 64]
  %v = ld_shared %base [width = 1] : i32
  st_global %out, %v [width = 1]
)"));
}

TEST(SimDetectors, SilentOnWordsThatAreThePrograms) {
  // A thread accesses only its own words; all store one word alike, and read it after a barrier;
  // each iteration stores another value.
  expect_silent(replaced(exchange_in_global(0), bar, "pin"));
  expect_silent(kernel(64, R"(
  st_global %g, %four [width = 1]
  bar_sync %zero [count = 64]
  %v = ld_global %g [width = 1] : i32
)"));
  expect_silent(kernel(64, R"(
  for %zero, %four, %one { (%i: i32)
    st_global %g, %i [width = 1]
    bar_sync %zero [count = 64]
    %v = ld_global %g [width = 1] : i32
    bar_sync %one [count = 64]
  }
)"));
}

TEST(SimDetectors, SilentOnAtomicsOfOneWord) {
  const std::string text = kernel(64, R"(
  %old = atom_global %g, %t [kind = "add"]
  %again = atom_global %g, %one [kind = "add"]
)");
  const Report r = run(text, {4, 1, 1}, 1, DetectorSet::all());
  EXPECT_TRUE(r.clean()) << r.str();
}

TEST(SimDetectors, SilentOnChainsOfReleases) {
  // The first CTA's store reaches the third through the second.
  const std::string chain = kernel(64, R"(
  %cta = ctaid [axis = 0]
  %c250 = const [value = 250] : i32
  %flags = addptr %g, %c250
  %mine_flag = addptr %flags, %cta
  %before = sub %cta, %one
  %their_flag = addptr %flags, %before
  %is0 = cmp %cta, %zero [pred = "eq"]
  if %is0 {
    st_global %out, %t [width = 1]
  } {
    while {
      %leads = cmp %lane, %zero [pred = "eq"]
      %now = atom_global %their_flag, %zero, %leads [kind = "or", sem = "acquire", scope = "gpu"]
      %told = shfl %now, %zero [mode = "idx"]
      %waits = cmp %told, %zero [pred = "eq"]
      yield %waits
    } {
      yield
    }
    %v = ld_global %out [width = 1] : i32
  }
  bar_sync %zero [count = 64]
  %old = atom_global %mine_flag, %one, %first [kind = "xchg", sem = "release", scope = "gpu"]
)");
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Report r = run(chain, {3, 1, 1}, seed, DetectorSet::all());
    EXPECT_TRUE(r.clean()) << r.str();
  }
}

TEST(SimDetectors, SilentOnNeighbouringHalvesOfAWord) {
  expect_silent(kernel(64, R"(
  %t16 = cast %t : i16
  %c31 = const [value = 31] : i32
  %low = and %t, %c31
  %low4 = mul %low, %four
  %half = mul %warp, %two
  %at0 = add %base, %low4
  %at = add %at0, %half
  st_shared %at, %t16 [width = 1]
  bar_sync %zero [count = 64]
  %v = ld_shared %mine [width = 1] : i32
  %inside = cmp %warp, %zero [pred = "eq"]
  st_global %out, %v, %inside [width = 1]
)"));
}

TEST(SimDetectors, SilentIfTheReaderFencesAfterTheBarrier) {
  expect_silent(replaced(replaced(kTmaStore, "fence_proxy_async", "pin"), "tma_store",
                         "fence_proxy_async\n    tma_store"));
}

TEST(SimDetectors, SilentOnPoisonThatDecidesNothing) {
  expect_silent(kernel(32, R"(
  %v = ld_shared %mine [width = 1] : i32
  %no = cmp %t, %zero [pred = "lt"]
  %w = select %no, %v, %t
  st_global %out, %w [width = 1]
  %u = ld_global %out, %no [width = 1] : i32
  st_global %out, %u, %no [width = 1]
)"));
}

TEST(SimDetectors, SilentOnTheProducersFirstPass) {
  expect_silent(replaced(kTmaLoad, "mbar_expect_tx", "mbar_wait %bar, %one\n    mbar_expect_tx"));
}

TEST(SimDetectors, SilentOnATransferAheadOfItsExpectation) {
  expect_silent(replaced(replaced(kTmaLoad, "mbar_expect_tx %bar [bytes = 8192]\n", ""),
                         "%bar, %zero, %zero\n",
                         "%bar, %zero, %zero\n    mbar_expect_tx %bar [bytes = 8192]\n"));
}

}  // namespace
}  // namespace tegula::sim::sim_detectors_test
