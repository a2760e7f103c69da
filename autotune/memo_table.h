#pragma once
// Remembers the latest choices: a choice costs more than a launch, and a program repeats few
// problems many times.
#include <array>
#include <cstddef>
#include <cstdint>

namespace tegula::autotune {

/// Table of 256 choices, the latest one of each hash. Not shared by threads.
template <class Problem, class Choice>
class MemoTable {
 public:
  /// `choose(problem)`, or what it gave before.
  template <class Choose>
  const Choice& of(const Problem& problem, std::uint64_t hash, const Choose& choose) {
    Entry& e = entries_[static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15u) >> 56)];
    if (!e.known || e.problem != problem) e = {problem, choose(problem), true};
    return e.choice;
  }

 private:
  struct Entry {
    Problem problem;
    Choice choice;
    bool known = false;
  };
  std::array<Entry, 256> entries_;
};

}  // namespace tegula::autotune
