#include "runtime/cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "support/text.h"
#include "tests/unit/faulty_vfs.h"

namespace tegula::runtime::cache_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string fake_cubin(char fill, std::size_t bytes = 3000) {
  std::string elf(bytes, fill);
  elf.replace(0, 4, "\177ELF");
  elf[18] = static_cast<char>(190);
  elf[19] = 0;
  return elf;
}

CacheKey key_of(int i) {
  CacheKey key;
  key.add("ir", "kernel @k" + std::to_string(i));
  key.add("target", "sm_90a");
  return key;
}

CacheEntry entry_of(int i) {
  return {"meta " + std::to_string(i), fake_cubin(static_cast<char>('a' + i % 20)), "// ptx", "",
          "log"};
}

/// Writes a right checksum into a changed file, as a bug in the writer would.
std::string resealed(std::string file) {
  const std::size_t at = file.size() - 24;
  const Hash128 hash = hash128(std::string_view(file).substr(0, at));
  std::memcpy(file.data() + at, &hash.high, 8);
  std::memcpy(file.data() + at + 8, &hash.low, 8);
  return file;
}

class Cache : public ::testing::Test {
 protected:
  Cache()
      : folder_(std::filesystem::temp_directory_path() /
                ("tegula-cache-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {}
  ~Cache() override { std::filesystem::remove_all(folder_); }

  KernelCache open(Vfs& vfs = Vfs::posix(), bool read_only = false,
                   std::size_t max_bytes = 1 << 30) {
    return KernelCache({folder_, read_only, max_bytes,
                        [this](const std::string& line) { lines_.push_back(line); }, &vfs});
  }
  std::size_t files_in(const std::string& sub) const {
    std::error_code ignored;
    std::size_t n = 0;
    for (const auto& e :
         std::filesystem::recursive_directory_iterator(folder_ / "v1" / sub, ignored))
      n += e.is_regular_file();
    return n;
  }

  static inline int next_ = 0;
  std::filesystem::path folder_;
  std::vector<std::string> lines_;
};

TEST(CacheFormat, RoundTripPacksLargeSections) {
  const CacheEntry entry = entry_of(1);
  const std::string file = encode_entry(key_of(1), entry);
  EXPECT_LT(file.size(), 1000u);
  const ReadResult read = decode_entry(file, key_of(1));
  EXPECT_EQ(read.state, ReadStatus::ok) << read.why;
  EXPECT_EQ(read.entry, entry);
  EXPECT_EQ(entry_key(file), key_of(1).canonical());
  EXPECT_EQ(key_of(1).str(), "ir: kernel @k1\ntarget: sm_90a\n");
}

TEST(CacheFormat, FieldsCannotTradeCharacters) {
  CacheKey a, b;
  a.add("x", "ab");
  a.add("y", "c");
  b.add("x", "a");
  b.add("y", "bc");
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_EQ(decode_entry(encode_entry(a, {}), b).state, ReadStatus::other_key);
}

TEST(CacheFormat, EveryChangedBitIsSeen) {
  const std::string good = encode_entry(key_of(1), entry_of(1));
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      // Reserved bytes are covered by the checksum like all others.
      ASSERT_EQ(decode_entry(bad, key_of(1)).state, ReadStatus::damaged)
          << "byte " << i << " bit " << bit;
    }
}

TEST(CacheFormat, EveryTruncationAndExtensionIsSeen) {
  const std::string good = encode_entry(key_of(1), entry_of(1));
  for (std::size_t n = 0; n < good.size(); ++n)
    ASSERT_EQ(decode_entry(std::string_view(good).substr(0, n), key_of(1)).state,
              ReadStatus::damaged)
        << n;
  for (std::size_t n = 0; n < good.size();
       ++n) {  // zero-filled from here on, as after a power loss
    std::string torn = good;
    std::fill(torn.begin() + static_cast<std::ptrdiff_t>(n), torn.end(), 0);
    ASSERT_EQ(decode_entry(torn, key_of(1)).state, ReadStatus::damaged) << n;
  }
  EXPECT_EQ(decode_entry(good + "x", key_of(1)).why, "truncated or extended");
}

TEST(CacheFormat, LyingTablesAreRefusedBeforeTheyCost) {
  const std::string good = encode_entry(key_of(1), entry_of(1));
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &value, bytes);
    return decode_entry(resealed(bad), key_of(1)).why;
  };
  constexpr std::size_t kRow = 24 + 2 * 32;  // the cubin's row
  EXPECT_EQ(with(8, 33, 4), "too many sections");
  EXPECT_EQ(with(8, 32, 4), "section table beyond the end");
  EXPECT_EQ(with(8, 0, 4), "no key");
  EXPECT_EQ(with(kRow + 8, ~0ull, 8), "section beyond the end");
  EXPECT_EQ(with(kRow + 16, ~0ull - 4, 8), "section beyond the end");
  EXPECT_EQ(with(kRow + 24, 1ull << 60, 8), "sections too large");
  EXPECT_EQ(with(kRow + 24, 3001, 8), "section cannot be unpacked");
  EXPECT_EQ(with(kRow + 4, 0, 4), "section sizes differ");
  EXPECT_EQ(with(kRow, static_cast<std::uint64_t>(Section::meta), 4), "a section appears twice");
  EXPECT_EQ(with(0, 0, 1), "not a cache entry of this version");
  CacheEntry no_cubin = entry_of(1);
  no_cubin.cubin = "not ELF";
  EXPECT_EQ(decode_entry(encode_entry(key_of(1), no_cubin), key_of(1)).why,
            "its machine code is not a cubin");
}

TEST(CacheFormat, RandomMutationsNeverCrash) {
  const std::string good = encode_entry(key_of(1), entry_of(1));
  std::uint64_t x = 88172645463325252u;
  const auto random = [&x] {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
  };
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 4; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    // Half of them with a right checksum: only the bounds of the parser are left.
    const ReadResult r = decode_entry(round % 2 == 0 ? resealed(bad) : bad, key_of(1));
    ASSERT_TRUE(round % 2 == 0 || bad == good || r.state != ReadStatus::ok);
  }
}

TEST_F(Cache, StoresAndFinds) {
  KernelCache cache = open();
  EXPECT_FALSE(cache.find(key_of(1)));
  cache.store(key_of(1), entry_of(1));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
  EXPECT_FALSE(cache.find(key_of(2)));
  EXPECT_EQ(open().find(key_of(1)), entry_of(1));
  EXPECT_EQ(cache.counts().hits, 1);
  EXPECT_EQ(cache.counts().misses, 2);
  struct stat s{};
  ASSERT_EQ(::stat(cache.path_of(key_of(1)).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(folder_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "CACHEDIR.TAG"));
  EXPECT_EQ(files_in("tmp"), 0u);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Cache, FirstEntryOfAKeyStays) {
  KernelCache cache = open();
  cache.store(key_of(1), entry_of(1));
  cache.store(key_of(1), entry_of(2));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
}

TEST_F(Cache, DamagedEntryIsMovedAwayAndReplaced) {
  KernelCache cache = open();
  for (int round = 0; round < 20; ++round) {
    cache.store(key_of(1), entry_of(1));
    std::string bytes = read_file(cache.path_of(key_of(1)));
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] + 1);
    std::ofstream(cache.path_of(key_of(1))) << bytes;
    EXPECT_FALSE(cache.find(key_of(1)));
  }
  EXPECT_EQ(files_in("quarantine"), 16u);
  EXPECT_EQ(cache.counts().damaged, 20);
  EXPECT_THAT(lines_[0], HasSubstr("is damaged (checksum differs): compiled again"));
  cache.store(key_of(1), entry_of(1));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
}

TEST_F(Cache, OtherKeyUnderTheSameNameIsAMiss) {
  KernelCache cache = open();
  cache.store(key_of(1), entry_of(1));
  cache.store(key_of(2), entry_of(2));
  std::filesystem::copy_file(cache.path_of(key_of(1)), cache.path_of(key_of(2)),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.find(key_of(2)));
  EXPECT_EQ(cache.counts().damaged, 0);
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
}

TEST_F(Cache, PlantedThingsAreNotFollowed) {
  KernelCache cache = open();
  const CacheKey key = key_of(1);
  const std::filesystem::path path = cache.path_of(key);
  const std::filesystem::path aside = folder_ / "aside";
  cache.store(key, entry_of(1));
  std::filesystem::rename(path, aside);

  std::filesystem::create_symlink(aside, path);
  EXPECT_FALSE(cache.find(key));
  EXPECT_THAT(lines_, Contains(HasSubstr("is a symbolic link: ignored")));
  std::filesystem::remove(path);

  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(cache.find(key));
  std::filesystem::remove(path);

  std::filesystem::create_directory(path);
  EXPECT_FALSE(cache.find(key));
  std::filesystem::remove(path);

  std::filesystem::copy_file(aside, path);
  ::chmod(path.c_str(), 0666);
  EXPECT_FALSE(cache.find(key));
  EXPECT_EQ(cache.counts().refused, 4);
  EXPECT_EQ(cache.counts().damaged, 0);
  ::chmod(path.c_str(), 0600);
  EXPECT_TRUE(cache.find(key));
}

TEST_F(Cache, FoldersOfOthersAreNotUsed) {
  open().store(key_of(1), entry_of(1));
  OtherUser vfs;
  KernelCache foreign = open(vfs);
  EXPECT_FALSE(foreign.find(key_of(1)));
  EXPECT_FALSE(foreign.writes());
  EXPECT_THAT(lines_, Contains(HasSubstr("the cache is off")));
  ::chmod(folder_.c_str(), 0777);
  EXPECT_FALSE(open().find(key_of(1)));
  ::chmod(folder_.c_str(), 0700);
  EXPECT_TRUE(open().find(key_of(1)));
}

TEST_F(Cache, ReadOnlyReadsAndWritesNothing) {
  open().store(key_of(1), entry_of(1));
  KernelCache cache = open(Vfs::posix(), true);
  EXPECT_TRUE(cache.find(key_of(1)));
  cache.store(key_of(2), entry_of(2));
  EXPECT_EQ(files_in("k"), 1u);
  KernelCache none({{}, false, 0, {}, &Vfs::posix()});
  none.store(key_of(1), entry_of(1));
  EXPECT_FALSE(none.find(key_of(1)));
}

TEST_F(Cache, ShortReadsAndWritesAreCompleted) {
  Faulty vfs;
  vfs.chunk = 7;
  KernelCache cache = open(vfs);
  cache.store(key_of(1), entry_of(1));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
}

TEST_F(Cache, InterruptedCallsAreRepeated) {
  Faulty vfs;
  KernelCache cache = open(vfs);
  cache.store(key_of(1), entry_of(1));
  for (int n = 1; n <= 4; ++n) {
    vfs.countdown = n;
    vfs.code = EINTR;
    const bool reads_again = n >= 3;  // 1 open, 2 stat, 3 read
    EXPECT_EQ(cache.find(key_of(1)).has_value(), reads_again) << n;
    vfs.countdown = 0;
  }
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
  EXPECT_EQ(cache.counts().damaged, 0);
}

TEST_F(Cache, FileSystemsWithoutUnnamedFilesWork) {
  Faulty vfs;
  vfs.no_unnamed_files = true;
  KernelCache cache = open(vfs);
  cache.store(key_of(1), entry_of(1));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
  EXPECT_EQ(files_in("tmp"), 0u);
}

TEST_F(Cache, FileSystemsWithoutHardLinksWork) {
  Faulty vfs;
  vfs.no_unnamed_files = vfs.no_links = true;
  KernelCache cache = open(vfs);
  cache.store(key_of(1), entry_of(1));
  cache.store(key_of(1), entry_of(2));
  EXPECT_EQ(cache.find(key_of(1)), entry_of(1));
  EXPECT_TRUE(cache.writes());
  EXPECT_EQ(files_in("tmp"), 0u);
}

TEST_F(Cache, EveryFailingCallLeavesAUsableCache) {
  for (int code : {ENOSPC, EIO, EDQUOT, EMFILE, EROFS, EACCES})
    for (bool unnamed : {true, false})
      for (int n = 1; n < 40; ++n) {
        std::filesystem::remove_all(folder_);
        lines_.clear();
        Faulty vfs;
        vfs.code = code;
        vfs.countdown = n;
        vfs.no_unnamed_files = !unnamed;
        KernelCache cache = open(vfs);
        cache.store(key_of(1), entry_of(1));
        (void)cache.find(key_of(1));
        cache.store(key_of(1), entry_of(1));
        EXPECT_LE(lines_.size(), 2u);  // one for writing, one for reading
        EXPECT_EQ(cache.counts().damaged, 0) << std::strerror(code) << " at call " << n;
        vfs.countdown = 0;
        KernelCache after = open();
        const auto found = after.find(key_of(1));
        EXPECT_TRUE(!found || *found == entry_of(1));
        EXPECT_EQ(after.counts().damaged, 0) << std::strerror(code) << " at call " << n;
      }
}

/// A file system of a network: the first looks at a new file find none, or a handle that is stale.
class DelayedVfs : public Vfs {
 public:
  int open(const std::string& path, int flags, mode_t mode) override {
    if (const auto at = unseen_.find(path); at != unseen_.end() && at->second-- > 0) {
      errno = at->second % 2 == 0 ? ENOENT : ESTALE;
      return -1;
    }
    return Vfs::open(path, flags, mode);
  }
  int link_open_file(int file, const std::string& path) override {
    const int result = Vfs::link_open_file(file, path);
    if (result == 0) unseen_[path] = kLooks;
    return result;
  }
  static constexpr int kLooks = 4;

 private:
  std::map<std::string, int> unseen_;
};

TEST_F(Cache, FilesThatAreSeenLateAreMisses) {
  DelayedVfs vfs;
  KernelCache cache = open(vfs);
  cache.store(key_of(1), entry_of(1));
  for (int i = 0; i < DelayedVfs::kLooks; ++i) {
    EXPECT_FALSE(cache.find(key_of(1))) << i;
    cache.store(key_of(1), entry_of(1));  // what a miss leads to
  }
  const auto found = cache.find(key_of(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cubin, entry_of(1).cubin);
  EXPECT_EQ(cache.counts().damaged, 0);
  EXPECT_EQ(files_in("quarantine"), 0u);
}

TEST_F(Cache, ProcessKilledAtAnyCallLeavesOldOrNew) {
  for (bool unnamed : {true, false})
    for (int n = 1; n < 40; ++n) {
      std::filesystem::remove_all(folder_);
      Faulty vfs;
      vfs.countdown = n;
      vfs.no_unnamed_files = !unnamed;
      vfs.chunk = 200;
      try {
        open(vfs).store(key_of(1), entry_of(1));
      } catch (const Faulty::Killed&) {
      }
      KernelCache after = open();
      const auto found = after.find(key_of(1));
      EXPECT_TRUE(!found || *found == entry_of(1));
      EXPECT_EQ(after.counts().damaged, 0) << "call " << n;
      after.store(key_of(1), entry_of(1));
      EXPECT_EQ(after.find(key_of(1)), entry_of(1)) << "call " << n;
    }
}

TEST_F(Cache, ManyProcessesShareTheFolder) {
  constexpr int kProcesses = 8, kKeys = 60;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    KernelCache cache({folder_, false, 1 << 30, {}, &Vfs::posix()});
    bool fine = true;
    for (int i = 0; i < kKeys; ++i) {
      const int k = (i * 7 + p * 13) % kKeys;
      if (const auto found = cache.find(key_of(k))) fine &= *found == entry_of(k);
      cache.store(key_of(k), entry_of(k));
      const auto again = cache.find(key_of(k));
      fine &= again == entry_of(k);
    }
    ::_exit(fine && cache.counts().damaged == 0 && cache.writes() ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files_in("k"), static_cast<std::size_t>(kKeys));
  EXPECT_EQ(files_in("tmp"), 0u);
}

TEST_F(Cache, ManyThreadsShareOneCache) {
  KernelCache cache = open();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 30; ++i) {
          cache.store(key_of(i), entry_of(i));
          wrong += cache.find(key_of(i)) != entry_of(i);
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.counts().hits, 180);
  EXPECT_EQ(files_in("k"), 30u);
}

TEST_F(Cache, BuildLockExcludesOtherProcessesAndDiesWithThem) {
  KernelCache cache = open();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    KernelCache mine({folder_, false, 1 << 30, {}, &Vfs::posix()});
    const auto lock = mine.lock_for_build(key_of(1), std::chrono::seconds(5));
    char c = lock ? 'y' : 'n';
    (void)!::write(ready[1], &c, 1);
    ::pause();
    ::_exit(0);
  }
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  EXPECT_EQ(c, 'y');
  EXPECT_EQ(cache.lock_for_build(key_of(1), std::chrono::milliseconds(50)), nullptr);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  const auto mine = cache.lock_for_build(key_of(1), std::chrono::seconds(5));
  EXPECT_NE(mine, nullptr);
  EXPECT_EQ(cache.lock_for_build(key_of(1), std::chrono::milliseconds(20)),
            nullptr);  // threads exclude each other too
}

TEST_F(Cache, SweepRemovesTheLongestUnusedOnly) {
  KernelCache cache = open();
  for (int i = 0; i < 20; ++i) {
    cache.store(key_of(i), {"", "", std::string(), std::string(), std::string()});
    const timespec when{::time(nullptr) - (i < 18 ? 3600 + i : 0), 0};
    const timespec times[2] = {when, when};
    ::utimensat(AT_FDCWD, cache.path_of(key_of(i)).c_str(), times, 0);
  }
  KernelCache small = open(Vfs::posix(), false, 10 * 4096);
  const int removed = small.sweep();
  EXPECT_GT(removed, 0);
  EXPECT_TRUE(small.find(key_of(0)).has_value() || removed == 18);
  EXPECT_FALSE(small.find(key_of(17)));  // the oldest
  EXPECT_TRUE(small.find(key_of(19)));   // younger than ten minutes
  KernelCache none = open(Vfs::posix(), false, 0);
  none.sweep();
  EXPECT_EQ(files_in("k"), 2u);
}

}  // namespace
}  // namespace tegula::runtime::cache_test
