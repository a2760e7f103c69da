// The kernel cache under many processes, a clock that jumps, lost power and a holder of a lock that
// has stopped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <vector>

#include "runtime/cache.h"
#include "support/text.h"

namespace tegula::runtime::cache_storm_test {
namespace {

CacheKey key_of(int i) {
  CacheKey key;
  key.add("ir", "kernel @k" + std::to_string(i));
  return key;
}
CacheEntry entry_of(int i) { return {"meta " + std::to_string(i), "", "// ptx", "", "log"}; }

class CacheStorm : public ::testing::Test {
 protected:
  CacheStorm()
      : folder_(std::filesystem::temp_directory_path() /
                ("tegula-storm-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {}
  ~CacheStorm() override { std::filesystem::remove_all(folder_); }

  KernelCache open(std::size_t max_bytes = 1 << 30) const {
    return KernelCache({folder_, false, max_bytes, {}, &Vfs::posix()});
  }
  /// Runs `f(i)` in `count` processes at once, each of which must give true.
  template <class F>
  static void in_processes(int count, const F& f) {
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(f(i) ? 0 : 1);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  void set_time(int key, std::time_t when) const {
    const timespec times[2] = {{when, 0}, {when, 0}};
    ::utimensat(AT_FDCWD, open().path_of(key_of(key)).c_str(), times, 0);
  }

  static inline int next_ = 0;
  std::filesystem::path folder_;
};

/// A number that processes share.
struct Shared {
  std::atomic<int>* value = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ~Shared() { ::munmap(value, 4096); }
};

TEST_F(CacheStorm, SixtyFourProcessesCompileEachKeyOnce) {
  constexpr int kProcesses = 64, kKeys = 100;
  const Shared compiled, arrived;
  in_processes(kProcesses, [&](int p) {
    KernelCache cache = open();
    ++*arrived.value;
    while (*arrived.value < kProcesses) ::usleep(500);
    bool fine = true;
    for (int i = 0; i < kKeys; ++i) {
      const int k = (i + p * 13) % kKeys;
      auto found = cache.find(key_of(k));
      std::unique_ptr<BuildLock> lock;
      if (!found) {
        lock = cache.lock_for_build(key_of(k), std::chrono::seconds(20));
        found = cache.find(key_of(k));
      }
      if (!found) {
        ++*compiled.value;
        cache.store(key_of(k), entry_of(k));
      } else {
        fine &= *found == entry_of(k);
      }
    }
    return fine && cache.counts().damaged == 0 && cache.writes();
  });
  EXPECT_GE(*compiled.value, kKeys);
  EXPECT_LE(*compiled.value, kKeys * 105 / 100);
  KernelCache after = open();
  for (int k = 0; k < kKeys; ++k) EXPECT_EQ(after.find(key_of(k)), entry_of(k));
}

/// A file whose blocks did not all reach the disk before the power went.
TEST_F(CacheStorm, BlocksThatWereLostAreAMiss) {
  const std::string path = open().path_of(key_of(1)).string();
  std::mt19937 random(1);
  std::string incompressible(3000, '\0');
  for (char& c : incompressible) c = static_cast<char>(random());
  open().store(key_of(1), {incompressible, "", "// ptx", "", "log"});
  const std::string whole = read_file(path);
  ASSERT_GT(whole.size(), 1024u);
  for (std::size_t lost = 0; lost < whole.size(); lost += 512)
    for (const bool rest_too : {false, true}) {
      std::string torn = whole;
      const std::size_t count =
          rest_too ? torn.size() - lost : std::min<std::size_t>(512, torn.size() - lost);
      torn.replace(lost, count, count, '\0');
      std::filesystem::remove(path);
      std::ofstream(path, std::ios::binary) << torn;
      std::filesystem::permissions(
          path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
      KernelCache cache = open();
      EXPECT_FALSE(cache.find(key_of(1))) << lost;
      EXPECT_EQ(cache.counts().damaged, 1) << lost;
    }
}

TEST_F(CacheStorm, AClockThatJumpsSpoilsTheOrderAlone) {
  KernelCache cache = open();
  for (int i = 0; i < 12; ++i) cache.store(key_of(i), entry_of(i));
  for (int i = 0; i < 4; ++i) set_time(i, 0);                                 // 1970
  for (int i = 4; i < 8; ++i) set_time(i, ::time(nullptr) + 20L * 31536000);  // 20 years ahead
  for (int i = 0; i < 12; ++i) EXPECT_EQ(cache.find(key_of(i)), entry_of(i));
  for (int i = 0; i < 4; ++i) set_time(i, 0);  // being found made them new
  EXPECT_EQ(open(4096).sweep(), 4);
  KernelCache after = open();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(after.find(key_of(i)).has_value(), i >= 4) << i;
  after.store(key_of(0), entry_of(0));
  EXPECT_EQ(after.find(key_of(0)), entry_of(0));
}

TEST_F(CacheStorm, AHolderThatHasStoppedIsNotWaitedForForever) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    KernelCache mine = open();
    const auto lock = mine.lock_for_build(key_of(1), std::chrono::seconds(5));
    (void)!::write(ready[1], "y", 1);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  ::waitpid(holder, nullptr, WUNTRACED);
  KernelCache cache = open();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(cache.lock_for_build(key_of(1), std::chrono::milliseconds(100)), nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  cache.store(key_of(1), entry_of(1));  // who gives up compiles, and may publish
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST_F(CacheStorm, SweepersAndReadersDoNotDisturbEachOther) {
  constexpr int kKeys = 30;
  in_processes(6, [&](int p) {
    bool fine = true;
    KernelCache cache = open(p < 2 ? 0 : std::size_t{1} << 30);
    for (int round = 0; round < 20; ++round)
      for (int k = 0; k < kKeys; ++k) {
        if (p < 2) {
          set_time(k, 1000);
          if (k == 0) fine &= cache.sweep() >= 0;
          continue;
        }
        if (const auto found = cache.find(key_of(k))) fine &= *found == entry_of(k);
        cache.store(key_of(k), entry_of(k));
      }
    return fine && cache.counts().damaged == 0;
  });
}

}  // namespace
}  // namespace tegula::runtime::cache_storm_test
