// Limits the size of the kernel cache.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "runtime/cache.h"

namespace tegula::runtime {
namespace {

constexpr std::time_t kYoung = 10 * 60;  // a running process may still use a younger entry
constexpr std::time_t kStale =
    60 * 60;  // age from which temporary files are abandoned, and time between sweeps
constexpr std::time_t kOld = 30 * 24 * 60 * 60;  // maximum age of a tool's cached hash
constexpr std::size_t kBlock = 512;              // unit of st_blocks

std::vector<CacheFile> files_below(Vfs& vfs, const std::string& folder) {
  std::vector<CacheFile> files;
  std::error_code stop;
  for (std::filesystem::recursive_directory_iterator at(folder, stop), end; !stop && at != end;
       at.increment(stop)) {
    struct stat s{};
    const std::string path = at->path().string();
    if (vfs.stat_path(path, &s) == 0 && S_ISREG(s.st_mode))
      files.push_back({path, s.st_mtim.tv_sec, static_cast<std::size_t>(s.st_blocks) * kBlock});
  }
  return files;
}

}  // namespace

std::vector<CacheFile> KernelCache::files() const {
  std::vector<CacheFile> entries = files_below(vfs_, sub("k"));
  std::ranges::sort(entries, {}, &CacheFile::used);
  return entries;
}

int KernelCache::sweep() {
  if (read_only_ || !usable_) return 0;
  const std::time_t now = std::time(nullptr);
  for (const CacheFile& temporary : files_below(vfs_, sub("tmp")))
    if (now - temporary.used > kStale) vfs_.unlink(temporary.path.string());
  for (const CacheFile& memo : files_below(vfs_, sub("tools")))
    if (now - memo.used > kOld) vfs_.unlink(memo.path.string());
  const std::vector<CacheFile> entries = files();
  std::size_t total = 0;
  for (const CacheFile& e : entries) total += e.bytes;
  if (total <= options_.max_bytes) return 0;
  const std::size_t target = options_.max_bytes / 5 * 4;
  int removed = 0;
  for (const CacheFile& e : entries) {
    if (total <= target || now - e.used < kYoung) break;
    if (vfs_.unlink(e.path.string()) == 0) ++removed;
    total -= e.bytes;
  }
  log(fmt::format("removed {} entries to keep the cache within {} bytes", removed,
                  options_.max_bytes));
  return removed;
}

void KernelCache::sweep_if_due() {
  struct stat s{};
  const std::string stamp = sub("sweep.stamp");
  const bool is_due =
      vfs_.stat_path(stamp, &s) != 0 || std::time(nullptr) - s.st_mtim.tv_sec > kStale;
  if (!is_due) return;
  const int file = vfs_.open(stamp, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  vfs_.touch(file);
  vfs_.close(file);
  sweep();
}

}  // namespace tegula::runtime
