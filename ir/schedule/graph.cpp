#include "ir/schedule/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/access.h"
#include "ir/analysis/memory_hazards.h"
#include "ir/layout/conversion.h"
#include "ir/loop.h"
#include "ir/schedule/elementwise_sets.h"

namespace tegula::ir {
namespace {

constexpr std::array<std::string_view, 8> kNodeKinds{"load", "dot", "reduce", "store",
                                                     "cvt",  "if",  "loop",   "ew"};
/// Chains of carries that pass a value on are followed for at most this many iterations.
constexpr int kMaxDistance = 3;

/// Returns the kind of the node that the op starts, or nothing for other ops.
std::optional<NodeKind> anchor_kind(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  const bool makes_tile = !d.results.empty() && k.type(d.results[0]).is_tile();
  if (d.is(Opcode::LoadView, Opcode::Load) && makes_tile) return NodeKind::Load;
  if (d.is(Opcode::Dot)) return NodeKind::Dot;
  if (d.is(Opcode::Reduce, Opcode::ArgReduce, Opcode::ReduceWith, Opcode::Scan, Opcode::ScanWith,
           Opcode::Sort, Opcode::KeyRanks, Opcode::ClusterReduceScatter, Opcode::ClusterGather))
    return NodeKind::Reduce;
  if (d.is(Opcode::StoreView, Opcode::Store, Opcode::AtomicView, Opcode::AtomicRmw,
           Opcode::ArriveAndTestLast))
    return NodeKind::Store;
  if (d.is(Opcode::ConvertLayout)) return NodeKind::Convert;
  if (d.is(Opcode::If)) return NodeKind::If;
  if (is_loop(d)) return NodeKind::Loop;
  return std::nullopt;
}

/// Returns the load whose tile the op permutes or converts, if both are in one region; else a null
/// op.
OpId handed_on(const Kernel& k, OpId op) {
  OpId source = op;
  while (source && k[source].is(Opcode::Permute, Opcode::ConvertLayout))
    source = k[k[source].operands[0]].def;
  const bool is_load = source && source != op && k[source].opcode == Opcode::LoadView;
  return is_load && k[source].parent == k[op].parent && k.type(k[source].results[0]).is_tile()
             ? source
             : OpId();
}

/// Returns true for the tile loop of a persistent kernel that passes wrapped around the author's
/// ops. It does not become a node, so that labels are the same as without it.
bool is_loop_around_all(const Kernel& k, OpId op) {
  if (!is_loop(k[op]) || !is_tile_loop(k, op)) return false;
  for (OpId inner : k.ops(k[op].regions.back()))
    if (k[inner].opcode == Opcode::Dot) return false;
  return true;
}

void sort_unique(auto& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

std::string_view name(NodeKind kind) { return kNodeKinds[static_cast<std::size_t>(kind)]; }

std::vector<Value> used_by(const Kernel& k, OpId op) {
  std::vector<Value> used;
  any_op(k, op, [&](OpId o) {
    used.insert(used.end(), k[o].operands.begin(), k[o].operands.end());
    return false;
  });
  return used;
}

OperandSource source_of(const Kernel& k, OpId dot, std::size_t operand) {
  OperandSource source;
  Value v = k[dot].operands[operand];
  OpId maker = k[v].def;
  while (maker && k[maker].is(Opcode::Permute, Opcode::ConvertLayout)) {
    if (k[maker].opcode == Opcode::Permute) source.transposed = !source.transposed;
    v = k[maker].operands[0];
    maker = k[v].def;
  }
  using Kind = OperandSource::Kind;
  source.op = maker;
  source.tile = v;
  if (home_of(k, v) != k[dot].parent)
    source.kind = Kind::Invariant;
  else if (maker && k[maker].opcode == Opcode::LoadView)
    source.kind = access_of(k, k[maker]).gathered_dim() >= 0 ? Kind::Gather : Kind::Memory;
  return source;
}

bool is_in_operand_layout(const Kernel& k, OpId dot, std::size_t operand) {
  const OperandSource source = source_of(k, dot, operand);
  const Type tile = k.type(source.tile);
  const LinearLayout *from = tile.layout(), *to = k.type(k[dot].operands[operand]).layout();
  if (source.transposed || !from || !to) return !source.transposed;
  ConversionOptions within_threads;
  within_threads.allow_shuffles = within_threads.allow_shared = false;
  return bool(plan_conversion(*from, *to, size_bytes(tile.dtype()), within_threads));
}

Graph::Graph(const Kernel& k, NodesOnly) : k_(k), counts_(kNodeKinds.size()) {
  add_region(k.body());
}

void Graph::connect() {
  std::vector<RegionId> regions;
  for (const Node& node : nodes_)
    if (std::ranges::find(regions, node.region) == regions.end()) regions.push_back(node.region);
  for (RegionId region : regions) {
    add_edges(region);
    add_memory_edges(region);
  }
}

std::optional<std::size_t> Graph::find(Label label) const {
  const auto found = std::ranges::find(nodes_, label, &Node::label);
  if (found == nodes_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - nodes_.begin());
}

std::optional<std::size_t> Graph::find(OpId op) const {
  const auto found = node_of_.find(op);
  return found == node_of_.end() ? std::nullopt : std::optional(found->second);
}

Label Graph::label_of(OpId op) const {
  const auto node = find(op);
  return node ? nodes_[*node].label : Label();
}

std::vector<std::size_t> Graph::nodes_of(RegionId region) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].region == region) found.push_back(i);
  return found;
}

std::size_t Graph::add_node(NodeKind kind, RegionId region, OpId op) {
  const auto number = counts_[static_cast<std::size_t>(kind)]++;
  nodes_.push_back({Label(fmt::format("{}#{}", name(kind), number)), kind, region, {op}});
  node_of_[op] = nodes_.size() - 1;
  return nodes_.size() - 1;
}

void Graph::add_region(RegionId region) {
  const auto is_anchor = [&](OpId op) {
    return anchor_kind(k_, op).has_value() || handed_on(k_, op);
  };
  const auto sets = elementwise_sets(k_, region, is_anchor);
  for (OpId op : k_.ops(region)) {
    if (const OpId load = handed_on(k_, op)) {
      node_of_[op] = node_of_.at(load);
      nodes_[node_of_[op]].ops.push_back(op);
    } else if (is_loop_around_all(k_, op)) {
      add_region(k_[op].regions.back());
    } else if (const auto kind = anchor_kind(k_, op)) {
      add_node(*kind, region, op);
      if (*kind != NodeKind::If && *kind != NodeKind::Loop) continue;
      for (RegionId inner : k_[op].regions) add_region(inner);
    } else if (const auto set = sets.find(op); set != sets.end()) {
      if (set->second == op) {
        add_node(NodeKind::Elementwise, region, op);
      } else {
        node_of_[op] = node_of_.at(set->second);
        nodes_[node_of_[op]].ops.push_back(op);
      }
    }
  }
}

void Graph::add_edge(const Edge& edge) {
  const auto is_same = [&](const Edge& e) {
    return e.from == edge.from && e.to == edge.to && e.distance == edge.distance &&
           e.kind == edge.kind;
  };
  if (std::ranges::none_of(edges_, is_same)) edges_.push_back(edge);
}

void Graph::add_edges(RegionId region) {
  std::unordered_map<Value, Producers> made;
  const OpId owner = k_[region].owner;
  const bool in_loop = owner && is_loop(k_[owner]) && region == k_[owner].regions.back();
  const auto carries = in_loop ? body_carries(k_, owner) : std::span<const Value>();
  for (std::size_t i = 0; i < carries.size(); ++i)
    made[carries[i]] = {{-1 - static_cast<std::int64_t>(i), 0}};
  struct Read {
    std::size_t by;
    Value value;
  };
  std::vector<Read> reads_of_nodes;
  for (OpId op : k_.ops(region)) {
    const auto node = find(op);
    Producers all;
    for (Value v : used_by(k_, op)) {
      const auto found = made.find(v);
      if (found == made.end()) continue;
      if (node) reads_of_nodes.push_back({*node, v});
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
    sort_unique(all);
    if (node) all = {{static_cast<std::int64_t>(*node), 0}};
    for (Value v : k_[op].results) made[v] = all;
  }
  const auto nexts = in_loop ? loop_nexts(k_, owner) : decltype(loop_nexts(k_, owner))();
  const auto connect = [&](auto& self, const Producer& p, const Read& read, int distance) -> void {
    if (p.index >= 0) {
      const auto from = static_cast<std::size_t>(p.index);
      if (from != read.by || distance > 0)
        add_edge({from, read.by, distance, EdgeKind::Flow, read.value});
      return;
    }
    if (distance == kMaxDistance) return;
    const auto next = made.find(nexts[static_cast<std::size_t>(-1 - p.index)]);
    if (next == made.end()) return;
    for (const Producer& before : next->second) self(self, before, read, distance + 1);
  };
  for (const Read& read : reads_of_nodes)
    for (const Producer& p : made.at(read.value)) connect(connect, p, read, p.distance);
}

void Graph::add_memory_edges(RegionId region) {
  const OpId owner = k_[region].owner;
  const bool in_loop = owner && is_loop(k_[owner]) && region == k_[owner].regions.back();
  MemoryHazards hazards(k_);
  struct Access {
    std::size_t node;
    MemoryAccess what;
  };
  std::vector<Access> all;
  for (OpId op : k_.ops(region)) {
    const auto node = find(op);
    if (!node) continue;
    any_op(k_, op, [&](OpId inner) {
      if (const MemoryAccess* found = hazards.access(inner)) all.push_back({*node, *found});
      return false;
    });
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) {
      const Access &a = all[i], &b = all[j];
      if (i < j && a.node != b.node && hazards.may_collide(a.what, b.what))
        add_edge({a.node, b.node, 0, EdgeKind::Memory, {}});
      if (in_loop && !has_independent_iterations(k_, owner) &&
          hazards.may_collide(a.what, b.what, owner))
        add_edge({a.node, b.node, 1, EdgeKind::Memory, {}});
    }
}

}  // namespace tegula::ir
