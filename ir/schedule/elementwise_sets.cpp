#include "ir/schedule/elementwise_sets.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "ir/loop.h"
#include "ir/schedule/graph.h"

namespace tegula::ir {
namespace {

/// Set of anchors by number: ops are numbered in order, followed by the carried tiles.
using Anchors = std::set<std::size_t>;

class Sets {
 public:
  Sets(const Kernel& k, RegionId region, const std::function<bool(OpId)>& is_anchor)
      : k_(k), region_(region) {
    for (OpId op : k.ops(region)) {
      index_[op] = ops_.size();
      ops_.push_back(op);
      anchor_.push_back(is_anchor(op));
      reads_.push_back(used_by(k, op));
    }
    before_.resize(ops_.size());
    behind_.resize(ops_.size());
    parent_.resize(ops_.size());
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }

  std::unordered_map<OpId, OpId> run() {
    reach();
    join();
    std::unordered_map<OpId, OpId> first;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_member(i)) first[ops_[i]] = ops_[root(i)];
    return first;
  }

 private:
  bool is_member(std::size_t i) const {
    const OpData& d = k_[ops_[i]];
    return !anchor_[i] && !before_[i].empty() && !d.results.empty() && info(d.opcode).has(kPure) &&
           k_.type(d.results[0]).is_tile();
  }

  /// Returns the index of the op that makes the value, or ops_.size() if the op is not in the
  /// region.
  std::size_t def(Value v) const {
    const OpId op = k_[v].def;
    const auto found = op ? index_.find(op) : index_.end();
    return found == index_.end() ? ops_.size() : found->second;
  }

  /// Returns the number of a tile that the loop carries, greater than those of ops, or 0 if the
  /// value is not a carried tile.
  std::size_t carried(Value v) const {
    const OpId owner = k_[region_].owner;
    const bool is_carry = !k_[v].def && k_[v].region == region_ && owner && is_loop(k_[owner]);
    return is_carry && k_.type(v).is_tile() ? ops_.size() + 1 + k_[v].position : 0;
  }

  void reach() {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      for (Value v : reads_[i]) {
        if (const std::size_t carry = carried(v)) before_[i].insert(carry);
        const std::size_t from = def(v);
        if (from == ops_.size()) continue;
        before_[i].insert(before_[from].begin(), before_[from].end());
        if (anchor_[from]) before_[i].insert(from);
      }
    for (std::size_t i = ops_.size(); i-- > 0;)
      for (Value v : reads_[i]) {
        const std::size_t from = def(v);
        if (from == ops_.size()) continue;
        behind_[from].insert(behind_[i].begin(), behind_[i].end());
        if (anchor_[i]) behind_[from].insert(i);
      }
  }

  void join() {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      for (Value v : reads_[i]) {
        const std::size_t from = def(v);
        if (from == ops_.size() || !is_member(i) || !is_member(from)) continue;
        if (before_[i] != before_[from] || behind_[i] != behind_[from]) continue;
        const auto [low, high] = std::minmax({root(i), root(from)});
        parent_[high] = low;
      }
  }

  std::size_t root(std::size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }

  const Kernel& k_;
  RegionId region_;
  std::vector<OpId> ops_;
  std::vector<bool> anchor_;
  std::vector<std::vector<Value>> reads_;
  std::unordered_map<OpId, std::size_t> index_;
  std::vector<Anchors> before_, behind_;
  std::vector<std::size_t> parent_;
};

}  // namespace

std::unordered_map<OpId, OpId> elementwise_sets(const Kernel& k, RegionId region,
                                                const std::function<bool(OpId)>& is_anchor) {
  return Sets(k, region, is_anchor).run();
}

}  // namespace tegula::ir
