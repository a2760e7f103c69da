#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace tegula {

/// 128-bit hash of content, which names cache entries and keys. Equal input gives an equal hash on
/// every machine.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  /// Returns 32 lower-case hexadecimal digits.
  std::string hex() const;
};

/// Incremental XXH3-128. It is not cryptographic: it identifies content but does not protect it.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;

  /// Appends raw bytes: add("a").bytes("b") differs from bytes("ab"), bytes("a").bytes("b") does
  /// not.
  Hasher& bytes(std::string_view data);
  /// Appends a string as a field: its length comes first, so that adjacent fields cannot trade
  /// characters.
  Hasher& add(std::string_view field);
  /// Appends a number as a field of eight little-endian bytes whatever its type, so that int and
  /// long agree.
  template <std::integral T>
  Hasher& add(T value) {
    return add_number(static_cast<std::uint64_t>(value));
  }
  template <class T>
    requires std::is_enum_v<T>
  Hasher& add(T value) {
    return add(static_cast<std::underlying_type_t<T>>(value));
  }

  /// Returns the hash of everything appended so far; more may be appended afterwards.
  Hash128 digest() const;

 private:
  struct State;
  Hasher& add_number(std::uint64_t value);
  std::unique_ptr<State> state_;
};

/// Returns the hash of one string.
Hash128 hash128(std::string_view data);

}  // namespace tegula

template <>
struct std::hash<tegula::Hash128> {
  std::size_t operator()(const tegula::Hash128& h) const noexcept { return h.low; }
};
