#include "kernels/attention/captured_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/argument_error.h"

namespace tegula::kernels {
namespace {

constexpr const char* kName = "attention backward";
constexpr int kRank = 4;

/// Elements that a program clears or converts.
constexpr int kRowsOfFill = 8, kColumnsOfFill = 256;

bool has_same_memory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

bool is_of(const CapturedGradient& g, const CaptureSource& source) {
  if (g.scalar || source.scalar) return g.scalar == source.scalar;
  return g.tensor.defined() && has_same_memory(g.tensor, *source.tensor);
}

std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << i; }

std::string name_of(std::size_t i) { return fmt::format("captured[{}]", i); }

template <class View, class Body>
void for_each_block(const View& of, const Body& body) {
  for (auto [i, j, m, n] :
       grid({of.dim(0), of.dim(1), of.dim(2), of.dim(3)}, 1, 1, kRowsOfFill, kColumnsOfFill))
    body(i, j, m, n);
}

template <class T>
const auto& convert() {
  static const auto* const made =
      new auto(kernel("attention_convert", [](In<f32, 4> sums, Out<T, 4> to) {
        for_each_block(to, [&](const Index& i, const Index& j, const Index& m, const Index& n) {
          to(i, j, m, n) = sums(i, j, m, n);
        });
      }));
  return *made;
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

/// Returns the subscripts with which the score has read the elements, in a view whose leading
/// dimensions are 1.
Subscripts elements_of(const CaptureAdjoint& a) {
  Subscripts at(static_cast<std::size_t>(kRank) - a.offsets.size(), Subscript(0));
  for (std::size_t i = 0; i < a.offsets.size(); ++i) {
    const auto along = std::ranges::find(a.axes, static_cast<int>(i)) - a.axes.begin();
    const bool is_box = along < std::ssize(a.axes) && a.offsets[i].rank() == 0;
    if (is_box)
      at.emplace_back(Index(a.offsets[i], a.adjoint.shape()[static_cast<std::size_t>(along)]));
    else
      at.emplace_back(a.offsets[i]);
  }
  return at;
}

}  // namespace

template <class T>
const KernelOf<Out<T, 4>>& clear_tensor() {
  static const auto* const made = new auto(kernel("attention_clear", [](Out<T, 4> t) {
    for_each_block(t, [&](const Index& i, const Index& j, const Index& m, const Index& n) {
      t(i, j, m, n) = zeros<T>(kRowsOfFill, kColumnsOfFill);
    });
  }));
  return *made;
}
template const KernelOf<Out<bf16, 4>>& clear_tensor<bf16>();
template const KernelOf<Out<f16, 4>>& clear_tensor<f16>();
template const KernelOf<Out<f32, 4>>& clear_tensor<f32>();

ScoreCaptures::ScoreCaptures(std::shared_ptr<const AttentionSpec> spec)
    : spec_(std::move(spec)),
      // The function shares the tensors with all kernels that call it.
      score_([s = spec_](const Tile& x, const Tile& b, const Tile& h, const Tile& q,
                         const Tile& kv) { return s->score ? s->score(x, b, h, q, kv) : x; }),
      captures_(score_.captures()) {}

CapturedSelection ScoreCaptures::select(std::span<const CapturedGradient> of) const {
  if (of.size() > kMaxCaptured)
    throw_argument_error(ErrorId::kernel_argument, kName, "the number of captured gradients",
                         of.size(), fmt::format("at most {}", kMaxCaptured));
  constexpr std::size_t kMaxCaptures = 64;  // bits of a selection
  if (!of.empty() && captures_.size() > kMaxCaptures)
    throw_argument_error(ErrorId::kernel_argument, kName, "the number of captured values",
                         captures_.size(), fmt::format("at most {}", kMaxCaptures));
  CapturedSelection selected{};
  for (std::size_t i = 0; i < of.size(); ++i) {
    for (std::size_t c = 0; c < captures_.size(); ++c)
      if (is_of(of[i], captures_[c].source)) selected.captures[i] |= bit(c);
    if (selected.captures[i] == 0)
      throw_argument_error(
          ErrorId::kernel_argument, kName, name_of(i),
          fmt::format("the gradient of {}, which the score does not capture",
                      of[i].scalar ? "a Scalar" : of[i].tensor.str()),
          "a tensor or Scalar of floats that the score function reads, or a copy of it");
  }
  return selected;
}

void ScoreCaptures::check(std::span<const CapturedGradient> of) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    const CapturedGradient& g = of[i];
    const DType own = g.scalar ? g.scalar->dtype : g.tensor.dtype();
    const Dims one{1};
    const Dims& shape = g.scalar ? one : g.tensor.shape();
    const bool is_narrow = own == DType::bf16 || own == DType::f16;
    const bool fits = g.into.defined() &&
                      (g.scalar ? g.into.numel() == 1 : g.into.shape() == shape) &&
                      (g.into.dtype() == DType::f32 || (is_narrow && g.into.dtype() == own));
    if (fits && shape.size() <= kRank) continue;
    throw_argument_error(
        ErrorId::kernel_argument, kName, name_of(i),
        g.into.defined() ? "into " + g.into.str() : "left out",
        fmt::format("f32{}{} of at most {} dimensions",
                    is_narrow ? fmt::format(" or {}", tegula::name(own)) : "", shape.str(), kRank));
  }
}

std::optional<std::size_t> ScoreCaptures::find(const CaptureSource& source) const {
  const auto number = [&](const auto& is_same) -> std::optional<std::size_t> {
    const auto at = std::ranges::find_if(captures_, is_same) - captures_.begin();
    return at == std::ssize(captures_) ? std::nullopt : std::optional<std::size_t>(at);
  };
  const auto same = number([&](const ScoreCapture& c) {
    return c.source.scalar == source.scalar && c.source.tensor == source.tensor;
  });
  // The function may have made a copy, whose handle each trace keeps.
  return same || source.scalar ? same : number([&](const ScoreCapture& c) {
    return c.source.tensor && has_same_memory(*c.source.tensor, *source.tensor);
  });
}

std::optional<std::array<int, 4>> ScoreCaptures::axes(std::uint64_t captures) const {
  if (std::popcount(captures) != 1) return {};
  const ScoreCapture& c = captures_[static_cast<std::size_t>(std::countr_zero(captures))];
  std::optional<std::array<int, 4>> axes = c.axes;
  for (std::size_t a = 0; axes && c.source.tensor && a < axes->size(); ++a)
    if ((*axes)[a] >= 0) (*axes)[a] += kRank - c.source.tensor->rank();
  return axes;
}

std::uint64_t ScoreCaptures::by_pair(const CapturedSelection& selected, const Dims& pairs) const {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    const auto of = axes(selected.captures[i]);
    bool is_by_pair = of && (*of)[kQueryAxis] >= 0 && (*of)[kKeyAxis] >= 0;
    for (const AxisOf a : {kBatchAxis, kHeadAxis})
      is_by_pair = is_by_pair && ((*of)[a] >= 0 || pairs[a] == 1);
    if (is_by_pair) found |= bit(i);
  }
  return found;
}

void ScoreCaptures::check_ordered(const CapturedSelection& selected, const Dims& pairs,
                                  std::int64_t kv_heads) const {
  for (std::size_t i = 0; i < kMaxCaptured && selected.captures[i] != 0; ++i) {
    const auto of = axes(selected.captures[i]);
    // One program sums over the queries that see a key, of all heads of a group.
    const bool is_by_key = of && (*of)[kQueryAxis] < 0 && (*of)[kKeyAxis] >= 0 &&
                           ((*of)[kBatchAxis] >= 0 || pairs[kBatchAxis] == 1) &&
                           ((*of)[kHeadAxis] >= 0 ? kv_heads == pairs[kHeadAxis] : kv_heads == 1);
    if (!is_by_key && (selected.by_pair & bit(i)) == 0)
      throw_argument_error(
          ErrorId::kernel_argument, kName, name_of(i), "a sum of additions in any order",
          "without AttentionNumerics::deterministic, or a tensor with an element for each pair");
  }
}

template <class T>
CapturedSlots ScoreCaptures::begin(PlanBuilder& plan, std::size_t first,
                                   const CapturedSelection& selected,
                                   const std::optional<Dims>& visited) const {
  CapturedSlots slots;
  for (std::size_t i = 0; i < kMaxCaptured && selected.captures[i] != 0; ++i) {
    const PlanSlot into = plan.with_rank(plan.argument(first + i), kRank);
    const Tensor& t = plan.tensor(into);
    const bool is_stored = (selected.by_pair & bit(i)) != 0,
               is_narrow = is_stored && t.dtype() == dtype_of<T>;
    PlanSlot& slot = is_narrow ? slots.pairs[i] : slots.f32s[i];
    slot = is_narrow || t.dtype() == DType::f32 ? into : plan.scratch(t.shape(), DType::f32);
    Dims covered = Dims::filled(kRank, 1);
    for (std::size_t a = 0; is_stored && visited && a < kRank; ++a)
      if (const int axis = (*axes(selected.captures[i]))[a]; axis >= 0)
        covered[static_cast<std::size_t>(axis)] = (*visited)[a];
    if (t.numel() == 0 || (is_stored && visited && t.shape() == covered)) continue;
    is_narrow ? plan.launch(clear_tensor<T>(), slot) : plan.launch(clear_tensor<f32>(), slot);
  }
  return slots;
}

void ScoreCaptures::finish(PlanBuilder& plan, std::size_t first, const CapturedSlots& slots) {
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    if (slots.f32s[i] == PlanSlot()) continue;
    const PlanSlot into = plan.with_rank(plan.argument(first + i), kRank);
    const Tensor& t = plan.tensor(into);
    if (t.numel() == 0 || t.dtype() == DType::f32) continue;
    if (t.dtype() == DType::bf16)
      plan.launch(convert<bf16>(), slots.f32s[i], into);
    else
      plan.launch(convert<f16>(), slots.f32s[i], into);
  }
}

// ---- in the main kernel
template <class T>
typename CapturedSums<T>::Carried CapturedSums<T>::zeros(int keys) const {
  Carried sums;
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    const auto axes = of_.captures->axes(of_.selected.captures[i]);
    if (!axes || (*axes)[kQueryAxis] >= 0 || ((*axes)[kHeadAxis] >= 0 && !has_one_head_)) continue;
    sums[i] = (*axes)[kKeyAxis] >= 0 ? tegula::zeros<f32>(keys) : full<f32>(0);
  }
  return sums;
}

template <class T>
Tile CapturedSums<T>::add(const Tile& y, const Tile& dy, const Tile& x, const CapturedPairs& at,
                          Carried& sums) const {
  const auto gradients_of = [&](const CaptureSource& source, const auto& visit) {
    const auto number = of_.captures->find(source);
    for (std::size_t i = 0; number && i < kMaxCaptured; ++i)
      if (of_.selected.captures[i] & bit(*number)) visit(i);
  };
  const auto wants = [&](const CaptureSource& source) {
    bool is_wanted = false;
    gradients_of(source, [&](std::size_t) { is_wanted = true; });
    return is_wanted;
  };
  const Adjoints found = adjoints(y, dy, std::span(&x, 1), wants);
  for (const CaptureAdjoint& a : found.captured)
    gradients_of(a.source, [&](std::size_t i) { add(a, i, at, sums); });
  return found.of[0] ? *found.of[0] : tegula::zeros<f32>(x.dim(0), x.dim(1));
}

template <class T>
void CapturedSums<T>::add(const CaptureAdjoint& a, std::size_t gradient, const CapturedPairs& at,
                          Carried& sums) const {
  const auto axes = of_.captures->axes(of_.selected.captures[gradient]);
  const Tile adjoint = axes ? in_box(*axes, a.adjoint) : a.adjoint;
  if (std::optional<Tile>& sum = sums[gradient]) {
    *sum = *sum + adjoint;
    return;
  }
  const Subscripts part = axes ? box_of(*axes, at) : elements_of(a);
  const auto& pairs = views_.pairs[gradient];
  const auto& f32s = views_.f32s[gradient];
  if (pairs)
    (*pairs)(part[0], part[1], part[2], part[3]) = adjoint;
  else if (of_.selected.by_pair & bit(gradient))
    (*f32s)(part[0], part[1], part[2], part[3]) = adjoint;
  else
    atomic_add((*f32s)(part[0], part[1], part[2], part[3]), adjoint);
}

template <class T>
void CapturedSums<T>::add(const Carried& sums, const CapturedPairs& at) const {
  for (std::size_t i = 0; i < kMaxCaptured; ++i) {
    if (!sums[i]) continue;
    const Subscripts part = box_of(*of_.captures->axes(of_.selected.captures[i]), at);
    atomic_add((*views_.f32s[i])(part[0], part[1], part[2], part[3]), *sums[i]);
  }
}

template class CapturedSums<bf16>;
template class CapturedSums<f16>;
template CapturedSlots ScoreCaptures::begin<bf16>(PlanBuilder&, std::size_t,
                                                  const CapturedSelection&,
                                                  const std::optional<Dims>&) const;
template CapturedSlots ScoreCaptures::begin<f16>(PlanBuilder&, std::size_t,
                                                 const CapturedSelection&,
                                                 const std::optional<Dims>&) const;

}  // namespace tegula::kernels
