#include "autotune/store/tuning_store.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <limits>
#include <thread>

#include "autotune/store/store_text.h"
#include "autotune/store/winner_table.h"
#include "tests/unit/autotune/store/store_fixture.h"

namespace tegula::autotune::tuning_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(StoreTest, KeepsWinnersAndTimings) {
  {
    TuningStore store(options());
    store.publish(winner_of(2));
    store.publish(winner_of(1));
    store.record(timing_of(1, 7));
    EXPECT_TRUE(store.is_on_disk());
  }
  EXPECT_EQ(std::filesystem::status(file()).permissions(), std::filesystem::perms(0600));
  TuningStore store(options());
  EXPECT_EQ(store.winner(key_of(1)), stored(1));
  EXPECT_EQ(store.winner(key_of(3)), std::nullopt);
  const TuningKey k = key_of(1);
  EXPECT_THAT(store.winners(k.device, k.family, k.version), ElementsAre(stored(1), stored(2)));
  EXPECT_THAT(store.winners("another", k.family, k.version), IsEmpty());
  EXPECT_THAT(store.winners(k.device, k.family, 2), IsEmpty());
  EXPECT_THAT(store.timings(k, "cold"), ElementsAre(stored(1, 7)));
  EXPECT_THAT(store.timings(k, "hot"), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, ReplacesTheRowOfAKey) {
  TuningStore store(options());
  store.publish(winner_of(1));
  Winner better = winner_of(1);
  better.config = "bm 256";
  store.publish(better);
  EXPECT_EQ(store.winner(key_of(1))->config, "bm 256");
}

TEST_F(StoreTest, AnAbsentStoreIsEmptyAndReadingMakesNone) {
  TuningStore store(options());
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, WithoutAFolderResultsLiveInMemory) {
  StoreOptions o = options();
  o.folder.clear();
  TuningStore store(std::move(o));
  store.publish(winner_of(1));
  EXPECT_EQ(store.winner(key_of(1)), stored(1));
  EXPECT_FALSE(store.is_on_disk());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, NumbersThatSqliteWouldChangeAreDropped) {
  TuningStore store(options());
  Winner w = winner_of(1);
  w.ratio = std::numeric_limits<double>::quiet_NaN();
  store.publish(w);
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
}

TEST_F(StoreTest, OneProcessTunesAKey) {
  TuningStore store(options());
  EXPECT_TRUE(store.claim(key_of(1)));
  EXPECT_TRUE(store.claim(key_of(1)));  // again, by its owner
  const auto claimed_by_another = [&](bool stays) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_taken = store.claim(key_of(2)) && !store.claim(key_of(1));
      (void)!::write(ready[1], is_taken ? "y" : "n", 1);
      if (stays) ::pause();
      ::_exit(0);
    }
    char c = 0;
    EXPECT_EQ(::read(ready[0], &c, 1), 1);
    EXPECT_EQ(c, 'y');
    return child;
  };
  const pid_t living = claimed_by_another(true);
  EXPECT_FALSE(store.claim(key_of(2)));
  ::kill(living, SIGKILL);
  ::waitpid(living, nullptr, 0);
  EXPECT_TRUE(store.claim(key_of(2)));  // its owner died
  store.release(key_of(1));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, ClocksMayJump) {
  now_ = std::numeric_limits<std::int64_t>::max();
  TuningStore store(options());
  store.publish(winner_of(1));
  now_ = -5;
  Winner later = winner_of(1);
  later.config = "later";
  store.publish(later);
  EXPECT_EQ(store.winner(key_of(1))->config, "later");
  now_ = 0;
  EXPECT_TRUE(store.claim(key_of(1)));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, AForkedChildHasItsOwnConnection) {
  TuningStore store(options());
  store.publish(winner_of(1));
  const pid_t child = ::fork();
  if (child == 0) {
    store.publish(winner_of(2));
    ::_exit(store.winner(key_of(1)) == stored(1) && warnings_.empty() ? 0 : 1);
  }
  store.publish(winner_of(3));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(store.winner(key_of(i)), stored(i));
}

/// As text that is bundled and shipped.
TEST_F(StoreTest, LinesOfInvalidRowsAreNone) {
  TuningStore store(options());
  store.publish(winner_of(1));
  std::string good = store.export_text();
  good.pop_back();  // the line break
  EXPECT_EQ(row_of<Winner>(good), store.winner(key_of(1)));
  const std::string without_end = good.substr(0, good.size() - 2);
  std::string typed = good, more = good;
  typed.replace(typed.find("24"), 2, "\"x\"");
  more.insert(more.size() - 1, ",\"extra\":1");
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string("{}"), std::string("[1]"),
        std::string("{\"table\":\"winner\"}"), without_end, typed, more, std::string(1 << 20, '[')})
    EXPECT_EQ(row_of<Winner>(bad), std::nullopt) << bad.substr(0, 200);
}

TEST_F(StoreTest, LookUpsReadTheFileOnce) {
  TuningStore writer(options());
  for (int i = 0; i < 40; ++i) writer.publish(winner_of(i));
  TuningStore store(options());
  WinnerTable table(store);
  EXPECT_EQ(table.find(key_of(3)), stored(3));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(table.find(key_of(i)), stored(i));
  EXPECT_EQ(table.find(key_of(41)), std::nullopt);
  writer.publish(winner_of(41));
  EXPECT_EQ(table.find(key_of(41)), std::nullopt);
  table.refresh();
  EXPECT_EQ(table.find(key_of(41)), stored(41));
}

TEST_F(StoreTest, WinnersPublishedHereAreVisibleHere) {
  TuningStore store(options());
  WinnerTable table(store);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5; ++i) table.publish(winner_of(t * 5 + i));
      });
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(table.find(key_of(i))->config, winner_of(i).config);
  EXPECT_EQ(table.family(key_of(0))->size(), 20u);
}

}  // namespace
}  // namespace tegula::autotune::tuning_store_test
