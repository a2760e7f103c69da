#pragma once
// Reflection of structs: `T::each_field(value, visit)` calls `visit(name, field)` for each field in
// order. Hash, text and parser of problems and configurations derive from it, and so do the keys
// and columns of the stores.
//
//     struct Tile {
//       int rows = 128;
//       Order order = Order::row;
//       template <class Self, class Visit>
//       static void each_field(Self& t, const Visit& visit) {
//         visit("rows", t.rows);
//         visit("order", t.order);
//       }
//     };
//
// A field is a bool, an integer, a floating-point number, an enum, a string or a nested struct with
// fields. The values of an enum E start at 0 without gaps, and a function `enumerator_names(E)` in
// E's namespace returns their names as an array.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "support/hash.h"
#include "tegula/dtype.h"

namespace tegula {

/// Returns the names of the element types.
constexpr auto enumerator_names(DType) {
  std::array<std::string_view, std::size(kDTypeInfo)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = name(static_cast<DType>(i));
  return names;
}

}  // namespace tegula

namespace tegula::autotune {

namespace field_detail {
struct AnyVisit {
  void operator()(const char*, const auto&) const {}
};
}  // namespace field_detail

template <class T>
concept Fields = requires(const T& value) { T::each_field(value, field_detail::AnyVisit{}); };

/// Returns the name of an enum's value.
template <class E>
  requires std::is_enum_v<E>
constexpr std::string_view enumerator_name(E value) {
  constexpr auto kNames = enumerator_names(E{});
  return kNames[static_cast<std::size_t>(value)];
}

/// Returns a 64-bit hash of the fields' values for tables in memory. Equal structs have equal
/// hashes in every process. Costs one multiplication per field.
template <Fields T>
std::uint64_t hash_of(const T& value);

/// Returns the fields as `name=value`, separated by blanks; fields of a nested struct as
/// `outer.inner=value`. Empty texts and texts with blanks, quotes or equals signs are quoted.
template <Fields T>
std::string text_of(const T& value);

/// Returns the struct whose `text_of` is `text`: every field once, in order. Returns nullopt if a
/// name or value does not match, so that text of an older release is rejected, not misread.
template <Fields T>
std::optional<T> parse(std::string_view text);

namespace field_detail {

/// Mixes a word into a hash (the finalizer of SplitMix64).
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

template <class F>
std::uint64_t word_of(const F& field) {
  if constexpr (std::is_floating_point_v<F>)
    return std::bit_cast<std::uint64_t>(static_cast<double>(field));
  else
    return static_cast<std::uint64_t>(field);
}

std::string quoted_value(std::string_view text);

template <class F>
std::string written(const F& field) {
  if constexpr (std::is_same_v<F, bool>)
    return field ? "1" : "0";
  else if constexpr (std::is_enum_v<F>)
    return std::string(enumerator_name(field));
  else if constexpr (std::is_arithmetic_v<F>)
    return fmt::to_string(field);
  else
    return quoted_value(field);
}

/// Consumes `name=value` and the following blank of a text; nothing if the name differs.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}
  /// Returns the unquoted value that follows `name`.
  std::optional<std::string> take(std::string_view name);

 private:
  std::string_view rest_;
};

template <class F>
bool read(std::string_view text, F& field) {
  if constexpr (std::is_same_v<F, bool>) {
    field = text == "1";
    return text == "0" || text == "1";
  } else if constexpr (std::is_enum_v<F>) {
    constexpr auto kNames = enumerator_names(F{});
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (kNames[i] == text) return field = static_cast<F>(i), true;
    return false;
  } else if constexpr (std::is_arithmetic_v<F>) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, field);
    return error == std::errc() && stop == end;
  } else {
    field = text;
    return true;
  }
}

template <Fields T>
void write_fields(const T& value, const std::string& prefix, std::string& out) {
  T::each_field(value, [&](const char* name, const auto& field) {
    using F = std::remove_cvref_t<decltype(field)>;
    if constexpr (Fields<F>) {
      write_fields(field, prefix + name + ".", out);
    } else {
      if (!out.empty()) out += ' ';
      out += prefix + name + "=" + written(field);
    }
  });
}

template <Fields T>
bool read_fields(FieldReader& reader, const std::string& prefix, T& value) {
  bool is_read = true;
  T::each_field(value, [&](const char* name, auto& field) {
    if (!is_read) return;
    if constexpr (Fields<std::remove_cvref_t<decltype(field)>>) {
      is_read = read_fields(reader, prefix + name + ".", field);
    } else {
      const std::optional<std::string> text = reader.take(prefix + name);
      is_read = text && read(*text, field);
    }
  });
  return is_read;
}

}  // namespace field_detail

template <Fields T>
std::uint64_t hash_of(const T& value) {
  std::uint64_t hash = 0;
  T::each_field(value, [&](const char*, const auto& field) {
    using F = std::remove_cvref_t<decltype(field)>;
    if constexpr (Fields<F>)
      hash = field_detail::mixed(hash, hash_of(field));
    else if constexpr (std::is_arithmetic_v<F> || std::is_enum_v<F>)
      hash = field_detail::mixed(hash, field_detail::word_of(field));
    else
      hash = field_detail::mixed(hash, hash128(field).low);
  });
  return hash;
}

template <Fields T>
std::string text_of(const T& value) {
  std::string text;
  field_detail::write_fields(value, "", text);
  return text;
}

template <Fields T>
std::optional<T> parse(std::string_view text) {
  field_detail::FieldReader reader(text);
  T value{};
  // Compare the canonical text: "0128", or "H100x=1" without quotes, must not parse.
  if (!field_detail::read_fields(reader, "", value) || text_of(value) != text) return std::nullopt;
  return value;
}

}  // namespace tegula::autotune
