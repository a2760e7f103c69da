#pragma once
// Facts that the groups of rules share. Private to judge.
#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/passes/schedule/producer_warps.h"
#include "ir/schedule/judge.h"

namespace tegula::ir {

/// Bytes of a row that the narrowest swizzle moves together.
inline constexpr std::int64_t kSwizzleBytes = 32;

/// The place at which a node of a scheduled loop runs. A node that the Schedule does not list runs
/// just before its earliest consumer; `order` lies between the consumers' neighbours then.
struct Place {
  std::size_t role = 0;
  int stage = 0;
  double order = 0;
  int in_flight = 0;

  /// In steady state, whether the node at this place runs in iteration i - distance before that at
  /// `other` in iteration i.
  bool comes_before(const Place& other, int distance) const {
    return std::pair(stage - distance, order) < std::pair(other.stage, other.order);
  }
};

class Judging {
 public:
  Judging(const Kernel& kernel, const Graph& graph, const Schedule& schedule)
      : k(kernel), g(graph), s(schedule) {}

  const Kernel& k;
  const Graph& g;
  const Schedule& s;
  Verdict verdict;

  /// The lines of the first two labels become those of the reason.
  template <class... Args>
  void refuse(Rule rule, std::initializer_list<Label> labels, fmt::format_string<Args...> text,
              Args&&... args) {
    add({rule, fmt::format(text, std::forward<Args>(args)...), labels});
  }
  bool is_legal() const { return verdict.reasons.empty(); }

  /// Call it once labels are known to be right.
  void place_nodes();
  /// Place of a node of a scheduled loop; nothing for other nodes.
  const std::optional<Place>& place(std::size_t node) const { return places_[node]; }
  /// Nodes of a scheduled loop's body, and those of a role sorted by order.
  std::vector<std::size_t> nodes_of(const LoopSchedule& loop) const;
  std::vector<std::size_t> nodes_in_order(const LoopSchedule& loop, std::size_t role) const;
  OpId op_of(Label label) const { return g[*g.find(label)].ops.front(); }
  /// Warps of all roles.
  int total_warps() const;
  /// The tile that a node makes.
  Type tile_of(std::size_t node) const { return k.type(k[g[node].ops.back()].results[0]); }
  Label label(std::size_t node) const { return g[node].label; }
  std::string_view role_name(std::size_t role) const { return s.roles[role].name.str(); }
  int warpgroups(std::size_t role) const { return s.roles[role].warps / kWarpgroupWarps; }

  /// The channel through which a node's tile goes; null if there is none.
  const Channel* channel_of(Label payload) const { return s.find_channel(payload); }
  /// The nodes whose tile operand `operand` of a dot is: the source first, then permutations and
  /// conversions behind it; and the channel that brings one of them through shared memory, or null.
  struct Operand {
    OperandSource source;
    std::vector<std::size_t> nodes;
    const Channel* shared = nullptr;
  };
  Operand operand(OpId dot, std::size_t operand) const;
  /// Steps behind an iteration's number, and an order in that step.
  using Moment = std::pair<int, double>;
  /// The place behind which the MMA of a dot is complete. MMAs of a warpgroup retire in order:
  /// where somebody waits for it or for a later one.
  Moment retired(const LoopSchedule& loop, std::size_t dot) const;
  /// A load that a channel brings: a copy, which no warp computes.
  bool is_copy(std::size_t node) const;
  /// Edges whose ends both stand in the loop.
  std::vector<Edge> edges_of(const LoopSchedule& loop) const;
  /// Flow edges to those that read what the node makes.
  auto reads_of(std::size_t node) const {
    return g.edges() | std::views::filter([node](const Edge& e) {
             return e.from == node && e.kind == EdgeKind::Flow;
           });
  }
  /// A dot that takes the edge's value as its accumulator: it waits for nothing.
  bool adds_to(const Edge& e) const;
  /// The role of the dots, which has all nodes that stand in no scheduled loop, too.
  std::size_t role_of_dots() const;

 private:
  void add(Reason reason);
  std::optional<Place> default_place(std::size_t node) const;
  Moment waited_for(std::size_t dot) const;
  std::vector<std::optional<Place>> places_;
};

// The groups, in their order.
void judge_labels(Judging& j);
void judge_order(Judging& j);
void judge_memory_order(Judging& j);
void judge_scalars(Judging& j);
/// Rule G10, and the minimal slots of every channel, which rule C4 compares.
void judge_cycles(Judging& j);
void judge_dots(Judging& j);
void judge_conditions(Judging& j);
void judge_channels(Judging& j);
/// Stored tiles and their readers (rules C5, C6, P).
void judge_slots(Judging& j);
void judge_resources(Judging& j);
void judge_tiles(Judging& j);

}  // namespace tegula::ir
