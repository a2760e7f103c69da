#pragma once
// Compiled kernels on disk: one checksummed file per key, published atomically. Nothing here throws
// because of the state of the disk: an entry that cannot be read is a miss, and one that cannot be
// written is not stored.
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache_format.h"
#include "runtime/vfs.h"

namespace tegula::runtime {

/// Returns TEGULA_CACHE_DIR, else $XDG_CACHE_HOME/tegula, else ~/.cache/tegula; "" if none of them
/// is set.
std::filesystem::path default_cache_folder();

struct CacheOptions {
  static constexpr std::size_t kMaxBytes = std::size_t{2} << 30;
  std::filesystem::path folder;  ///< empty: no disk cache
  bool read_only = false;
  std::size_t max_bytes = kMaxBytes;
  std::function<void(const std::string&)> log;  ///< receives one line for each unusual event
  Vfs* vfs = &Vfs::posix();
};

struct CacheCounts {
  int hits = 0, misses = 0, stored = 0;
  int damaged = 0;  ///< entries moved to quarantine/
  int refused = 0;  ///< links, files of other owners, files writable by others
};

/// Held by the one process that builds a key; released by the destructor, or by the operating
/// system if the process dies.
class BuildLock {
 public:
  BuildLock(Vfs& vfs, int file) : vfs_(vfs), file_(file) {}
  ~BuildLock();
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

 private:
  Vfs& vfs_;
  int file_;
};

/// A file of the cache that contains an entry.
struct CacheFile {
  std::filesystem::path path;
  std::time_t used;   ///< last use, to a day
  std::size_t bytes;  ///< on the disk
};

class KernelCache {
 public:
  explicit KernelCache(CacheOptions options);

  /// Returns the files of all entries, least recently used first.
  std::vector<CacheFile> files() const;
  /// Returns the bytes of a file of the cache; nothing if it cannot be read or is not private to
  /// this user.
  std::optional<std::string> read_trusted(const std::string& path);

  /// Returns the entry of a key. A damaged file is moved away, so that a good one can replace it.
  std::optional<CacheEntry> find(const CacheKey& key);

  /// Publishes an entry unless the key has one. Callers keep using the bytes that they have: a
  /// failed store, or another process that was faster, is not reported. The first failure to write
  /// turns writing off.
  void store(const CacheKey& key, const CacheEntry& entry);

  /// Moves an entry away whose checksum is right but whose content is useless, so that a good one
  /// can replace it.
  void discard(const CacheKey& key);

  /// Waits until no other process builds a key of the same shard, for `patience` at most; returns
  /// null after that, or if locks do not work here. This is an optimisation only: without it, a
  /// kernel may be built twice.
  std::unique_ptr<BuildLock> lock_for_build(const CacheKey& key,
                                            std::chrono::milliseconds patience);

  /// If there are more than `max_bytes`, removes the least recently used entries until 0.8 *
  /// `max_bytes` are left, but none younger than ten minutes. Returns the number of entries
  /// removed.
  int sweep();

  /// Returns the path of the entry of this key, whether or not it exists.
  std::filesystem::path path_of(const CacheKey& key) const;
  /// Returns the folder in which hashes of tools are cached; "" if nothing is written.
  std::filesystem::path memo_folder();
  bool writes() const { return !read_only_; }
  CacheCounts counts() const;

 private:
  bool folder_is_ours(const std::string& path);
  bool make_folders(const std::string& shard);
  void tag_folder();
  bool publish(const std::string& path, const std::string& bytes);
  bool publish_by_name(const std::string& path, const std::string& bytes);
  bool write_all(int file, const std::string& bytes);
  void quarantine(const std::string& path, const std::string& why);
  void move_away(const std::string& path);
  void stop_writing(const std::string& what);
  void sweep_if_due();
  void log(const std::string& line);
  std::string sub(std::string_view name) const;

  CacheOptions options_;
  Vfs& vfs_;
  std::string root_;  // <folder>/v1
  std::atomic<bool> usable_{false};
  std::atomic<bool> read_only_{false};
  mutable std::mutex mutex_;
  CacheCounts counts_;
};

}  // namespace tegula::runtime
