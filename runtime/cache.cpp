#include "runtime/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "support/env.h"

namespace tegula::runtime {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

class File {
 public:
  File(Vfs& vfs, int descriptor) : vfs_(vfs), descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) vfs_.close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  Vfs& vfs_;
  int descriptor_;
};

std::string error_text() { return std::strerror(errno); }

std::string unique_suffix() {
  static std::atomic<unsigned> counter{0};
  static const std::uint64_t salt = std::random_device{}() * 0x9e3779b97f4a7c15u;
  return fmt::format("{}-{:x}-{}", ::getpid(), salt, counter++);
}

void bump(std::mutex& mutex, int& count) {
  const std::lock_guard lock(mutex);
  ++count;
}

}  // namespace

std::filesystem::path default_cache_folder() {
  if (!env().cache_dir.empty()) return env().cache_dir;
  if (env().xdg_cache_home.is_absolute()) return env().xdg_cache_home / "tegula";
  if (env().home.is_absolute()) return env().home / ".cache" / "tegula";
  return {};
}

BuildLock::~BuildLock() { vfs_.close(file_); }

KernelCache::KernelCache(CacheOptions options)
    : options_(std::move(options)), vfs_(*options_.vfs), root_(options_.folder.string() + "/v1") {
  read_only_ = options_.read_only;
  if (options_.folder.empty()) {
    read_only_ = true;
    return;
  }
  struct stat s{};
  const std::string folder = options_.folder.string();
  if (vfs_.stat_path(folder, &s) == 0)
    usable_ = folder_is_ours(folder) && (vfs_.stat_path(root_, &s) != 0 || folder_is_ours(root_));
  else
    usable_ = errno == ENOENT && !read_only_;
  if (!usable_) read_only_ = true;
}

CacheCounts KernelCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void KernelCache::log(const std::string& line) {
  if (options_.log) options_.log(line);
}

std::string KernelCache::sub(std::string_view name) const {
  return root_ + "/" + std::string(name);
}

std::filesystem::path KernelCache::path_of(const CacheKey& key) const {
  const std::string hex = key.hash().hex();
  return fmt::format("{}/k/{}/{}.tgk", root_, hex.substr(0, 2), hex.substr(2));
}

std::filesystem::path KernelCache::memo_folder() {
  if (read_only_ || !usable_ || !make_folders(sub("tools"))) return {};
  return sub("tools");
}

bool KernelCache::folder_is_ours(const std::string& path) {
  struct stat s{};
  if (vfs_.stat_path(path, &s) != 0) return false;
  const bool ours = S_ISDIR(s.st_mode) && is_private(vfs_, s);
  if (!ours)
    log(fmt::format("the cache is off: {} must be a folder of this user that others cannot write",
                    path));
  return ours;
}

std::optional<std::string> KernelCache::read_trusted(const std::string& path) {
  // O_NONBLOCK: a planted FIFO must not make us wait for a writer.
  const File file(vfs_, vfs_.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
  if (!file) {
    if (errno == ELOOP) {
      bump(mutex_, counts_.refused);
      log(fmt::format("{} is a symbolic link: ignored", path));
    } else if (errno != ENOENT && errno != ENOTDIR) {
      log(fmt::format("{} cannot be opened: {}", path, error_text()));
    }
    return std::nullopt;
  }
  struct stat s{};
  if (vfs_.stat_file(file.get(), &s) != 0) return std::nullopt;
  if (!S_ISREG(s.st_mode) || !is_private(vfs_, s)) {
    bump(mutex_, counts_.refused);
    log(fmt::format("{} is not a file of this user that others cannot write: ignored", path));
    return std::nullopt;
  }
  // One byte more than allowed is enough to detect that the file is too long.
  std::string bytes(std::min<std::size_t>(static_cast<std::size_t>(s.st_size), kMaxEntryBytes + 1),
                    0);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = vfs_.read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      log(fmt::format("{} cannot be read: {}", path, error_text()));
      return std::nullopt;
    }
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  constexpr auto kDay = 24 * 60 * 60;
  if (!read_only_ && std::time(nullptr) - s.st_mtim.tv_sec > kDay)
    vfs_.touch(file.get());  // the sweep removes the entries used least recently
  return bytes;
}

std::optional<CacheEntry> KernelCache::find(const CacheKey& key) {
  if (!usable_) {
    bump(mutex_, counts_.misses);
    return std::nullopt;
  }
  const std::string path = path_of(key).string();
  if (const std::optional<std::string> bytes = read_trusted(path)) {
    ReadResult read = decode_entry(*bytes, key);
    if (read.state == ReadStatus::ok) {
      bump(mutex_, counts_.hits);
      return std::move(read.entry);
    }
    if (read.state == ReadStatus::damaged)
      quarantine(path, read.why);
    else
      log(fmt::format("{} {}: ignored", path, read.why));
  }
  bump(mutex_, counts_.misses);
  return std::nullopt;
}

void KernelCache::quarantine(const std::string& path, const std::string& why) {
  log(fmt::format("{} is damaged ({}): compiled again", path, why));
  move_away(path);
}

void KernelCache::discard(const CacheKey& key) { move_away(path_of(key).string()); }

void KernelCache::move_away(const std::string& path) {
  bump(mutex_, counts_.damaged);
  if (read_only_) return;
  constexpr std::size_t kKept = 16;
  vfs_.make_folder(sub("quarantine"), kFolderMode);
  const std::string name = std::filesystem::path(path).filename().string();
  if (vfs_.rename(path, sub("quarantine/" + name + "." + unique_suffix())) != 0) {
    vfs_.unlink(path);
    return;
  }
  std::error_code ignored;
  std::vector<std::filesystem::directory_entry> all;
  for (const auto& entry : std::filesystem::directory_iterator(sub("quarantine"), ignored))
    all.push_back(entry);
  while (all.size() > kKept) {
    const auto oldest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return a.last_write_time(ignored) < b.last_write_time(ignored);
    });
    vfs_.unlink(oldest->path().string());
    all.erase(oldest);
  }
}

void KernelCache::stop_writing(const std::string& what) {
  const std::string reason = error_text();
  if (read_only_.exchange(true)) return;
  log(fmt::format("{}: {}; compiled kernels are no longer kept on disk", what, reason));
}

bool KernelCache::make_folders(const std::string& shard) {
  const std::string full = options_.folder.string();
  make_parents(vfs_, full);
  for (const std::string& folder : {full, root_, sub("k"), shard}) {
    const bool is_new = vfs_.make_folder(folder, kFolderMode) == 0;
    if (!is_new && errno != EEXIST) {
      stop_writing("cannot make the folder " + folder);
      return false;
    }
    if (is_new && folder == full) tag_folder();
  }
  return true;
}

/// Marks the folder so that backup programs skip it (bford.info/cachedir).
void KernelCache::tag_folder() {
  const File tag(vfs_, vfs_.open(options_.folder.string() + "/CACHEDIR.TAG",
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  if (tag) write_all(tag.get(), "Signature: 8a477f597d28d172789f06886806bc55\n");
}

bool KernelCache::write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = vfs_.write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool KernelCache::publish_by_name(const std::string& path, const std::string& bytes) {
  vfs_.make_folder(sub("tmp"), kFolderMode);
  const std::string temporary = sub("tmp/" + unique_suffix());
  {
    const File file(vfs_, vfs_.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (!file) return false;
    if (!write_all(file.get(), bytes)) {
      const int cause = errno;
      vfs_.unlink(temporary);
      errno = cause;
      return false;
    }
  }
  bool done = vfs_.link(temporary, path) == 0 || errno == EEXIST;
  if (!done)
    done = vfs_.rename_new(temporary, path) == 0 ||
           errno == EEXIST;  // fallback for file systems without hard links
  const int cause = errno;
  vfs_.unlink(temporary);
  errno = cause;
  return done;
}

bool KernelCache::publish(const std::string& path, const std::string& bytes) {
  const std::string shard = std::filesystem::path(path).parent_path().string();
  const File file(vfs_, vfs_.open(shard, O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode));
  if (!file) {
    const bool lacks_unnamed_files = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    return lacks_unnamed_files && publish_by_name(path, bytes);
  }
  if (!write_all(file.get(), bytes)) return false;
  if (vfs_.link_open_file(file.get(), path) == 0 || errno == EEXIST) return true;
  return publish_by_name(path, bytes);  // e.g. without /proc
}

void KernelCache::store(const CacheKey& key, const CacheEntry& entry) {
  if (read_only_ || !usable_) return;
  const std::string bytes = encode_entry(key, entry);
  if (bytes.size() > kMaxEntryBytes) {
    log(fmt::format("an entry of {} bytes is too large to keep", bytes.size()));
    return;
  }
  const std::string path = path_of(key).string();
  if (!make_folders(std::filesystem::path(path).parent_path().string())) return;
  if (!publish(path, bytes)) {
    stop_writing("cannot write " + path);
    return;
  }
  bump(mutex_, counts_.stored);
  sweep_if_due();
}

std::unique_ptr<BuildLock> KernelCache::lock_for_build(const CacheKey& key,
                                                       std::chrono::milliseconds patience) {
  if (read_only_ || !usable_) return nullptr;
  if (!make_folders(sub("lock"))) return nullptr;
  const std::string path = sub("lock/" + key.hash().hex().substr(0, 2));
  const int file = vfs_.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (file < 0) return nullptr;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto pause = std::chrono::microseconds(200);;
       pause = std::min(pause * 2, std::chrono::microseconds(20000))) {
    struct flock whole{};
    whole.l_type = F_WRLCK;
    if (::fcntl(file, F_OFD_SETLK, &whole) == 0) return std::make_unique<BuildLock>(vfs_, file);
    const bool is_held = errno == EAGAIN || errno == EACCES;
    if (!is_held || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  vfs_.close(file);
  return nullptr;
}

}  // namespace tegula::runtime
