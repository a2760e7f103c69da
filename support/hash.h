#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace tegula {

/// 128 bits of content: names of cache entries and keys. Equal on every machine for equal input.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
};

/// XXH3-128, fed piece by piece. Not cryptographic: it names content, it does not guard it.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;

  /// The bytes alone: add("a").bytes("b") differs from bytes("ab"), bytes("a").bytes("b") does not.
  Hasher& bytes(std::string_view data);
  /// A text as a field: its length first, so that neighbouring fields cannot trade characters.
  Hasher& add(std::string_view field);
  /// A number as a field of eight bytes, little-endian whatever its type, so that int and long
  /// agree.
  template <std::integral T>
  Hasher& add(T value) {
    return add_number(static_cast<std::uint64_t>(value));
  }
  template <class T>
    requires std::is_enum_v<T>
  Hasher& add(T value) {
    return add(static_cast<std::underlying_type_t<T>>(value));
  }

  /// The hash of all that was fed so far; feeding may go on.
  Hash128 digest() const;

 private:
  struct State;
  Hasher& add_number(std::uint64_t value);
  std::unique_ptr<State> state_;
};

/// The hash of one text.
Hash128 hash128(std::string_view data);

}  // namespace tegula

template <>
struct std::hash<tegula::Hash128> {
  std::size_t operator()(const tegula::Hash128& h) const noexcept { return h.low; }
};
