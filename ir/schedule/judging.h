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

/// Width of the narrowest swizzle, in bytes of a row.
inline constexpr std::int64_t kSwizzleBytes = 32;

/// The role, stage and order at which a node of a scheduled loop runs. A node that the Schedule
/// does not list runs just before its earliest consumer and has a fractional `order`.
struct Place {
  std::size_t role = 0;
  int stage = 0;
  double order = 0;
  int in_flight = 0;

  /// Returns true if, in the steady state, the node at this place runs for iteration i - distance
  /// before the node at `other` runs for iteration i.
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

  /// Adds a reason. Its source locations are those of the first two labels.
  template <class... Args>
  void refuse(Rule rule, std::initializer_list<Label> labels, fmt::format_string<Args...> text,
              Args&&... args) {
    add({rule, fmt::format(text, std::forward<Args>(args)...), labels});
  }
  bool is_legal() const { return verdict.reasons.empty(); }

  /// Computes the places of all nodes. Requires valid labels.
  void place_nodes();
  /// Returns the place of a node of a scheduled loop; empty for other nodes.
  const std::optional<Place>& place(std::size_t node) const { return places_[node]; }
  /// Returns the nodes of a scheduled loop's body, or only those of one role, sorted by order.
  std::vector<std::size_t> nodes_of(const LoopSchedule& loop) const;
  std::vector<std::size_t> nodes_in_order(const LoopSchedule& loop, std::size_t role) const;
  OpId op_of(Label label) const { return g[*g.find(label)].ops.front(); }
  /// Returns the number of warps of all roles, copies included.
  int total_warps() const;
  /// Returns the type of the tile that a node makes.
  Type tile_of(std::size_t node) const { return k.type(k[g[node].ops.back()].results[0]); }
  Label label(std::size_t node) const { return g[node].label; }
  std::string_view role_name(std::size_t role) const { return s.roles[role].name.str(); }
  int warpgroups(std::size_t role) const { return s.roles[role].warps / kWarpgroupWarps; }

  /// Returns the channel that carries a node's tile, or null.
  const Channel* channel_of(Label payload) const { return s.find_channel(payload); }
  /// The nodes that make a dot's operand: the source first, then the permutations and conversions
  /// of its tile. `shared` is the channel that carries one of them through shared memory, or null.
  struct Operand {
    OperandSource source;
    std::vector<std::size_t> nodes;
    const Channel* shared = nullptr;
  };
  Operand operand(OpId dot, std::size_t operand) const;
  /// A step, as an offset from the iteration number, and an order within that step.
  using Moment = std::pair<int, double>;
  /// Returns the moment after which the MMA of a dot is complete: the first wait for it or for a
  /// later MMA, because the MMAs of a warpgroup retire in order.
  Moment retired(const LoopSchedule& loop, std::size_t dot) const;
  /// Returns true for a load by TMA or cp.async, which copies asynchronously.
  bool is_copy(std::size_t node) const;
  /// Returns the edges between nodes of the loop's body that have places.
  std::vector<Edge> edges_of(const LoopSchedule& loop) const;
  /// Returns the flow edges from the node to its readers.
  auto reads_of(std::size_t node) const {
    return g.edges() | std::views::filter([node](const Edge& e) {
             return e.from == node && e.kind == EdgeKind::Flow;
           });
  }
  /// Returns true if the edge ends at a dot that takes the value as its accumulator. Such a dot
  /// does not wait for the value.
  bool adds_to(const Edge& e) const;
  /// Returns the role of the dots, which also runs all nodes outside of scheduled loops.
  std::size_t role_of_dots() const;

 private:
  void add(Reason reason);
  std::optional<Place> default_place(std::size_t node) const;
  Moment waited_for(std::size_t dot) const;
  std::vector<std::optional<Place>> places_;
};

// The groups of rules. judge() defines the order in which they are checked.
void judge_labels(Judging& j);
void judge_order(Judging& j);
void judge_memory_order(Judging& j);
void judge_scalars(Judging& j);
/// Checks rule G10, and computes the minimum slots of every channel for rule C4.
void judge_cycles(Judging& j);
void judge_dots(Judging& j);
void judge_conditions(Judging& j);
void judge_channels(Judging& j);
/// Checks stored tiles and their readers (rules C5, C6, P1, P2).
void judge_slots(Judging& j);
void judge_resources(Judging& j);
void judge_tiles(Judging& j);

}  // namespace tegula::ir
