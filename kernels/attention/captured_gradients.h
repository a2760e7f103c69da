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
#include <string_view>
#include <vector>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Throws T1662 for an argument of a backward call.
[[noreturn]] void refuse_backward(std::string_view what, std::string_view is,
                                  std::string_view instead);

/// Adds a launch that clears a tensor of f32, bf16 or f16 with four dimensions, if it has elements.
void add_clear(PlanBuilder& plan, PlanSlot slot);

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
    return std::popcount(by_pair) < std::ssize(captures) - std::ranges::count(captures, 0U);
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
  explicit ScoreCaptures(std::shared_ptr<const AttentionHeuristics> facts);

  /// Returns the captures of each gradient. Throws T1662 for what the score does not capture.
  CapturedSelection select(std::span<const CapturedGradient> of) const;
  /// Sets `by_pair` for a call with `pairs` [batch, heads, queries, keys]. If `ordered_heads`, the
  /// heads of keys of a deterministic call, is given: throws T1662 for gradients whose elements are
  /// sums of more than one addition to memory.
  void classify(CapturedSelection& selected, const Dims& pairs,
                std::optional<std::int64_t> ordered_heads) const;
  /// Throws T1662 for outputs that do not fit what they are the gradients of.
  static void check(std::span<const CapturedGradient> of);
  /// Returns true if the slope of the score differs between pairs. Throws T1022 for a score without
  /// a derivative.
  bool slope_varies() const { return facts_->spec.score && score_.slope() == ScoreSlope::pair; }
  /// Returns the captures that are this source, or copies of its handle, as bits of a selection.
  std::uint64_t captures_of(const CaptureSource& source) const;
  /// Returns ScoreCapture::axes of the only capture of a gradient, in views of four dimensions.
  std::optional<std::array<int, 4>> axes(std::uint64_t captures) const;

  /// Adds launches that clear the gradients, the last arguments of the call, and returns the views
  /// that the main kernel of tensors of `dtype` adds or stores to. `visited` pairs are given if
  /// they are all pairs.
  CapturedSlots begin(PlanBuilder& plan, DType dtype, const CapturedSelection& selected,
                      const std::optional<Dims>& visited) const;
  /// Adds launches that convert the sums to the types of the gradients.
  static void finish(PlanBuilder& plan, const CapturedSlots& sums);

 private:
  std::shared_ptr<const AttentionHeuristics> facts_;  ///< its score owns the captured tensors
  ScoreFunction score_;
  std::vector<ScoreCapture> captures_;
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
  CapturedSums(const ScoreCaptures& captures, const CapturedSelection& selected,
               const CapturedViews<T>& views, bool has_one_head)
      : captures_(captures), selected_(selected), views_(views), has_one_head_(has_one_head) {}

  bool any() const { return selected_.any(); }
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

  const ScoreCaptures& captures_;
  const CapturedSelection& selected_;
  const CapturedViews<T>& views_;
  bool has_one_head_;
};

}  // namespace tegula::kernels
