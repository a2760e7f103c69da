// Helpers for texts and text files.
#include "support/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "support/errors.h"

namespace tegula {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error) {
  throw DeviceError(diagnostic(ErrorId::file_access, {}, {}, what, path.string(),
                               std::strerror(error), "check the path and its permissions"),
                    error, strerrorname_np(error));
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  /// Closes the file and returns whether that succeeded; some file systems report a failed write
  /// here.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

/// Returns 0, or the errno of the first failure.
int write_all(const std::filesystem::path& path, std::string_view content) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) return errno;
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return file.close() ? 0 : errno;
}

/// Returns a file name next to `path` that no other thread or process writes at the same time.
std::filesystem::path sibling(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter = 0;
  std::filesystem::path result = path;
  result += fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1));
  return result;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string read_file(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno);
  std::string content;
  char block[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) fail("read", path, errno);
    if (got > 0) content.append(block, static_cast<std::size_t>(got));
  }
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) fail("write", path, error.value());

  const std::filesystem::path temporary = sibling(path);
  int failure = write_all(temporary, content);
  if (failure == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure != 0) {
    std::filesystem::remove(temporary, error);
    fail("write", path, failure);
  }
}

}  // namespace tegula
