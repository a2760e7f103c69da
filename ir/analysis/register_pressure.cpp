#include "ir/analysis/register_pressure.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/reduce_kind.h"

namespace tegula::ir {
namespace {

bool is_sync_point(Opcode o) {
  using enum Opcode;
  return o == Reduce || o == ArgReduce || o == Scan || o == Sort || o == KeyRanks ||
         is_fold_by_function(o);
}

bool is_loaded(Opcode o) { return o == Opcode::LoadView || o == Opcode::Load; }

/// Live range of a tile, from its definition to its last use in program order.
struct LiveSpan {
  std::int64_t registers = 0, first = 0, last = 0;
  bool is_loaded = false;
};

class LiveSpans {
 public:
  LiveSpans(const Kernel& k, std::int64_t threads) : k_(k), threads_(threads) { region(k.body()); }

  std::optional<std::int64_t> most() const {
    if (sync_points_.empty()) return std::nullopt;
    std::vector<LiveSpan> held = others_;
    for (const auto& [value, span] : spans_)
      if (span.is_loaded || waits(span)) held.push_back(span);
    std::int64_t most = 0;
    for (std::int64_t at = 0; at < now_; ++at) {
      std::int64_t sum = 0;
      for (const LiveSpan& s : held)
        if (s.first < at && at <= s.last) sum += s.registers;
      most = std::max(most, sum);
    }
    return most;
  }

 private:
  bool waits(const LiveSpan& s) const {
    return std::ranges::any_of(sync_points_,
                               [&](std::int64_t at) { return s.first < at && at < s.last; });
  }

  void use(Value v, std::int64_t at) {
    if (const auto found = spans_.find(v); found != spans_.end())
      found->second.last = std::max(found->second.last, at);
  }

  /// A value that a loop or a branch reads from outside is live to the end of the loop or branch.
  void region(RegionId r) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      const std::int64_t at = now_++;
      for (RegionId inner : d.regions) region(inner);
      std::vector<Value> read(d.operands.begin(), d.operands.end());
      for (RegionId inner : d.regions)
        walk(k_, inner, [&](OpId o) {
          read.insert(read.end(), k_[o].operands.begin(), k_[o].operands.end());
        });
      const std::int64_t end = d.regions.empty() ? at : now_ - 1;
      if (d.is(Opcode::For, Opcode::While)) carries(d, at, end);
      for (Value v : read)
        if (spans_.contains(v) && spans_.at(v).first <= at) use(v, end);
      if (is_sync_point(d.opcode)) sync_points_.push_back(at);
      if (d.opcode == Opcode::Sort) keep_keys(d.operands[0], at);
      for (Value v : d.results) make(v, d.opcode, end);
    }
  }

  /// Loop carries are live throughout the loop.
  void carries(const OpData& d, std::int64_t at, std::int64_t end) {
    for (Value v : d.results)
      if (k_.type(v).is_tile()) others_.push_back({registers_of(k_.type(v)), at, end, true});
  }

  /// A sort holds keys and indices in addition to its operand.
  void keep_keys(Value operand, std::int64_t at) {
    const Type t = k_.type(operand);
    if (t.is_tile()) others_.push_back({2 * registers_of(t), at - 1, at, true});
  }
  std::int64_t registers_of(Type t) const {
    const std::int64_t bits = t.count() * size_bits(t.dtype());
    return (bits + 32 * threads_ - 1) / (32 * threads_);
  }

  void make(Value v, Opcode by, std::int64_t at) {
    const Type t = k_.type(v);
    if (!t.is_tile() || by == Opcode::Const || by == Opcode::Arange) return;
    spans_[v] = {registers_of(t), at, at, is_loaded(by)};
  }

  const Kernel& k_;
  std::int64_t threads_, now_ = 0;
  std::unordered_map<Value, LiveSpan> spans_;
  std::vector<std::int64_t> sync_points_;
  std::vector<LiveSpan> others_;
};

}  // namespace

std::optional<std::int64_t> register_pressure(const Kernel& k, std::int64_t threads) {
  return LiveSpans(k, threads).most();
}

}  // namespace tegula::ir
