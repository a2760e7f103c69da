#pragma once
// The key of a call of a library callable: everything that its plan depends on, compared in full.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tegula/call_plan.h"
#include "tegula/kernel.h"

namespace tegula::dsl {

using detail::HostArg;

/// Stored in place, so that a repeated call does not allocate.
class PlanKey {
 public:
  explicit PlanKey(StrideKey strides = StrideKey::classes) : strides_(strides) {}
  void add(std::uint64_t word) {
    words_[count_++] = word;
    const auto product = static_cast<unsigned __int128>(word ^ hash_) * 0xa0761d6478bd642f;
    hash_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  /// Adds the part of an argument that a plan depends on: a tensor's type, rank, device, extents,
  /// the strides or their classes, and the class of its address; the value of a constant; nothing
  /// for a scalar.
  void add(const HostArg& arg);

  std::span<const std::uint64_t> words() const { return {words_.data(), count_}; }
  std::uint64_t hash() const { return hash_; }

  /// Limits on arguments, including captured ones, and on words of a callable's options.
  static constexpr std::size_t kMaxArguments = 128, kMaxOptions = 64;

 private:
  static constexpr std::size_t kMaxWords =
      kMaxArguments * (2 + 2 * Dims::kMaxRank) + kMaxOptions + 8;

  void add(const Tensor& t);

  std::array<std::uint64_t, kMaxWords> words_;  // the first count_ are set
  StrideKey strides_;
  std::size_t count_ = 0;
  std::uint64_t hash_ = 0x9e3779b97f4a7c15;
};

}  // namespace tegula::dsl
