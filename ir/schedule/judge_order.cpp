// Rules G except for cycles: every node runs after the nodes that it depends on.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/schedule/judging.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

/// Largest distance in stages between dots and arithmetic of a role. Each stage of distance
/// requires another peeled iteration.
constexpr int kMaxSkew = 2;

class Order {
 public:
  explicit Order(Judging& j) : j_(j) {}

  void run() {
    for (const LoopSchedule& loop : j_.s.loops) {
      places(loop);
      flow(loop);
      skew(loop);
    }
    tokens();
    cadences();
  }

 private:
  void places(const LoopSchedule& loop) {
    std::map<std::pair<int, int>, Label> taken;
    for (const Step& step : loop.steps) {
      const auto [found, is_new] = taken.try_emplace({step.role, step.order}, step.op);
      if (!is_new)
        j_.refuse(Rule::G11, {found->second, step.op}, "{} and {} are both number {} of {}",
                  found->second, step.op, step.order, j_.role_name(step.role));
    }
  }

  void flow(const LoopSchedule& loop) {
    for (const Edge& e : j_.edges_of(loop)) {
      if (e.kind != EdgeKind::Flow) continue;
      const Place &from = *j_.place(e.from), &to = *j_.place(e.to);
      const Label u = j_.label(e.from), v = j_.label(e.to);
      if (from.role != to.role) {
        across_roles(e, u, v);
      } else if (!j_.is_copy(e.from) && !from.comes_before(to, e.distance)) {
        j_.refuse(Rule::G1, {v, u},
                  "{} at {}.{:.0f} needs {} of {} iterations before, which runs at "
                  "{}.{:.0f}",
                  v, to.stage, to.order, u, e.distance, from.stage, from.order);
      }
    }
  }

  void across_roles(const Edge& e, Label u, Label v) {
    const Place &from = *j_.place(e.from), &to = *j_.place(e.to);
    if (!j_.k.type(e.value).is_tile()) return;
    const bool is_accumulator =
        j_.g[e.from].kind == NodeKind::Dot && (e.distance > 0 || j_.adds_to(e));
    if (is_accumulator)
      j_.refuse(Rule::G3, {u, v}, "{} is an accumulator that {} carries", u,
                j_.role_name(from.role));
    else if (!j_.channel_of(u))
      j_.refuse(Rule::G2, {v, u}, "{} in {} reads {} of {}: give it an smem channel", v,
                j_.role_name(to.role), u, j_.role_name(from.role));
  }

  /// Returns true for nodes that are peeled off a loop instead of being predicated.
  bool is_straight(std::size_t n) const {
    const NodeKind kind = j_.g[n].kind;
    return kind != NodeKind::Load && kind != NodeKind::Store;
  }

  bool is_conditional(OpId loop) const {
    for (RegionId r = j_.k[loop].parent; j_.k[r].owner; r = j_.k[j_.k[r].owner].parent)
      if (j_.k[j_.k[r].owner].opcode == Opcode::If) return true;
    return j_.k[loop].opcode == Opcode::While;
  }

  void skew(const LoopSchedule& loop) {
    for (std::size_t role = 0; role < j_.s.roles.size(); ++role) {
      std::optional<int> low, high;
      const std::vector<std::size_t> nodes = j_.nodes_in_order(loop, role);
      for (std::size_t n : nodes) {
        if (!is_straight(n)) continue;
        const int stage = j_.place(n)->stage;
        low = std::min(low.value_or(stage), stage);
        high = std::max(high.value_or(stage), stage);
      }
      if (!low) continue;
      if (*high - *low > kMaxSkew)
        j_.refuse(Rule::G5, {loop.loop},
                  "stages {} .. {} in {}: dots and arithmetic may be {} stages apart", *low, *high,
                  j_.role_name(role), kMaxSkew);
      if (*high > *low && is_conditional(j_.op_of(loop.loop)))
        j_.refuse(Rule::G7, {loop.loop},
                  "{}: under a condition there is no iteration to overlap with", loop.loop);
      for (std::size_t n : nodes) only_copies_lead(n, *low, *high);
    }
  }

  void only_copies_lead(std::size_t n, int low, int high) {
    const int stage = j_.place(n)->stage;
    const Channel* c = j_.channel_of(j_.label(n));
    if (is_straight(n) || j_.is_copy(n) || c || (stage >= low && stage <= high)) return;
    j_.refuse(Rule::G6, {j_.label(n)}, "{} {} by {} stages and is not a copy", j_.label(n),
              stage < low ? "leads" : "lags", stage < low ? low - stage : stage - high);
  }

  /// The loop and the range of orders of a token. A token over whole loops has no range.
  struct Range {
    OpId loop;
    double first = 0, last = 0;
  };

  std::optional<Range> range_of(const Token& t) {
    const std::size_t first = *j_.g.find(t.first), last = *j_.g.find(t.last);
    const bool are_loops = j_.g[first].kind == NodeKind::Loop && j_.g[last].kind == NodeKind::Loop;
    if (are_loops) {
      const bool in_order = j_.g[first].region == j_.g[last].region && first <= last;
      if (!in_order) out_of_order(t);
      return std::nullopt;
    }
    const auto &a = j_.place(first), &b = j_.place(last);
    if (!a || !b || j_.g[first].region != j_.g[last].region || a->role != t.role ||
        b->role != t.role || a->order > b->order) {
      out_of_order(t);
      return std::nullopt;
    }
    return Range{j_.k[j_.g[first].region].owner, a->order, b->order};
  }
  void out_of_order(const Token& t) {
    j_.refuse(Rule::G11, {t.first, t.last}, "token {}: {} .. {} is not a range of {}", t.name,
              t.first, t.last, j_.role_name(t.role));
  }

  void tokens() {
    std::vector<std::pair<const Token*, Range>> ranges;
    for (const Token& t : j_.s.tokens)
      if (const auto range = range_of(t)) ranges.emplace_back(&t, *range);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const auto& [t, a] = ranges[i];
        const auto& [u, b] = ranges[j];
        if (t->role == u->role && a.loop == b.loop && a.first <= b.last && b.first <= a.last)
          j_.refuse(Rule::G11, {t->first, u->first}, "token {} and token {} overlap", u->name,
                    t->name);
      }
  }

  void cadences() {
    for (const Channel& c : j_.s.channels) {
      const std::size_t first = *j_.g.find(c.payload.front());
      for (Label l : c.payload) {
        const std::size_t node = *j_.g.find(l);
        const auto &at = j_.place(node), &at_first = j_.place(first);
        if (at && at_first && at->role != at_first->role)
          j_.refuse(Rule::G9, {c.payload.front(), l}, "{} is filled by {} and by {}", c.name,
                    j_.role_name(at_first->role), j_.role_name(at->role));
        if (is_of_stores(c.kind) || j_.g[node].region == j_.g[first].region) continue;
        j_.refuse(Rule::G9, {c.payload.front(), l},
                  "{} is filled by {} and by {}, which are in different loops", c.name,
                  c.payload.front(), l);
      }
    }
  }

  Judging& j_;
};

}  // namespace

void judge_order(Judging& j) { Order(j).run(); }

void judge_memory_order(Judging& j) {
  for (const LoopSchedule& loop : j.s.loops)
    for (const Edge& e : j.edges_of(loop)) {
      if (e.kind != EdgeKind::Memory) continue;
      const Place &from = *j.place(e.from), &to = *j.place(e.to);
      const bool is_ahead = j.is_copy(e.to) || from.role != to.role;
      if (!is_ahead && from.comes_before(to, e.distance)) continue;
      j.refuse(Rule::G8, {j.label(e.to), j.label(e.from)}, "{} may access what {} {} accesses",
               j.label(e.to), j.label(e.from),
               e.distance > 0 ? "of the previous iteration" : "of the same iteration");
    }
}

}  // namespace tegula::ir
