#include "autotune/store/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tegula::autotune {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::optional<std::int64_t> start_of_process(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name in parentheses may contain anything; field 22 is the 20th after it (proc(5)).
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  std::int64_t started = 0;
  if (!(fields >> started)) return std::nullopt;
  return started;
}

bool is_alive(const std::string& host, std::int64_t pid, std::int64_t started) {
  if (host != host_name()) return true;
  const auto now = start_of_process(pid);
  return now && *now == started;
}

}  // namespace tegula::autotune
