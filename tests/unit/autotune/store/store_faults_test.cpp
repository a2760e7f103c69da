// The fault table of the tuner's store: whatever happens to the file, a reader gets sound rows or
// none, and hears of it once.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "tests/unit/autotune/store/store_fixture.h"

namespace tegula::autotune::store_faults_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Winner> all_of(TuningStore& store) {
  const TuningKey k = key_of(0);
  return store.winners(k.device, k.family, k.version);
}

/// Limits the size of every file that this process writes, as a disk without room does.
void limit_files(rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(StoreTest, KilledAtAnyTimeLeavesOldOrNew) {
  for (int n = 0; n < 100; ++n) {
    std::filesystem::remove_all(folder_);
    const pid_t child = ::fork();
    if (child == 0) {
      TuningStore store(options());
      store.publish(winner_of(1));
      store.publish(winner_of(2));
      for (bool is_long = true;; is_long = !is_long) {
        Winner again = winner_of(1);
        if (is_long) again.config = std::string(9000, 'x');  // pages that overflow
        store.publish(again);
      }
    }
    ::usleep(static_cast<useconds_t>(n * 200));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    {
      TuningStore after(options());
      const auto first = after.winner(key_of(1));
      const auto second = after.winner(key_of(2));
      EXPECT_TRUE(!first || *first == stored(1) || first->config.size() == 9000u) << n;
      EXPECT_TRUE(!second || *second == stored(2)) << n;
      EXPECT_TRUE(first || !second) << "a later row without the earlier one, run " << n;
      after.publish(winner_of(3));
      EXPECT_TRUE(after.is_on_disk()) << n;
    }
    EXPECT_EQ(TuningStore(options()).winner(key_of(3)), stored(3)) << n;
    ASSERT_THAT(warnings_, IsEmpty()) << n;
  }
}

TEST_F(StoreTest, AFullDiskKeepsResultsAndWarnsOnce) {
  const auto previous = ::signal(SIGXFSZ, SIG_IGN);
  int failed = 0;
  for (rlim_t room = 0; room <= 32 << 10; room += 1 << 10) {
    std::filesystem::remove_all(folder_);
    warnings_.clear();
    TuningStore(options()).publish(winner_of(1));
    TuningStore store(options());
    limit_files(room);
    store.publish(winner_of(2));
    store.publish(winner_of(3));
    limit_files(RLIM_INFINITY);
    EXPECT_EQ(store.winner(key_of(3)), stored(3)) << "in memory at least; room " << room;
    EXPECT_EQ(warnings_.size(), store.is_on_disk() ? 0u : 1u) << room;
    failed += !store.is_on_disk();
    TuningStore after(options());
    EXPECT_EQ(after.winner(key_of(1)), stored(1)) << room;
    const auto second = after.winner(key_of(2));
    EXPECT_TRUE(!second || *second == stored(2)) << room;
  }
  ::signal(SIGXFSZ, previous);
  EXPECT_GT(failed, 8);
  EXPECT_LT(failed, 32);
}

TEST_F(StoreTest, AnyFailingCallKeepsResultsAndWarnsOnce) {
  for (int code : {ENOSPC, EIO, EDQUOT, EMFILE, EROFS, EACCES, ENOLCK})
    for (bool for_good : {false, true})
      for (int n = 1; n < 10; ++n) {
        std::filesystem::remove_all(folder_);
        warnings_.clear();
        TuningStore(options()).publish(winner_of(1));
        runtime::Faulty vfs;
        vfs.code = code;
        vfs.countdown = n;
        vfs.fails_from_there_on = for_good;
        StoreOptions o = options(vfs);
        o.write_patience_ms = 1;
        TuningStore store(std::move(o));
        store.publish(winner_of(2));
        store.publish(winner_of(3));
        EXPECT_EQ(store.winner(key_of(3)), stored(3)) << "in memory at least; call " << n;
        EXPECT_LE(warnings_.size(), 1u) << std::strerror(code) << " at call " << n;
        const std::size_t told = warnings_.size();
        vfs.countdown = 0;
        TuningStore after(options());
        EXPECT_EQ(after.winner(key_of(1)), stored(1)) << std::strerror(code) << " at call " << n;
        const auto second = after.winner(key_of(2));
        EXPECT_TRUE(!second || *second == stored(2));
        EXPECT_EQ(warnings_.size(), told) << std::strerror(code) << " at call " << n;
      }
}

/// A flip in a key, or in a page's number of rows, makes a row that no search finds: a miss that
/// nobody hears of. All else is told.
TEST_F(StoreTest, AnyByteFlippedGivesSoundRowsOnly) {
  {
    TuningStore store(options());
    for (int i = 0; i < 3; ++i) store.publish(winner_of(i));
    store.record(timing_of(1, 1));
  }
  const std::string good = bytes();
  ASSERT_GT(good.size(), 8000u);
  std::size_t whole = 0, told = 0, silent = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    // Zeros between the rows are not read; a few of them stand for all.
    const bool is_filler = good.compare(at, 64, std::string(64, 0)) == 0;
    if (is_filler && at % 128 != 0) continue;
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 + at * 37 % 255));
    for (int i = 0; i < 3; ++i)
      std::filesystem::remove(folder_ / ("tuning.bad-" + std::to_string(i)));
    write(bad);
    warnings_.clear();
    TuningStore store(options());
    const std::vector<Winner> found = all_of(store);
    for (const Winner& w : found)
      EXPECT_TRUE(w == stored(0) || w == stored(1) || w == stored(2)) << "byte " << at;
    EXPECT_LE(warnings_.size(), 1u) << "byte " << at;
    ++(found.size() == 3 ? whole : warnings_.empty() ? silent : told);
  }
  EXPECT_GT(told, 800u);
  EXPECT_LT(silent, 150u);
  EXPECT_GT(whole, 100u);
}

TEST_F(StoreTest, TruncatedAndGrownFilesAreReplaced) {
  TuningStore(options()).publish(winner_of(1));
  const std::string good = bytes();
  for (std::size_t size = 0; size <= good.size() + 512; size += 512) {
    std::string bad = good;
    bad.resize(size, 'x');
    write(bad);
    warnings_.clear();
    TuningStore store(options());
    const auto found = store.winner(key_of(1));
    EXPECT_TRUE(!found || *found == stored(1)) << size;
    store.publish(winner_of(2));
    EXPECT_EQ(TuningStore(options()).winner(key_of(2)), stored(2)) << size;
    EXPECT_LE(warnings_.size(), 1u) << size;
  }
}

TEST_F(StoreTest, DamagedFilesAreKeptThreeAtMost) {
  for (int i = 0; i < 5; ++i) {
    std::filesystem::create_directories(folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms(0700));
    write("this is no database, number " + std::to_string(i) + std::string(200, '.'));
    TuningStore store(options());
    store.publish(winner_of(i));
    EXPECT_TRUE(store.is_on_disk());
  }
  EXPECT_THAT(warnings_, SizeIs(5));
  EXPECT_THAT(warnings_[0], HasSubstr("damaged"));
  std::size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    kept += entry.path().filename().string().starts_with("tuning.bad-");
  EXPECT_EQ(kept, 3u);
}

TEST_F(StoreTest, AConnectionToAMovedFileDoesNotHarmTheNewFile) {
  TuningStore slow(options());
  slow.publish(winner_of(1));
  std::filesystem::rename(file(), folder_ / "elsewhere");
  TuningStore fresh(options());
  fresh.publish(winner_of(2));
  slow.publish(winner_of(3));
  EXPECT_FALSE(slow.is_on_disk());
  EXPECT_EQ(slow.winner(key_of(3)), stored(3));
  EXPECT_THAT(all_of(fresh), ElementsAre(stored(2)));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(StoreTest, ALockedStoreIsNotWaitedForLong) {
  TuningStore(options()).publish(winner_of(1));
  const int holder = ::open(file().c_str(), O_RDWR | O_CLOEXEC);
  struct flock all{};
  all.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(holder, F_OFD_SETLK, &all), 0);
  TuningStore store(options());
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("locked")));
  ::close(holder);
  EXPECT_EQ(TuningStore(options()).winner(key_of(1)), stored(1));
}

TEST_F(StoreTest, ReadOnlyReadsAndWritesToMemory) {
  TuningStore(options()).publish(winner_of(1));
  const std::string before = bytes();
  StoreOptions o = options();
  o.read_only = true;
  TuningStore store(std::move(o));
  EXPECT_EQ(store.winner(key_of(1)), stored(1));
  store.publish(winner_of(2));
  EXPECT_EQ(store.winner(key_of(2)), stored(2));
  EXPECT_EQ(bytes(), before);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StoreTest, AReadOnlyDamagedStoreIsLeftAsItIs) {
  TuningStore(options()).publish(winner_of(1));
  write(std::string(4096, 'x'));
  StoreOptions o = options();
  o.read_only = true;
  TuningStore store(std::move(o));
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
  EXPECT_EQ(bytes(), std::string(4096, 'x'));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(StoreTest, PlantedFilesAreRefused) {
  TuningStore(options()).publish(winner_of(1));
  const std::filesystem::path aside = folder_ / "aside";
  std::filesystem::rename(file(), aside);
  const auto refuses = [&](const char* why) {
    warnings_.clear();
    TuningStore store(options());
    EXPECT_EQ(store.winner(key_of(1)), std::nullopt) << why;
    store.publish(winner_of(2));
    EXPECT_EQ(store.winner(key_of(2)), stored(2));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(why)));
  };
  std::filesystem::create_symlink(aside, file());
  refuses("symbolic link");
  EXPECT_TRUE(std::filesystem::is_symlink(file()));
  std::filesystem::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  refuses("not a file of this user");
  std::filesystem::remove(file());
  std::filesystem::create_directory(file());
  refuses("tuning.db");
  std::filesystem::remove(file());
  std::filesystem::copy_file(aside, file());
  ::chmod(file().c_str(), 0666);
  refuses("not a file of this user");
  ::chmod(file().c_str(), 0600);
  std::filesystem::create_symlink(aside, file().string() + "-journal");
  warnings_.clear();
  TuningStore store(options());
  store.publish(winner_of(2));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(StoreTest, FoldersOfOthersAreNotUsed) {
  TuningStore(options()).publish(winner_of(1));
  runtime::OtherUser vfs;
  EXPECT_EQ(TuningStore(options(vfs)).winner(key_of(1)), std::nullopt);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("must be a folder of this user")));
  ::chmod(folder_.c_str(), 0777);
  EXPECT_EQ(TuningStore(options()).winner(key_of(1)), std::nullopt);
  ::chmod(folder_.c_str(), 0700);
  EXPECT_EQ(TuningStore(options()).winner(key_of(1)), stored(1));
}

TEST_F(StoreTest, ALaterSchemaIsLeftAlone) {
  TuningStore(options()).publish(winner_of(1));
  std::string later = bytes();
  later[63] = 2;  // user_version, big-endian at 60
  write(later);
  TuningStore store(options());
  EXPECT_EQ(store.winner(key_of(1)), std::nullopt);
  store.publish(winner_of(2));
  EXPECT_EQ(bytes(), later);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("later version")));
}

TEST_F(StoreTest, SixtyFourProcessesStormTheSameKeys) {
  constexpr int kProcesses = 64, kKeys = 12;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    StoreOptions o = options();
    o.read_patience_ms = o.write_patience_ms = 120'000;
    TuningStore store(std::move(o));
    bool is_sound = true;
    for (int i = 0; i < kKeys; ++i) {
      const int k = (i * 5 + p * 7) % kKeys;
      const auto before = store.winner(key_of(k));
      is_sound &= !before || *before == stored(k);
      if (!before) store.publish(winner_of(k));
      is_sound &= store.winner(key_of(k)) == stored(k);
    }
    ::_exit((is_sound ? 0 : 1) + (warnings_.empty() ? 0 : 2) + (store.is_on_disk() ? 0 : 4));
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "wrong content (1), a warning (2), not on disk (4), times 256";
  }
  TuningStore store(options());
  EXPECT_THAT(all_of(store), SizeIs(kKeys));
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace tegula::autotune::store_faults_test
