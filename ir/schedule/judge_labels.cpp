// Rules L: everything that a Schedule names exists.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

class Labels {
 public:
  explicit Labels(Judging& j) : j_(j) {}

  void run() {
    names();
    for (const DotForm& d : j_.s.dots) {
      expect(d.dot, NodeKind::Dot);
      once(dots_, d.dot, "the section dots");
    }
    for (const Channel& c : j_.s.channels) channel(c);
    for (const LoopSchedule& loop : j_.s.loops) steps(loop);
    for (const Token& t : j_.s.tokens) {
      role(t.role, "a token");
      expect(t.first);
      expect(t.last);
    }
    if (!j_.s.loops.empty()) idle_roles();
  }

 private:
  void names() {
    names_of("role", j_.s.roles);
    names_of("channel", j_.s.channels);
    names_of("token", j_.s.tokens);
  }
  void names_of(std::string_view what, const auto& all) {
    std::set<Name> seen;
    for (const auto& named : all)
      if (!seen.insert(named.name).second)
        j_.refuse(Rule::L2, {}, "there are two {}s {}", what, named.name);
  }

  void role(std::size_t index, std::string_view what) {
    if (index >= j_.s.roles.size())
      j_.refuse(Rule::L2, {}, "{} is of role {}, but there are {}", what, index, j_.s.roles.size());
  }

  /// Checks that the label is that of a node, and that the node has the given kind, if any.
  bool expect(Label label, std::optional<NodeKind> kind = {}) {
    const auto node = j_.g.find(label);
    if (node && (!kind || j_.g[*node].kind == *kind)) return true;
    j_.refuse(Rule::L1, {}, "{}",
              node ? fmt::format("{} is not of kind {}", label, name(*kind))
                   : fmt::format("{}: the kernel has {}", label, others(label)));
    return false;
  }

  /// Returns the range of labels of the same kind: "dot#0 .. dot#2", or "no dot".
  std::string others(Label label) const {
    const std::string_view kind = label.str().substr(0, label.str().find('#'));
    std::vector<Label> all;
    for (const Node& n : j_.g.nodes())
      if (name(n.kind) == kind) all.push_back(n.label);
    if (all.empty()) return fmt::format("no {}", kind);
    return all.size() == 1 ? fmt::format("{}", all.front())
                           : fmt::format("{} .. {}", all.front(), all.back());
  }

  void once(std::set<Label>& seen, Label label, std::string_view where) {
    if (!seen.insert(label).second)
      j_.refuse(Rule::L1, {label}, "{} occurs twice in {}", label, where);
  }

  void channel(const Channel& c) {
    using enum ChannelKind;
    for (Label l : c.payload) {
      if (c.kind == Tma || c.kind == CpAsync)
        expect(l, NodeKind::Load);
      else if (c.kind == Store || c.kind == Reduce)
        expect(l, NodeKind::Store);
      else
        expect(l);
      once(payload_, l, "channels");
    }
  }

  void steps(const LoopSchedule& loop) {
    if (!expect(loop.loop, NodeKind::Loop)) return;
    once(loops_, loop.loop, "the schedule");
    const RegionId body = j_.k[j_.op_of(loop.loop)].regions.back();
    for (const Step& step : loop.steps) {
      role(step.role, step.op.str());
      used_.insert(step.role);
      if (!expect(step.op)) continue;
      once(steps_, step.op, "loops");
      if (j_.g[*j_.g.find(step.op)].region != body)
        j_.refuse(Rule::L1, {step.op, loop.loop}, "{} does not occur in {}", step.op, loop.loop);
    }
  }

  void idle_roles() {
    for (std::size_t i = 0; i < j_.s.roles.size(); ++i)
      if (!used_.contains(i)) j_.refuse(Rule::L2, {}, "role {} has no step", j_.role_name(i));
  }

  Judging& j_;
  std::set<Label> dots_, payload_, loops_, steps_;
  std::set<std::size_t> used_;
};

}  // namespace

void judge_labels(Judging& j) { Labels(j).run(); }

}  // namespace tegula::ir
