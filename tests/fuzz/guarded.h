#pragma once
// A guard around code under random input: a crash or an endless run reports its seed.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

namespace tegula::fuzz {

namespace detail {
inline volatile std::uint64_t seed_in_work = 0;

/// Only calls that a handler may make.
inline void say_seed(int signal) {
  char digits[24];
  int n = 0;
  std::uint64_t seed = seed_in_work;
  do digits[n++] = static_cast<char>('0' + seed % 10);
  while ((seed /= 10) != 0);
  const auto say = [](std::string_view text) {
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) ::_exit(2);
  };
  say(signal == SIGALRM ? "does not end: TEGULA_FUZZ_SEED=" : "crashes: TEGULA_FUZZ_SEED=");
  while (n > 0) say(std::string_view(&digits[--n], 1));
  say(" TEGULA_FUZZ_INPUTS=1\n");
  ::_exit(1);
}
}  // namespace detail

/// Guards of one process: signals of faults name the seed, memory has a limit.
class Guard {
 public:
  explicit Guard(unsigned seconds_an_input) : seconds_(seconds_an_input) {
    static char stack[1 << 16];  // an overflow of the stack leaves no room on it
    const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    ::sigaltstack(&other, nullptr);
    struct sigaction action{};
    action.sa_handler = detail::say_seed;
    action.sa_flags = SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
      ::sigaction(signal, &action, nullptr);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const rlimit limit{std::uint64_t{4} << 30, std::uint64_t{4} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
#endif
  }
  ~Guard() { ::alarm(0); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void begin(std::uint64_t seed) {
    detail::seed_in_work = seed;
    ::alarm(seconds_);
  }

 private:
  unsigned seconds_;
};

}  // namespace tegula::fuzz
