#pragma once
// A small fixed-capacity integer vector for shapes, indices and dimension orders, and the result of
// an operation that may be refused.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tegula::ir {

inline constexpr int kMaxRank = 6;

/// Up to six integers: a shape, an element index, or an order of dimensions.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<int> values) {
    for (int v : values) push_back(v);
  }
  static constexpr Dims filled(int rank, int value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }
  /// Returns 0, 1, ... rank-1.
  static constexpr Dims iota(int rank) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(i);
    return d;
  }

  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr int operator[](int i) const { return values_.at(static_cast<std::size_t>(i)); }
  constexpr int& operator[](int i) { return values_.at(static_cast<std::size_t>(i)); }
  constexpr void push_back(int v) { values_.at(static_cast<std::size_t>(size_++)) = v; }
  constexpr void insert(int position, int v) {
    push_back(v);
    for (int i = size_ - 1; i > position; --i) std::swap((*this)[i], (*this)[i - 1]);
  }
  constexpr void erase(int position) {
    for (int i = position; i + 1 < size_; ++i) (*this)[i] = (*this)[i + 1];
    (*this)[--size_] = 0;
  }
  constexpr const int* begin() const { return values_.data(); }
  constexpr const int* end() const { return values_.data() + size_; }

  constexpr std::int64_t product() const {
    std::int64_t p = 1;
    for (int v : *this) p *= v;
    return p;
  }
  friend constexpr bool operator==(const Dims&, const Dims&) = default;

 private:
  std::array<int, kMaxRank> values_{};  // unused entries stay zero, so that == may compare all
  int size_ = 0;
};

/// Returns the values as a shape, an index or an order. Requires at most kMaxRank values.
inline Dims dims_of(std::span<const std::int64_t> values) {
  Dims d;
  for (std::int64_t v : values) d.push_back(static_cast<int>(v));
  return d;
}

/// A value, or the reason for its absence (shown in remarks).
template <class T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  static Result refused(std::string reason) {
    Result r;
    r.reason_ = std::move(reason);
    return r;
  }
  explicit operator bool() const { return value_.has_value(); }
  const T& operator*() const { return value_.value(); }
  const T* operator->() const { return &value_.value(); }
  const std::string& reason() const { return reason_; }

 private:
  Result() = default;
  std::optional<T> value_;
  std::string reason_;
};

}  // namespace tegula::ir
