#pragma once
// Almost valid texts: pieces of valid texts cut, doubled, joined and changed; and random bytes.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::fuzz {

class TextMutator {
 public:
  TextMutator(std::uint64_t seed, const std::vector<std::string>& right,
              const std::vector<std::string_view>& words)
      : random_(seed), right_(right), words_(words) {}

  /// Returns an input: mostly a valid text with some changes.
  std::string text() {
    const std::size_t way = below(20);
    if (way == 0) return bytes(below(300));
    if (way == 1) return sentence(below(60));
    std::string t = right_[below(right_.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) change(t);
    return t;
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

 private:
  std::string bytes(std::size_t n) {
    std::string t(n, ' ');
    for (char& c : t) c = static_cast<char>(random_());
    return t;
  }
  std::string sentence(std::size_t n) {
    std::string t;
    for (std::size_t i = 0; i < n; ++i)
      t += std::string(words_[below(words_.size())]) + (below(2) ? " " : "");
    return t;
  }
  /// A part of a text, mostly short.
  std::pair<std::size_t, std::size_t> span(const std::string& t) {
    const std::size_t at = below(t.size() + 1);
    return {at, below(std::min<std::size_t>(t.size() - at, below(4) ? 12 : 400) + 1)};
  }
  void change(std::string& t) {
    const auto [at, n] = span(t);
    switch (below(10)) {
      case 0:
        return void(t.erase(at, n));
      case 1:
        return void(t.insert(below(t.size() + 1), t.substr(at, n)));
      case 2:
        return t.resize(at);
      case 3: {
        const std::string& other = right_[below(right_.size())];
        const auto [from, m] = span(other);
        return void(t.insert(at, other.substr(from, m)));
      }
      case 4:
        return void(t.insert(at, bytes(1 + below(3))));
      case 5:
        if (at < t.size()) t[at] = static_cast<char>(random_());
        return;
      case 6:
        return number(t, at);
      case 7:
        return repeat(t, at);
      default:
        return word(t, at);
    }
  }
  /// Another number for the next one after `at`.
  void number(std::string& t, std::size_t at) {
    static const std::vector<std::string> kNumbers{"0",
                                                   "-1",
                                                   "1",
                                                   "2147483647",
                                                   "-2147483648",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "-9223372036854775808",
                                                   "99999999999999999999",
                                                   "1e308",
                                                   "1e999",
                                                   "-0.0",
                                                   "nan",
                                                   "inf",
                                                   "7",
                                                   "1048576"};
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t from = t.find_first_of(kDigits, at);
    if (from == std::string::npos) return;
    const std::size_t to = std::min(t.find_first_not_of(kDigits, from), t.size());
    t.replace(from, to - from, kNumbers[below(kNumbers.size())]);
  }
  /// Returns a deeply nested or very long text.
  void repeat(std::string& t, std::size_t at) {
    const std::string piece(below(2) ? std::string(words_[below(words_.size())])
                                     : t.substr(at, 1 + below(6)));
    const std::size_t times = below(20) == 0 ? 20000 : 1 + below(40);
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += piece;
    t.insert(at, all);
  }
  void word(std::string& t, std::size_t at) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_0123456789";
    const std::string with(words_[below(words_.size())]);
    const std::size_t from = t.find_first_of(kLetters, at);
    if (from == std::string::npos || below(3) == 0) return void(t.insert(at, with));
    t.replace(from, std::min(t.find_first_not_of(kLetters, from), t.size()) - from, with);
  }

  std::mt19937_64 random_;
  const std::vector<std::string>& right_;
  const std::vector<std::string_view>& words_;
};

}  // namespace tegula::fuzz
