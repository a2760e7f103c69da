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

/// The kind of a node gives its label: load#0, dot#0, reduce#0, store#0, cvt#0, if#0, loop#0, ew#0,
/// each kind numbered in text order. Elementwise: a maximal connected set of pure tile ops with the
/// same anchors (nodes of other kinds, tiles that the loop carries) before it, and the same behind
/// it.
enum class NodeKind : std::uint8_t { Load, Dot, Reduce, Store, Convert, If, Loop, Elementwise };
std::string_view name(NodeKind kind);

struct Node {
  Label label;
  NodeKind kind;
  RegionId region;
  /// In text order. A load has with it the permutations and conversions of a dot's operand.
  std::vector<OpId> ops;
};

/// Flow: `to` reads what `from` makes. Memory: the accesses may touch the same element, one of them
/// writing.
enum class EdgeKind : std::uint8_t { Flow, Memory };

/// `to` in iteration i + distance needs `from` of iteration i of the loop around both.
struct Edge {
  std::size_t from, to;
  int distance = 0;
  EdgeKind kind = EdgeKind::Flow;
  Value value = {};  ///< of a flow edge: what `to` reads
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// The source of operand A or B of a dot.
struct OperandSource {
  /// Memory: a box loaded in the dot's region; Gather: rows that an index tile selects; Invariant:
  /// made outside of the region; Computed: all others.
  enum class Kind : std::uint8_t { Memory, Gather, Invariant, Computed };
  Kind kind = Kind::Computed;
  /// The load, or the op behind which permutations and conversions stand, or none; and its tile.
  OpId op;
  Value tile;
  bool transposed = false;
};
/// Strips conversions and permutations off operand `operand` (0: A, 1: B) of a dot.
OperandSource source_of(const Kernel& k, OpId dot, std::size_t operand);
/// Whether threads have the operand's tile as the dot reads it: it is not transposed, and its
/// conversion exchanges nothing. In tile form it lies as the dot wants it.
bool lies_as_read(const Kernel& k, OpId dot, std::size_t operand);

/// Values that the op reads, itself or in nested ops.
std::vector<Value> used_by(const Kernel& k, OpId op);

/// Nodes and edges of a kernel in tile form, or in machine form before its dots are pipelined.
/// Edges connect nodes of one region; what nested regions read and write belongs to the node of the
/// op that owns them.
class Graph {
 public:
  explicit Graph(const Kernel& k) : Graph(without_edges(k)) { connect(); }
  /// The nodes alone: who asks for labels needs no edges, which take most of the time.
  static Graph without_edges(const Kernel& k) { return Graph(k, NodesOnly()); }

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Edge> edges() const { return edges_; }
  const Node& operator[](std::size_t index) const { return nodes_[index]; }
  /// Index of the node with this label, or of the node that has the op.
  std::optional<std::size_t> find(Label label) const;
  std::optional<std::size_t> find(OpId op) const;
  /// The label of the node that has the op; empty where none has.
  Label label_of(OpId op) const;
  /// Nodes of the region, in text order.
  std::vector<std::size_t> nodes_of(RegionId region) const;

 private:
  /// A node (index >= 0) or a carry of the loop (-1 - position) that a value depends on, and how
  /// many iterations before.
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
