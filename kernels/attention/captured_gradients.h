#pragma once
// Gradients of the tensors and Scalars that a score function captures, in attention's backward
// pass.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tegula/functions.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// The kernel that stores zeros to all elements.
template <class T>
const KernelOf<Out<T, 4>>& clear_tensor();
extern template const KernelOf<Out<bf16, 4>>& clear_tensor<bf16>();
extern template const KernelOf<Out<f16, 4>>& clear_tensor<f16>();

/// Gradients of captures that one call computes.
inline constexpr std::size_t kMaxCaptured = 8;

/// The captures whose gradients a call computes.
struct CapturedSelection {
  /// For each gradient the captures that it is the sum of, a bit for each element of
  /// ScoreFunction::captures(). 0: unused.
  std::array<std::uint64_t, kMaxCaptured> captures{};
  std::uint64_t by_pair = 0;  ///< a bit for each gradient whose elements belong to one pair each

  bool any() const { return captures[0] != 0; }
  /// Returns true if elements of a gradient are sums over pairs.
  bool has_sums() const {
    const auto given = std::ranges::count_if(captures, [](std::uint64_t c) { return c != 0; });
    return std::popcount(by_pair) < given;
  }
  friend auto operator<=>(const CapturedSelection&, const CapturedSelection&) = default;
};

/// Views of the gradients, whose leading dimensions are 1. A gradient has at most one view.
template <class T>
struct CapturedViews {
  std::array<std::optional<InOut<f32, 4>>, kMaxCaptured> f32s;
  std::array<std::optional<InOut<T, 4>>, kMaxCaptured> pairs;  ///< stored, never added to
};

/// The views of a call.
struct CapturedSlots {
  std::array<PlanSlot, kMaxCaptured> f32s, pairs;
};

/// The captures of a specification's score function.
class ScoreCaptures {
 public:
  explicit ScoreCaptures(std::shared_ptr<const AttentionSpec> spec);

  /// Returns the captures of each gradient. Throws T1662 for what the score does not capture.
  CapturedSelection select(std::span<const CapturedGradient> of) const;
  /// Returns the gradients whose elements belong to one pair each, in a call with `pairs` [batch,
  /// heads, queries, keys].
  std::uint64_t by_pair(const CapturedSelection& selected, const Dims& pairs) const;
  /// Throws T1662 for gradients whose elements are sums of more than one addition to memory.
  void check_ordered(const CapturedSelection& selected, const Dims& pairs,
                     std::int64_t kv_heads) const;
  /// Throws T1662 for outputs that do not fit what they are the gradients of.
  static void check(std::span<const CapturedGradient> of);
  /// Returns true if the slope of the score differs between pairs. Throws T1022 for a score without
  /// a derivative.
  bool slope_varies() const { return spec_->score && score_.slope() == ScoreSlope::pair; }
  /// Returns the number of a source in the kernel that is being traced.
  std::optional<std::size_t> find(const CaptureSource& source) const;
  /// Returns ScoreCapture::axes of the only capture of a gradient, in views of four dimensions.
  std::optional<std::array<int, 4>> axes(std::uint64_t captures) const;

  /// Adds launches that clear the gradients, whose slots begin at `first`, and returns the views
  /// that the main kernel adds or stores to. `visited` pairs are given if they are all pairs.
  template <class T>
  CapturedSlots begin(PlanBuilder& plan, std::size_t first, const CapturedSelection& selected,
                      const std::optional<Dims>& visited) const;
  /// Adds launches that convert the sums to the types of the gradients.
  static void finish(PlanBuilder& plan, std::size_t first, const CapturedSlots& sums);

 private:
  std::shared_ptr<const AttentionSpec> spec_;  ///< owns the captured tensors
  ScoreFunction score_;
  std::vector<ScoreCapture> captures_;
};

/// The gradients that a kernel computes.
struct CapturedChoice {
  std::shared_ptr<const ScoreCaptures> captures;
  CapturedSelection selected{};
};

/// The pairs of a tile [keys, queries].
struct CapturedPairs {
  Index b, h, queries, keys;  ///< positions, as the score function receives them
};

/// Records the additions to gradients in the main kernel.
template <class T>
class CapturedSums {
 public:
  /// Sums that a loop over the queries of a head carries, of gradients that it need not add to
  /// memory in each iteration.
  using Carried = std::array<std::optional<Tile>, kMaxCaptured>;

  /// `has_one_head`: each loop is over the queries of one head.
  CapturedSums(const CapturedChoice& of, const CapturedViews<T>& views, bool has_one_head)
      : of_(of), views_(views), has_one_head_(has_one_head) {}

  bool any() const { return of_.selected.any(); }
  /// Returns sums of 0 for a tile of `keys` keys.
  Carried zeros(int keys) const;
  /// Returns the adjoint of x, where dy [keys, queries] is that of y, and adds the adjoints of the
  /// captures from which y was computed.
  Tile add(const Tile& y, const Tile& dy, const Tile& x, const CapturedPairs& at,
           Carried& sums) const;
  /// Adds the sums to memory.
  void add(const Carried& sums, const CapturedPairs& at) const;

 private:
  void add(const CaptureAdjoint& a, std::size_t gradient, const CapturedPairs& at,
           Carried& sums) const;

  const CapturedChoice& of_;
  const CapturedViews<T>& views_;
  bool has_one_head_;
};

extern template class CapturedSums<bf16>;
extern template class CapturedSums<f16>;

}  // namespace tegula::kernels
