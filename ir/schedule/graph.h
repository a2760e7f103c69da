#pragma once
// Dependence graph of a kernel's body: the nodes that a Schedule places, and the edges that it must
// keep.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/kernel.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// The kind of a node determines its label: load#0, dot#0, reduce#0, store#0, cvt#0, if#0, loop#0,
/// ew#0, with each kind numbered in text order. An Elementwise node is a maximal connected set of
/// pure tile ops that depend on the same anchors (nodes of other kinds, tiles that the loop
/// carries) and that the same anchors depend on.
enum class NodeKind : std::uint8_t { Load, Dot, Reduce, Store, Convert, If, Loop, Elementwise };
std::string_view name(NodeKind kind);

struct Node {
  Label label;
  NodeKind kind;
  RegionId region;
  /// In text order. A load node includes the permutations and layout conversions of its tile.
  std::vector<OpId> ops;
};

/// Flow: `to` reads a result of `from`. Memory: both may access the same element, and at least one
/// of them writes it.
enum class EdgeKind : std::uint8_t { Flow, Memory };

/// `to` in iteration i + distance depends on `from` in iteration i of the loop that contains both.
struct Edge {
  std::size_t from, to;
  int distance = 0;
  EdgeKind kind = EdgeKind::Flow;
  Value value = {};  ///< of a flow edge: the value that `to` reads
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// The source of operand A or B of a dot.
struct OperandSource {
  /// Memory: a box loaded in the dot's region; Gather: rows that an index tile selects; Invariant:
  /// defined outside of the region; Computed: all others.
  enum class Kind : std::uint8_t { Memory, Gather, Invariant, Computed };
  Kind kind = Kind::Computed;
  /// The op that defines the tile before permutations and conversions, or null; and that tile.
  OpId op;
  Value tile;
  bool transposed = false;
};
/// Finds the source of operand `operand` (0: A, 1: B) of a dot, before conversions and
/// permutations.
OperandSource source_of(const Kernel& k, OpId dot, std::size_t operand);
/// Returns true if each thread already holds the elements that the dot reads: the operand is not
/// transposed, and its conversion moves no data between threads. Without layouts (tile form), only
/// the transposition is checked.
bool is_in_operand_layout(const Kernel& k, OpId dot, std::size_t operand);

/// Returns the operands of the op and of all ops nested in it.
std::vector<Value> used_by(const Kernel& k, OpId op);

/// Nodes and edges of a kernel in tile form, or in machine form before its dots are pipelined.
/// Edges connect nodes of one region. Reads and writes in a nested region are attributed to the
/// node of the op that owns the region.
class Graph {
 public:
  explicit Graph(const Kernel& k) : Graph(without_edges(k)) { connect(); }
  /// Builds nodes only. Edges dominate construction time, and label lookups do not need them.
  static Graph without_edges(const Kernel& k) { return Graph(k, NodesOnly()); }

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Edge> edges() const { return edges_; }
  const Node& operator[](std::size_t index) const { return nodes_[index]; }
  /// Returns the index of the node with this label, or of the node that contains the op.
  std::optional<std::size_t> find(Label label) const;
  std::optional<std::size_t> find(OpId op) const;
  /// Returns the label of the node that contains the op, or an empty label.
  Label label_of(OpId op) const;
  /// Returns the nodes of the region in text order.
  std::vector<std::size_t> nodes_of(RegionId region) const;

 private:
  /// A node (index >= 0) or a carry of the loop (-1 - position) that a value depends on, and the
  /// number of iterations between them.
  struct Producer {
    std::int64_t index;
    int distance;
    friend bool operator==(const Producer&, const Producer&) = default;
    friend auto operator<=>(const Producer&, const Producer&) = default;
  };
  using Producers = std::vector<Producer>;

  struct NodesOnly {};
  Graph(const Kernel& k, NodesOnly);
  void connect();
  void add_region(RegionId region);
  std::size_t add_node(NodeKind kind, RegionId region, OpId op);
  void add_edges(RegionId region);
  void add_edge(const Edge& edge);
  void add_memory_edges(RegionId region);

  const Kernel& k_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::unordered_map<OpId, std::size_t> node_of_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace tegula::ir
