// Computes the width of the memory accesses to a box.
#include "ir/analysis/access_width.h"

#include <algorithm>
#include <numeric>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"

namespace tegula::ir {
namespace {

/// Returns true if consecutive lines of the box start one element apart (windows of a signal, with
/// two strides of 1). Most of these lines are unaligned.
bool has_overlapping_lines(const BoxAccess& a, const ViewFacts& facts) {
  int lines = 0;
  for (std::size_t v = 0; v < a.axes.size(); ++v)
    lines += facts.strides[v] == 1 && a.axes[v].extent > 1;
  return lines > 1;
}

int contiguous_dim(const BoxAccess& a, const ViewFacts& facts) {
  for (const std::int64_t along : a.along)
    if (const auto v = static_cast<std::size_t>(along); facts.strides[v] == 1)
      return a.axes[v].is_gathered() ? -1 : a.axes[v].tile_dim;
  return -1;
}

int piece_elements(const BoxAccess& a, Type view) {
  const ViewFacts& facts = view.view_facts();
  if (has_overlapping_lines(a, facts)) return 1;
  std::int64_t elements = std::max<std::int64_t>(1, facts.align / size_bytes(view.dtype()));
  // Guards check only the first element of an access, so an access must not cross the end of the
  // box, where other elements are stored.
  const int t = contiguous_dim(a, facts);
  if (t >= 0) elements = std::gcd(elements, a.along_dim(t).extent);
  for (std::size_t v = 0; v < facts.strides.size(); ++v)
    if (facts.strides[v] != 1) elements = std::gcd(elements, stride_divisor(view, v));
  elements = std::gcd(elements, std::max<std::int64_t>(1, a.divisor));
  return static_cast<int>(std::max<std::int64_t>(1, elements));
}

}  // namespace

int contiguous_dim(const Kernel& k, const OpData& box) {
  const BoxAccess a = access_of(k, box);
  return contiguous_dim(a, k.type(a.view).view_facts());
}

int piece_elements(const Kernel& k, const OpData& box) {
  const BoxAccess a = access_of(k, box);
  return piece_elements(a, k.type(a.view));
}

int access_elements(const Kernel& k, const OpData& box) {
  const BoxAccess a = access_of(k, box);
  const Type view = k.type(a.view);
  const ViewFacts& facts = view.view_facts();
  std::int64_t elements = piece_elements(a, view);
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    if (facts.strides[v] != 1 || a.axes[v].in_bounds) continue;
    elements = std::gcd(elements, extent_divisor(view, v));
    if (a.axes[v].limit) elements = std::gcd(elements, divisor_of(k, a.axes[v].limit));
  }
  return static_cast<int>(std::max<std::int64_t>(1, elements));
}

}  // namespace tegula::ir
