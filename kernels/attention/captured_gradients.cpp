#include "kernels/attention/captured_gradients.h"

#include <fmt/format.h>

#include <string>

#include "kernels/argument_error.h"

namespace tegula::kernels {
namespace {

constexpr int kRank = 4;

/// Elements that a program clears or converts.
constexpr int kRowsOfFill = 8, kColumnsOfFill = 256;

/// Returns true if these are one Scalar, or handles of the same elements.
bool is_same(const CaptureSource& x, const CaptureSource& y) {
  if (!x.tensor || !y.tensor) return x.scalar == y.scalar;
  const Tensor &a = *x.tensor, &b = *y.tensor;
  return a.defined() && a.data() == b.data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << i; }

std::string name_of(std::size_t i) { return fmt::format("captured[{}]", i); }

template <class T>
const auto& clear() {
  static const auto& made = *new auto(kernel("attention_clear", [](Out<T, 4> t) {
    for (auto [i, j, m, n] : grid(t, 1, 1, kRowsOfFill, kColumnsOfFill))
      t(i, j, m, n) = zeros<T>(kRowsOfFill, kColumnsOfFill);
  }));
  return made;
}

template <class T>
const auto& convert() {
  static const auto& made =
      *new auto(kernel("attention_convert", [](In<f32, 4> sums, Out<T, 4> to) {
        for (auto [i, j, m, n] : grid(to, 1, 1, kRowsOfFill, kColumnsOfFill))
          to(i, j, m, n) = sums(i, j, m, n);
      }));
  return made;
}

using Subscripts = std::vector<Subscript>;

/// The elements of ScoreCapture::axes.
enum AxisOf : std::uint8_t { kBatchAxis, kHeadAxis, kQueryAxis, kKeyAxis };

/// Returns the subscripts of the elements that a tile of pairs reads. `axes`: see ScoreCapture.
Subscripts box_of(const std::array<int, 4>& axes, const CapturedPairs& at) {
  Subscripts box(kRank, Subscript(0));
  const Index* const indices[] = {&at.b, &at.h, &at.queries, &at.keys};
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] >= 0) box[static_cast<std::size_t>(axes[i])] = Subscript(*indices[i]);
  return box;
}

/// Returns an adjoint [keys or 1, queries or 1], or of one element, in the shape of that box.
Tile in_box(const std::array<int, 4>& axes, const Tile& adjoint) {
  if (axes[kQueryAxis] >= 0 && axes[kKeyAxis] >= 0)
    return axes[kQueryAxis] < axes[kKeyAxis] ? adjoint.T() : adjoint;
  return adjoint.rank() < 2 ? adjoint : adjoint.reshape({adjoint.shape()[0] * adjoint.shape()[1]});
}

/// Returns the output for gradient `i` as a view of four dimensions: one of the last arguments.
PlanSlot argument(PlanBuilder& plan, std::size_t i) {
  return plan.with_rank(plan.argument(plan.size() - kMaxCaptured + i), kRank);
}

/// Returns the subscripts with which the score has read the elements, in a view whose leading
/// dimensions are 1.
Subscripts elements_of(const CaptureAdjoint& a) {
  Subscripts at(static_cast<std::size_t>(kRank) - a.offsets.size(), Subscript(0));
  for (std::size_t i = 0; i < a.offsets.size(); ++i) {
    const auto along = std::ranges::find(a.axes, static_cast<int>(i)) - a.axes.begin();
    const bool is_box = along < std::ssize(a.axes) && a.offsets[i].rank() == 0;
    at.push_back(is_box ? Index(a.offsets[i], a.adjoint.shape()[static_cast<std::size_t>(along)])
                        : Subscript(a.offsets[i]));
  }
  return at;
}

}  // namespace

void refuse_backward(std::string_view what, std::string_view is, std::string_view instead) {
  throw_argument_error(ErrorId::kernel_argument, "attention backward", what, is, instead);
}

void add_clear(PlanBuilder& plan, PlanSlot slot) {
  const Tensor& t = plan.tensor(slot);
  if (!t.defined() || t.numel() == 0) return;
  t.dtype() == DType::f32    ? plan.launch(clear<f32>(), slot)
  : t.dtype() == DType::bf16 ? plan.launch(clear<bf16>(), slot)
                             : plan.launch(clear<f16>(), slot);
}

ScoreCaptures::ScoreCaptures(std::shared_ptr<const AttentionHeuristics> facts)
    : facts_(std::move(facts)),
      // The function shares the tensors with all kernels that call it.
      score_([of = facts_](const Tile& x, const Tile& b, const Tile& h, const Tile& q,
                           const Tile& kv) {
        return of->spec.score ? of->spec.score(x, b, h, q, kv) : x;
      }),
      captures_(score_.captures()) {}

CapturedSelection ScoreCaptures::select(std::span<const CapturedGradient> of) const {
  if (of.size() > kMaxCaptured)
    refuse_backward("the number of captured gradients", std::to_string(of.size()),
                    fmt::format("at most {}", kMaxCaptured));
  constexpr std::size_t kMaxCaptures = 64;  // bits of a selection
  if (!of.empty() && captures_.size() > kMaxCaptures)
    refuse_backward("the number of captured values", std::to_string(captures_.size()),
                    fmt::format("at most {}", kMaxCaptures));
  CapturedSelection selected{};
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto& [tensor, scalar, into] = of[i];
    selected.captures[i] = captures_of({scalar ? nullptr : &tensor, scalar});
    if (selected.captures[i] == 0)
      refuse_backward(
          name_of(i),
          fmt::format("the gradient of {}, which the score does not capture",
                      scalar ? "a Scalar" : tensor.str()),
          "a tensor or Scalar of floats that the score function reads, or a copy of it");
  }
  return selected;
}

void ScoreCaptures::check(std::span<const CapturedGradient> of) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto& [tensor, scalar, into] = of[i];
    const DType own = scalar ? scalar->dtype : tensor.dtype();
    const Dims shape = scalar ? Dims{1} : tensor.shape();
    const bool is_narrow = own == DType::bf16 || own == DType::f16;
    const bool fits = into.defined() && (scalar ? into.numel() == 1 : into.shape() == shape) &&
                      (into.dtype() == DType::f32 || (is_narrow && into.dtype() == own));
    if (fits && shape.size() <= kRank) continue;
    refuse_backward(
        name_of(i) + ".into", into.defined() ? into.str() : "left out",
        fmt::format("f32{}{} of at most {} dimensions",
                    is_narrow ? fmt::format(" or {}", tegula::name(own)) : "", shape.str(), kRank));
  }
}

std::uint64_t ScoreCaptures::captures_of(const CaptureSource& source) const {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < captures_.size(); ++i)
    if (is_same(captures_[i].source, source)) found |= bit(i);
  return found;
}

std::optional<std::array<int, 4>> ScoreCaptures::axes(std::uint64_t captures) const {
  if (std::popcount(captures) != 1) return {};
  const ScoreCapture& c = captures_[static_cast<std::size_t>(std::countr_zero(captures))];
  std::optional<std::array<int, 4>> axes = c.axes;
  for (std::size_t a = 0; axes && c.source.tensor && a < axes->size(); ++a)
    if ((*axes)[a] >= 0) (*axes)[a] += kRank - c.source.tensor->rank();
  return axes;
}

void ScoreCaptures::classify(CapturedSelection& selected, const Dims& pairs,
                             std::optional<std::int64_t> ordered_heads) const {
  for (std::size_t i = 0; i < kMaxCaptured && selected.captures[i] != 0; ++i) {
    const auto of = axes(selected.captures[i]);
    const auto has = [&](AxisOf axis) { return of && (*of)[axis] >= 0; };
    const bool is_own_key = has(kKeyAxis) && (has(kBatchAxis) || pairs[kBatchAxis] == 1),
               is_by_pair =
                   is_own_key && has(kQueryAxis) && (has(kHeadAxis) || pairs[kHeadAxis] == 1);
    if (is_by_pair) selected.by_pair |= bit(i);
    if (is_by_pair || !ordered_heads) continue;
    // One program sums over the queries that see a key, of all heads of a group.
    if (!is_own_key || has(kQueryAxis) || *ordered_heads != (has(kHeadAxis) ? pairs[kHeadAxis] : 1))
      refuse_backward(
          name_of(i), "a sum of additions in any order",
          "without AttentionNumerics::deterministic, or a tensor with an element for each pair");
  }
}

CapturedSlots ScoreCaptures::begin(PlanBuilder& plan, DType dtype,
                                   const CapturedSelection& selected,
                                   const std::optional<Dims>& visited) const {
  CapturedSlots slots;
  for (std::size_t i = 0; i < kMaxCaptured && selected.captures[i] != 0; ++i) {
    const PlanSlot into = argument(plan, i);
    const Tensor& t = plan.tensor(into);
    const bool is_stored = (selected.by_pair & bit(i)) != 0,
               is_narrow = is_stored && t.dtype() == dtype;
    PlanSlot& slot = is_narrow ? slots.pairs[i] : slots.f32s[i];
    slot = is_narrow || t.dtype() == DType::f32 ? into : plan.scratch(t.shape(), DType::f32);
    Dims stored = Dims::filled(kRank, 1);
    for (std::size_t a = 0; is_stored && visited && a < kRank; ++a)
      if (const int axis = (*axes(selected.captures[i]))[a]; axis >= 0)
        stored[static_cast<std::size_t>(axis)] = (*visited)[a];
    if (!is_stored || !visited || t.shape() != stored) add_clear(plan, slot);
  }
  return slots;
}

void ScoreCaptures::finish(PlanBuilder& plan, const CapturedSlots& slots) {
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    if (slots.f32s[i] == PlanSlot()) continue;
    const PlanSlot into = argument(plan, i);
    const Tensor& t = plan.tensor(into);
    if (t.numel() == 0) continue;
    if (t.dtype() == DType::bf16) plan.launch(convert<bf16>(), slots.f32s[i], into);
    if (t.dtype() == DType::f16) plan.launch(convert<f16>(), slots.f32s[i], into);
  }
}

// ---- in the main kernel
template <class T>
typename CapturedSums<T>::Carried CapturedSums<T>::zeros(int keys) const {
  Carried sums;
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    const auto axes = captures_.axes(selected_.captures[i]);
    if (!axes || (*axes)[kQueryAxis] >= 0 || ((*axes)[kHeadAxis] >= 0 && !has_one_head_)) continue;
    sums[i] = (*axes)[kKeyAxis] >= 0 ? tegula::zeros<f32>(keys) : full<f32>(0);
  }
  return sums;
}

template <class T>
Tile CapturedSums<T>::add(const Tile& y, const Tile& dy, const Tile& x, const CapturedPairs& at,
                          Carried& sums) const {
  const auto gradients_of = [&](const CaptureSource& source) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < kMaxCaptured; ++i)
      if (selected_.captures[i] & captures_.captures_of(source)) found.push_back(i);
    return found;
  };
  const auto wants = [&](const CaptureSource& source) { return !gradients_of(source).empty(); };
  const Adjoints found = adjoints(y, dy, std::span(&x, 1), wants);
  for (const CaptureAdjoint& a : found.captured)
    for (const std::size_t i : gradients_of(a.source)) add(a, i, at, sums);
  return found.of[0] ? *found.of[0] : tegula::zeros<f32>(x.dim(0), x.dim(1));
}

template <class T>
void CapturedSums<T>::add(const CaptureAdjoint& a, std::size_t gradient, const CapturedPairs& at,
                          Carried& sums) const {
  const auto axes = captures_.axes(selected_.captures[gradient]);
  const Tile adjoint = axes ? in_box(*axes, a.adjoint) : a.adjoint;
  if (std::optional<Tile>& sum = sums[gradient]) {
    *sum = *sum + adjoint;
    return;
  }
  const Subscripts part = axes ? box_of(*axes, at) : elements_of(a);
  const auto elements = [&](const auto& view) { return view(part[0], part[1], part[2], part[3]); };
  if (const auto& pairs = views_.pairs[gradient])
    elements(*pairs) = adjoint;
  else if (selected_.by_pair & bit(gradient))
    elements(*views_.f32s[gradient]) = adjoint;
  else
    atomic_add(elements(*views_.f32s[gradient]), adjoint);
}

template <class T>
void CapturedSums<T>::add(const Carried& sums, const CapturedPairs& at) const {
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    if (!sums[i]) continue;
    const Subscripts part = box_of(*captures_.axes(selected_.captures[i]), at);
    atomic_add((*views_.f32s[i])(part[0], part[1], part[2], part[3]), *sums[i]);
  }
}

template class CapturedSums<bf16>;
template class CapturedSums<f16>;

}  // namespace tegula::kernels
