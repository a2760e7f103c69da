#include "dsl/same_ops.h"

#include <algorithm>
#include <bit>

namespace tegula::dsl {
namespace {

/// Compares attributes; NaN equals itself.
bool same_attrs(const ir::AttrList& a, const ir::AttrList& b) {
  return std::ranges::equal(a.all(), b.all(), [](const auto& x, const auto& y) {
    if (x.first != y.first) return false;
    const double *p = std::get_if<double>(&x.second), *q = std::get_if<double>(&y.second);
    if (p && q) return std::bit_cast<std::uint64_t>(*p) == std::bit_cast<std::uint64_t>(*q);
    return x.second == y.second;
  });
}

}  // namespace

bool BodyComparison::equal(ir::Value a, ir::Value b) const {
  const auto at = twin_.find(a);
  return (at == twin_.end() ? a : at->second) == b;
}

bool BodyComparison::heads_equal(ir::OpId a, ir::OpId b) const {
  const ir::OpData &x = k_[a], &y = k_[b];
  if (x.opcode != y.opcode || !same_attrs(x.attrs, y.attrs) ||
      x.operands.size() != y.operands.size() || x.results.size() != y.results.size() ||
      x.regions.size() != y.regions.size())
    return false;
  for (std::size_t i = 0; i < x.operands.size(); ++i)
    if (!equal(x.operands[i], y.operands[i])) return false;
  for (std::size_t i = 0; i < x.results.size(); ++i)
    if (k_.type(x.results[i]) != k_.type(y.results[i])) return false;
  return true;
}

std::optional<std::pair<ir::OpId, ir::OpId>> BodyComparison::run(ir::OpId a, ir::OpId b) {
  for (; a || b; a = k_[a].next, b = k_[b].next) {
    if (!a || !b || !heads_equal(a, b)) return std::pair(a, b);
    for (std::size_t r = 0; r < k_[a].regions.size(); ++r) {
      const auto &x = k_[k_[a].regions[r]], &y = k_[k_[b].regions[r]];
      if (x.args.size() != y.args.size()) return std::pair(a, b);
      for (std::size_t i = 0; i < x.args.size(); ++i) equate(x.args[i], y.args[i]);
      if (auto difference = run(x.first, y.first)) return difference;
    }
    for (std::size_t i = 0; i < k_[a].results.size(); ++i)
      equate(k_[a].results[i], k_[b].results[i]);
  }
  return std::nullopt;
}

}  // namespace tegula::dsl
