#include "runtime/tool_hash.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "support/errors.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

struct OpenFile {
  int descriptor;
  explicit OpenFile(const std::filesystem::path& file)
      : descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

[[noreturn]] void throw_unreadable(const std::filesystem::path& file) {
  throw DeviceError(diagnostic(ErrorId::file_access, {}, {}, "read", file.string(),
                               std::strerror(errno), "check the path and its permissions"),
                    errno, {});
}

/// Returns the identity of a file. It includes ctime, which programs do not set back: a file
/// replaced with its old mtime still differs.
Hash128 identity(const struct stat& s) {
  Hasher h;
  h.add(s.st_dev).add(s.st_ino).add(s.st_size);
  h.add(s.st_mtim.tv_sec).add(s.st_mtim.tv_nsec).add(s.st_ctim.tv_sec).add(s.st_ctim.tv_nsec);
  return h.digest();
}

Hash128 content_hash(const std::filesystem::path& file, int descriptor, std::size_t bytes) {
  if (bytes == 0) return hash128({});
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
  if (mapped == MAP_FAILED) throw_unreadable(file);
  const Hash128 hash = hash128({static_cast<const char*>(mapped), bytes});
  ::munmap(mapped, bytes);
  return hash;
}

std::optional<Hash128> read_memo(const std::filesystem::path& memo) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(memo, ignored)) return std::nullopt;
  try {
    const std::string text = read_file(memo);
    Hash128 hash;
    if (text.size() != 33 || std::sscanf(text.c_str(), "%16lx%16lx", &hash.high, &hash.low) != 2)
      return std::nullopt;
    return hash;
  } catch (const DeviceError&) {
    return std::nullopt;  // only a shortcut
  }
}

void write_memo(const std::filesystem::path& memo, const Hash128& hash) {
  try {
    write_file(memo, hash.hex() + "\n");
  } catch (const DeviceError&) {
  }
}

}  // namespace

Hash128 tool_hash(const std::filesystem::path& file, const std::filesystem::path& memo_folder) {
  const OpenFile open(file);
  struct stat s{};
  if (open.descriptor < 0 || ::fstat(open.descriptor, &s) != 0) throw_unreadable(file);
  const Hash128 id = identity(s);

  static std::mutex mutex;
  static std::map<Hash128, Hash128> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(id); found != known.end()) return found->second;
  const std::filesystem::path memo =
      memo_folder.empty() ? memo_folder : memo_folder / (id.hex() + ".tool");
  std::optional<Hash128> hash = memo.empty() ? std::nullopt : read_memo(memo);
  if (!hash) {
    hash = content_hash(file, open.descriptor, static_cast<std::size_t>(s.st_size));
    if (!memo.empty()) write_memo(memo, *hash);
  }
  known.emplace(id, *hash);
  return *hash;
}

}  // namespace tegula::runtime
