#include "ir/passes/cluster_split_k/cluster_hazards.h"

#include <algorithm>
#include <string_view>

#include "ir/analysis/memory_hazards.h"

namespace tegula::ir {

namespace {

class ClusterHazards {
 public:
  ClusterHazards(const Kernel& k, ClusterSlicer& share, std::span<const PartialStore> stores)
      : k_(k), share_(share), stores_(stores) {}

  /// Another CTA may have stored already.
  std::string why_reads_conflict(std::span<const OpId> loops) {
    bool summed = false, stored = false;
    std::string why;
    const auto look = [&](OpId op) {
      if (!why.empty() || !reads_memory(k_, op)) return;
      if (stored) why = "it reads memory behind a store";
      for (const PartialStore& store : stores_)
        if (summed && may_touch(op, store)) why = "it also stores what it reads after its mainloop";
    };
    for (OpId op : k_.ops(k_.body())) {
      look(op);
      for (RegionId r : k_[op].regions) walk(k_, r, look);
      summed = summed || std::ranges::count(loops, op) > 0;
      stored = stored || std::ranges::count(stores_, op, &PartialStore::op) > 0;
    }
    return why;
  }

  std::string why_stores_conflict() const {
    for (std::size_t i = 0; i < stores_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (may_collide(stores_[i], stores_[j])) return "it stores the same memory twice";
    return "";
  }

 private:
  /// Whether the read may touch the store, unless it is the box that the same CTA stores.
  bool may_touch(OpId read, const PartialStore& store) {
    const OpData &r = k_[read], &s = k_[store.op];
    if (s.opcode != Opcode::StoreView) return true;
    if (r.opcode != Opcode::LoadView) return share_memory(read, store.op);
    if (r.operands[0] != s.operands[0]) return false;
    return !is_box(r, 1, k_.type(r.results[0]), s) ||
           share_.cuts_of(read) != std::set<int>{store.dim};
  }

  bool may_collide(const PartialStore& x, const PartialStore& y) const {
    const OpData &a = k_[x.op], &b = k_[y.op];
    if (!share_memory(x.op, y.op) ||
        (is_any_order(a) && a.opcode == b.opcode && kind(a) == kind(b)))
      return false;
    if (x.dim != y.dim || a.opcode != b.opcode) return true;
    if (a.opcode == Opcode::StoreView) return !is_box(a, 2, k_.type(a.operands[1]), b);
    return a.operands[0] != b.operands[0];
  }

  /// A tile of `type` at the offsets from operand `first` on is the box that is stored.
  bool is_box(const OpData& d, std::ptrdiff_t first, Type type, const OpData& stored) const {
    const Type kept = k_.type(stored.operands[1]);
    const auto rank = static_cast<std::ptrdiff_t>(k_.type(stored.operands[0]).rank());
    const auto offsets = d.operands.begin() + first;
    return type.is_tile() && std::ranges::equal(type.shape(), kept.shape()) &&
           std::ranges::equal(d.attrs.ints(AttrName::axes), stored.attrs.ints(AttrName::axes)) &&
           std::equal(offsets, offsets + rank, stored.operands.begin() + 2);
  }

  static std::string_view kind(const OpData& d) { return d.attrs.s(AttrName::kind); }
  /// Whether an operation's old values are unused, so that its order does not matter.
  static bool is_any_order(const OpData& d) {
    const std::string_view k = kind(d);
    return k == "add" || k == "max" || k == "min" || k == "and" || k == "or" || k == "xor";
  }

  bool share_memory(OpId x, OpId y) const {
    const auto of_x = memory_roots(k_, k_[x].operands[0]),
               of_y = memory_roots(k_, k_[y].operands[0]);
    if (!of_x || !of_y) return true;
    return std::ranges::any_of(
        *of_x, [&](Value v) { return std::ranges::count(*of_y, v) > 0 || may_be_others(v); });
  }
  bool may_be_others(Value v) const {
    return std::ranges::any_of(k_.params(), [&](const Param& p) {
      return p.value == v && p.attrs.s(AttrName::kind) == kMayAlias;
    });
  }

  const Kernel& k_;
  ClusterSlicer& share_;
  std::span<const PartialStore> stores_;
};

}  // namespace

bool reads_memory(const Kernel& k, OpId op) {
  const OpInfo& row = info(k[op].opcode);
  return row.has(kReads) && !row.has(kWrites);
}

std::string why_ctas_conflict(const Kernel& k, ClusterSlicer& share,
                              std::span<const PartialStore> stores, std::span<const OpId> loops) {
  ClusterHazards memory(k, share, stores);
  const std::string why = memory.why_reads_conflict(loops);
  return why.empty() ? memory.why_stores_conflict() : why;
}

}  // namespace tegula::ir
