// Determines whether the absent elements of a value are observed. They are not if they only reach
// stores that drop them anyway.
#include <algorithm>
#include <set>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/passes/absence/absence.h"
#include "ir/passes/absence/tile_presence.h"

namespace tegula::ir {
namespace {

class Follower {
 public:
  Follower(const Kernel& k, const Facts& facts, const Uses& uses, const PresenceBound& bound)
      : k_(k), facts_(facts), uses_(uses), bound_(bound) {}

  /// Returns true if elements along dimension `dim` outside of the bound are used.
  bool is_observed(Value v, int dim) {
    if (!seen_.insert({v.index, dim}).second) return false;
    return std::ranges::any_of(uses_.of(v), [&](const auto& use) { return looks(use.op, v, dim); });
  }

 private:
  bool result(OpId op, int dim) {
    return std::ranges::any_of(k_[op].results, [&](Value v) {
      return !k_.type(v).is_tile() || dim >= k_.type(v).rank() || is_observed(v, dim);
    });
  }

  bool looks(OpId op, Value v, int dim) {
    const OpData& d = k_[op];
    using enum Opcode;
    if (info(d.opcode).is_elementwise() || d.opcode == Crop) return result(op, dim);
    if (d.opcode == FillAbsent) return d.attrs.s(AttrName::kind) != "any" || result(op, dim);
    if (d.is(ExpandDims, Permute, Broadcast, Reshape)) {
      const int now = dim_after(k_, d, dim);
      return now < 0 || result(op, now);
    }
    if (d.is(Reduce, ArgReduce, Scan)) {
      const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
      if (axis == dim) return true;
      return result(op, dim - (d.opcode != Scan && axis < dim ? 1 : 0));
    }
    if (d.opcode == Dot) return product(op, v, dim);
    if (d.opcode == StoreView) return stores(d, v, dim);
    if (is_loop(d)) return begins_loop(op, v, dim);
    if (d.opcode == Yield) return yields(op, v, dim);
    return true;
  }

  bool product(OpId op, Value v, int dim) {
    const OpData& d = k_[op];
    for (std::size_t i = 0; i < 3; ++i) {
      if (d.operands[i] != v) continue;
      // Absent elements along the contraction or a batch dimension are treated as 0.
      const int row = static_cast<int>(k_.type(v).rank()) - 2;
      if ((i == 0 && dim == row + 1) || (i == 1 && dim == row) || (i < 2 && dim < row)) return true;
      if (result(op, dim)) return true;
    }
    return false;
  }

  /// Returns true if a store may write absent elements. It does not if it has the bound's offset
  /// and its view ends at or before the limit, because it drops them itself.
  bool stores(const OpData& d, Value v, int dim) const {
    const BoxAccess a = access_of(k_, d);
    if (std::ranges::count(d.operands, v) != 1 || a.stored != v) return true;
    const auto axis = static_cast<int>(a.along[static_cast<std::size_t>(dim)]);
    return !is_same(k_, bound_.offset, a.along_dim(dim).offset) ||
           !facts_.is_extent_at_most(a.view, axis, bound_.limit);
  }

  bool begins_loop(OpId op, Value v, int dim) {
    const OpData& d = k_[op];
    const std::size_t first = first_init(d.opcode);
    for (std::size_t i = 0; i < d.operands.size(); ++i) {
      if (d.operands[i] != v) continue;
      if (i < first || carried(op, i - first, dim)) return true;
    }
    return false;
  }
  bool carried(OpId loop, std::size_t i, int dim) {
    for (RegionId r : k_[loop].regions)
      if (is_observed(loop_carries(k_, r)[i], dim)) return true;
    return is_observed(k_[loop].results[i], dim);
  }
  bool yields(OpId op, Value v, int dim) {
    const OpId owner = k_[k_[op].parent].owner;
    if (!owner) return true;
    const bool is_branch = k_[owner].opcode == Opcode::If,
               is_carry = is_loop(k_[owner]) && k_[op].parent == k_[owner].regions.back();
    for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
      if (k_[op].operands[i] != v) continue;
      if (is_branch  ? is_observed(k_[owner].results[i], dim)
          : is_carry ? carried(owner, i, dim)
                     : true)
        return true;
    }
    return false;
  }

  const Kernel& k_;
  const Facts& facts_;
  const Uses& uses_;
  const PresenceBound& bound_;
  std::set<std::pair<std::uint32_t, int>> seen_;
};

}  // namespace

bool Absence::is_observed(Value v, const PresenceBound& bound) {
  if (uses_of_ != k_.op_count()) uses_.emplace(k_);
  uses_of_ = k_.op_count();
  return Follower(k_, facts(), *uses_, bound).is_observed(v, bound.dim);
}

}  // namespace tegula::ir
