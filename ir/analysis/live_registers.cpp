#include "ir/analysis/live_registers.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/loop.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kRegisterBits = 32;

class Liveness {
 public:
  explicit Liveness(const Kernel& k) : k_(k) {
    region(k.body());
    locs_.resize(static_cast<std::size_t>(now_ + 1));
  }

  LivePeak peak() const {
    std::vector<std::int64_t> change(static_cast<std::size_t>(now_ + 2));
    for (const auto& [value, span] : spans_) {
      if (span.last <= span.first) continue;
      change[static_cast<std::size_t>(span.first)] += span.registers;
      change[static_cast<std::size_t>(span.last)] -= span.registers;
    }
    LivePeak peak;
    std::int64_t live = 0;
    for (std::size_t at = 0; at < locs_.size(); ++at) {
      live += change[at];
      if (live > peak.registers) peak = {live, locs_[at]};
    }
    return peak;
  }

 private:
  /// Live behind the ops `first` .. `last` - 1.
  struct Span {
    std::int64_t registers = 0, first = 0, last = 0;
    std::size_t depth = 0;  ///< loops around the definition
  };

  void region(RegionId r) {
    for (Value v : k_[r].args) define(v);
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      for (Value v : d.operands) use(v);
      if (!d.regions.empty()) {
        const bool loops = is_loop(d);
        if (loops) loops_.push_back({});
        for (RegionId inner : d.regions) region(inner);
        if (loops) end_loop();
      }
      ++now_;
      locs_.resize(static_cast<std::size_t>(now_ + 1));
      locs_[static_cast<std::size_t>(now_)] = d.loc;
      for (Value v : d.results) define(v);
    }
  }

  /// What a loop reads from outside is live until its end.
  void end_loop() {
    const std::vector<Value> outer = std::move(loops_.back());
    loops_.pop_back();
    for (Value v : outer) use(v, now_ + 1);
  }

  void define(Value v) {
    spans_[v] = {registers_of(v), now_, now_, loops_.size()};
  }
  void use(Value v) { use(v, now_ + 1); }
  void use(Value v, std::int64_t at) {
    const auto found = spans_.find(v);
    if (found == spans_.end()) return;
    Span& span = found->second;
    span.last = std::max(span.last, at);
    if (span.depth < loops_.size()) loops_.back().push_back(v);
  }

  /// Constants, predicates and what all lanes of a warp know take none of a thread's registers;
  /// what follows from scalars alone is computed where it is needed.
  std::int64_t registers_of(Value v) {
    Type type = k_.type(v);
    if (type.is(TypeKind::Pending)) type = type.inner();
    if (!type.is_scalar() && !type.is_vec()) return 0;
    const OpId def = k_[v].def;
    const bool is_cheap = def && is_computed_anew(def);
    if (is_cheap) cheap_[v] = true;
    if (is_cheap || (!type.is_pointer() && type.dtype() == DType::i1)) return 0;
    const std::int64_t bits = type.is_pointer() ? 2 * kRegisterBits : size_bits(type.dtype());
    return (type.count() * bits + kRegisterBits - 1) / kRegisterBits;
  }

  bool is_computed_anew(OpId def) const {
    const OpData& d = k_[def];
    if (d.opcode == Opcode::Const || info(d.opcode).has(kUniform)) return true;
    if (!d.regions.empty() || !info(d.opcode).has(kPure) || !k_.type(d.results[0]).is_vec())
      return false;
    return std::ranges::all_of(d.operands, [&](Value v) {
      return !k_.type(v).is_vec() || (cheap_.contains(v) && !k_.type(v).is(TypeKind::Pending));
    });
  }

  const Kernel& k_;
  std::int64_t now_ = 0;
  std::unordered_map<Value, Span> spans_;
  std::unordered_map<Value, bool> cheap_;
  std::vector<std::vector<Value>> loops_;  ///< values of outside that each open loop reads
  std::vector<Loc> locs_;
};

}  // namespace

LivePeak live_peak(const Kernel& simt) { return Liveness(simt).peak(); }

}  // namespace tegula::ir
