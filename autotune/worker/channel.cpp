#include "autotune/worker/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "support/hash.h"

namespace tegula::autotune {
namespace {

constexpr std::uint32_t kMagic = 0x4b574754;  // TGWK
constexpr std::uint32_t kVersion = 2;         // incremented when a message changes its meaning
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxBlobBytes = std::uint64_t{256} << 30;

struct Header {
  std::uint32_t magic = kMagic, version = kVersion;
  std::uint64_t text_bytes = 0, blob_bytes = 0;
  std::uint64_t content = 0;  ///< checksum of text and blob
  std::uint64_t header = 0;   ///< checksum of the preceding fields
};

std::uint64_t checksum_of(const Header& h) {
  return Hasher()
      .add(h.magic)
      .add(h.version)
      .add(h.text_bytes)
      .add(h.blob_bytes)
      .add(h.content)
      .digest()
      .low;
}

std::uint64_t checksum_of(const std::string& text, const std::string& blob) {
  return Hasher().add(text).add(blob).digest().low;
}

void wait(int descriptor, short events, Deadline deadline) {
  for (;;) {
    int limit = -1;
    if (deadline != kNoDeadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) throw WorkerLost{"no answer within its time limit", true};
      limit = static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30));
    }
    pollfd ready{descriptor, events, 0};
    const int n = ::poll(&ready, 1, limit);
    if (n > 0) return;
    if (n < 0 && errno != EINTR) throw WorkerLost{fmt::format("poll: {}", std::strerror(errno))};
  }
}

}  // namespace

Channel::~Channel() { ::close(descriptor_); }

void Channel::send_bytes(const char* data, std::size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    const ssize_t n = ::send(descriptor_, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      data += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait(descriptor_, POLLOUT, deadline);
    } else if (n < 0 && errno != EINTR) {
      throw WorkerLost{fmt::format("send: {}", std::strerror(errno))};
    }
  }
}

void Channel::receive_bytes(char* data, std::size_t bytes, Deadline deadline, bool may_end) {
  const std::size_t all = bytes;
  while (bytes > 0) {
    wait(descriptor_, POLLIN, deadline);
    const ssize_t n = ::recv(descriptor_, data, bytes, MSG_DONTWAIT);
    if (n > 0) {
      data += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      throw WorkerLost{may_end && bytes == all ? "the end of the connection"
                                               : "a truncated message"};
    } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      throw WorkerLost{fmt::format("recv: {}", std::strerror(errno))};
    }
  }
}

void Channel::send(const WorkerMessage& message, Deadline deadline) {
  const std::string text = message.fields.dump();
  Header header;
  header.text_bytes = text.size();
  header.blob_bytes = message.blob.size();
  header.content = checksum_of(text, message.blob);
  header.header = checksum_of(header);
  send_bytes(reinterpret_cast<const char*>(&header), sizeof header, deadline);
  send_bytes(text.data(), text.size(), deadline);
  send_bytes(message.blob.data(), message.blob.size(), deadline);
}

WorkerMessage Channel::receive(Deadline deadline) {
  Header header;
  receive_bytes(reinterpret_cast<char*>(&header), sizeof header, deadline, true);
  if (header.magic != kMagic || header.version != kVersion ||
      header.header != checksum_of(header) || header.text_bytes > kMaxTextBytes ||
      header.blob_bytes > kMaxBlobBytes)
    throw WorkerLost{"a message of another protocol"};
  std::string text(header.text_bytes, '\0');
  WorkerMessage message;
  message.blob.resize(header.blob_bytes);
  receive_bytes(text.data(), text.size(), deadline, false);
  receive_bytes(message.blob.data(), message.blob.size(), deadline, false);
  if (header.content != checksum_of(text, message.blob)) throw WorkerLost{"a damaged message"};
  message.fields = nlohmann::json::parse(text, nullptr, false);
  if (message.fields.is_discarded()) throw WorkerLost{"a message that is not JSON"};
  return message;
}

}  // namespace tegula::autotune
