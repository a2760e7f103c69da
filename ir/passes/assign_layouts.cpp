// Gives every tile a layout. Before: tile form. After: machine form; every tile type has a layout,
// operands of one op agree, and a convert_layout is inserted wherever a value is needed in a layout
// other than that in which it is computed. Free ops (constants, ranges, broadcasts) are
// rematerialized in each layout that is needed.
#include <fmt/format.h>

#include <map>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/tma_store.h"
#include "ir/builder.h"
#include "ir/erase_unused.h"
#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/loop.h"
#include "ir/passes/layouts/infer_operand_layout.h"
#include "ir/passes/layouts/layout_assignment.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"
#include "ir/schedule/graph.h"
#include "ir/schedule/staging_rings.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

using Layout = const LinearLayout*;

class Assigner {
 public:
  Assigner(const Kernel& from, PassContext& context)
      : from_(from),
        context_(context),
        choice_(from, context),
        to_(from.info.name, Form::Machine),
        b_(to_) {
    to_.info = from.info;
    to_.info.preferred = {};
  }

  Kernel run() {
    for (const Param& p : from_.params())
      map_[p.value] = to_.add_param(p.name, from_.type(p.value), p.attrs);
    for (RegionId launch = from_.launch(); from_[launch].first;) {
      b_.at_end(to_.launch());
      region(launch);
      break;
    }
    b_.at_end(to_.body());
    region(from_.body());
    for (Value condition : unchecked_)
      if (const auto made = map_.find(condition); made != map_.end())
        erase_unused(to_, made->second);
    hoist_conversions(to_.body());
    return std::move(to_);
  }

 private:
  // ---- required values
  Layout own_layout(Value v) const { return choice_.of(v); }

  /// Returns the value in the layout, or the scalar.
  Value get(Value v, Layout wanted) {
    if (!from_.type(v).is_tile()) return map_.at(v);
    const Layout own = own_layout(v);
    if (own == wanted && own) return map_.at(v);
    for (auto scope = made_.rbegin(); scope != made_.rend(); ++scope)
      if (const auto it = scope->find({v, wanted}); it != scope->end()) return it->second;
    const Value made = own ? converted(v, wanted) : remade(v, wanted);
    made_.back()[{v, wanted}] = made;
    return made;
  }

  Value converted(Value v, Layout wanted) {
    const Type type = from_.type(v).with_layout(wanted);
    return b_.op(Opcode::ConvertLayout, {map_.at(v)}, type);
  }

  /// Clones the op of a free value, with its operands in the layouts that `wanted` requires.
  Value remade(Value v, Layout wanted) {
    const OpId def = from_[v].def;
    if (!def) throw InternalError("a region argument without layout");
    const OpData& d = from_[def];
    std::vector<Value> operands;
    for (Value operand : d.operands)
      operands.push_back(get(operand, operand_layout(d, operand, wanted)));
    std::vector<Type> types;
    for (Value r : d.results)
      types.push_back(from_.type(r).is_tile() ? from_.type(r).with_layout(wanted) : from_.type(r));
    const Loc saved = std::exchange(b_.loc, d.loc);
    const OpId made = b_.create(d.opcode, operands, types, d.attrs);
    b_.loc = saved;
    return to_[made].results[from_[v].position];
  }

  Layout operand_layout(const OpData& d, Value operand, Layout wanted) const {
    return from_.type(operand).is_tile() ? infer_operand_layout(from_, d, operand, *wanted)
                                         : nullptr;
  }

  // ---- ops --------------------------------------------------------------------------------------
  void region(RegionId r) {
    made_.emplace_back();
    for (OpId op : from_.ops(r)) place(op);
    made_.pop_back();
  }

  void place(OpId op) {
    const OpData& d = from_[op];
    b_.loc = d.loc;
    if (!d.regions.empty() && !is_fold_by_function(d.opcode)) return structured(op);
    const bool tile_result = !d.results.empty() && from_.type(d.results[0]).is_tile();
    if (tile_result && !own_layout(d.results[0])) return;  // free: made when needed
    if (d.opcode == Opcode::Yield) return yield(op);
    if (d.opcode == Opcode::Assume && !context_.keep_checks &&
        from_.type(d.operands[0]).is_tile()) {
      unchecked_.push_back(d.operands[0]);
      return;  // later passes do not use it
    }
    std::vector<Value> operands;
    for (std::size_t i = 0; i < d.operands.size(); ++i)
      operands.push_back(get(d.operands[i], wanted_by(d, i)));
    std::vector<Type> types;
    for (Value v : d.results) types.push_back(result_type(v));
    if (is_fold(d.opcode)) follow_operand(types, operands[0], d.attrs);
    const OpId made = b_.create(d.opcode, operands, types, d.attrs);
    for (std::size_t i = 0; i < d.results.size(); ++i) {
      Value& result = map_[d.results[i]] = to_[made].results[i];
      const Type promised = result_type(d.results[i]);
      if (to_.type(result) != promised) result = b_.op(Opcode::ConvertLayout, {result}, promised);
    }
    if (is_fold_by_function(d.opcode)) copy_scalar_region(d.regions[0], to_.add_region(made));
    if (d.opcode == Opcode::Dot) remark_dot(d);
    if (d.opcode == Opcode::StoreView && context_.plan->tma_store) mark_store(d, made);
  }

  static bool is_fold(Opcode o) {
    return o == Opcode::Reduce || o == Opcode::ArgReduce || o == Opcode::ReduceWith;
  }

  /// The result of a reduction follows the operand's layout, whatever was chosen before that layout
  /// was settled.
  void follow_operand(std::vector<Type>& types, Value operand, const AttrList& attrs) const {
    const Type t = to_.type(operand);
    if (!t.is_tile() || !t.layout()) return;
    const Layout left =
        intern_layout(slice(*t.layout(), static_cast<int>(attrs.i(AttrName::axis))));
    for (Type& result : types)
      if (result.is_tile()) result = result.with_layout(left);
  }

  Type result_type(Value v) const {
    const Type t = from_.type(v);
    return t.is_tile() ? t.with_layout(own_layout(v)) : t;
  }

  /// Returns the layout in which operand i should arrive.
  Layout wanted_by(const OpData& d, std::size_t i) {
    const Value operand = d.operands[i];
    if (!from_.type(operand).is_tile()) return nullptr;
    using enum Opcode;
    if (d.opcode == Dot) {
      const DotLayouts layouts = choice_.dot(d);
      return i == 0 ? layouts.a : i == 1 ? layouts.b : layouts.acc;
    }
    if (d.opcode == StoreView && i == 1) return choice_.store(d);
    if (d.is(StoreView, LoadView))
      return index_tile_layout(
          d.opcode == StoreView ? *choice_.store(d) : *own_layout(d.results[0]),
          access_of(from_, d).gathered_dim());
    if (d.opcode == Sort) return choice_.sorted(d);
    if (d.opcode == Store && d.attrs.find(AttrName::align))
      return choice_.by_runs(
          d, from_.type(d.operands[0]).with_dtype(from_.type(d.operands[1]).dtype()));
    if (d.opcode == ClusterGather) return intern_layout(slice(*own_layout(d.results[i]), 0));
    if (LayoutAssignment::is_of_parts(d)) return choice_.part_operand(d, i);
    if (d.is(Reduce, ArgReduce, ReduceWith, Store, AtomicStore, ClusterReduceScatter, Assume))
      return common(d);
    if (d.is(ExpandDims, Permute, Reshape)) {
      const Layout own = own_layout(operand);
      const bool follows = d.opcode != Reshape ||
                           !layout_before_reshape(from_.type(operand), *own_layout(d.results[0]));
      if (own && follows) return own;
      return operand_layout(d, operand, own_layout(d.results[0]));
    }
    return own_layout(d.results[0]);
  }

  /// Returns the layout of ops whose result does not determine one: that of the first operand that
  /// has one.
  Layout common(const OpData& d) const {
    for (Value v : d.operands)
      if (from_.type(v).is_tile())
        if (const Layout l = own_layout(v)) return l;
    for (Value v : d.operands)
      if (from_.type(v).is_tile()) return choice_.standard(from_.type(v));
    return nullptr;
  }

  void yield(OpId op) {
    const OpData& d = from_[op];
    const OpId owner = from_[d.parent].owner;
    std::vector<Value> operands;
    for (std::size_t i = 0; i < d.operands.size(); ++i) {
      Layout wanted = nullptr;
      if (owner && i < from_[owner].results.size() && from_.type(d.operands[i]).is_tile())
        wanted = result_layout(owner, i);
      operands.push_back(get(d.operands[i], wanted));
    }
    b_.yield(operands);
  }

  /// Returns the layout of a loop carry or branch result; the standard layout if nothing determined
  /// it.
  Layout result_layout(OpId owner, std::size_t i) const {
    const Value v = from_[owner].results[i];
    const Layout l = own_layout(v);
    return l ? l : choice_.standard(from_.type(v));
  }

  void structured(OpId op) {
    const OpData& d = from_[op];
    std::vector<Type> types;
    for (std::size_t i = 0; i < d.results.size(); ++i)
      types.push_back(from_.type(d.results[i]).is_tile()
                          ? from_.type(d.results[i]).with_layout(result_layout(op, i))
                          : from_.type(d.results[i]));
    const std::size_t first = is_loop(d) ? first_init(d.opcode) : d.operands.size();
    std::vector<Value> operands;
    for (std::size_t i = 0; i < d.operands.size(); ++i)
      operands.push_back(get(d.operands[i], i >= first && types[i - first].is_tile()
                                                ? types[i - first].layout()
                                                : nullptr));
    const OpId made = b_.create(d.opcode, operands, types, d.attrs);
    const RegionId outer = b_.region();
    for (RegionId r : d.regions) {
      const RegionId inner = to_.add_region(made);
      for (std::size_t i = 0; i < from_[r].args.size(); ++i) {
        const std::size_t skip = first_carry(d.opcode);
        const Type t = i < skip ? from_.type(from_[r].args[i]) : types[i - skip];
        map_[from_[r].args[i]] = to_.add_arg(inner, t);
      }
      b_.at_end(inner);
      region(r);
    }
    b_.at_end(outer);
    for (std::size_t i = 0; i < d.results.size(); ++i) map_[d.results[i]] = to_[made].results[i];
  }

  /// Hoists conversions of values from outside a loop, so that they run once before the loop.
  void hoist_conversions(RegionId r) {
    for (OpId op : to_.ops(r)) {
      if (is_fold_by_function(to_[op].opcode)) continue;
      for (RegionId inner : to_[op].regions) hoist_conversions(inner);
      if (!is_loop(to_[op])) continue;
      std::vector<OpId> converts;
      for (RegionId inner : to_[op].regions) conversions(inner, true, converts);
      for (OpId convert : converts) {
        if (!to_.is_visible_from(to_[convert].operands[0], op)) continue;
        to_.unlink(convert);
        to_.insert_before(op, convert);
      }
    }
  }

  /// Collects conversions of the region, and those in its branches that cost few registers. A
  /// conversion through shared memory synchronizes all warps in every iteration that takes the
  /// branch.
  void conversions(RegionId r, bool always, std::vector<OpId>& found) const {
    constexpr std::int64_t kFewElements = 1024;
    for (OpId op : to_.ops(r)) {
      const OpData& d = to_[op];
      if (d.opcode == Opcode::ConvertLayout &&
          (always || to_.type(d.results[0]).count() <= kFewElements))
        found.push_back(op);
      if (d.opcode == Opcode::If)
        for (RegionId branch : d.regions) conversions(branch, false, found);
    }
  }

  void copy_scalar_region(RegionId from, RegionId to) {
    const RegionId outer = b_.region();
    for (Value arg : from_[from].args) map_[arg] = to_.add_arg(to, from_.type(arg));
    b_.at_end(to);
    for (OpId op : from_.ops(from)) {
      std::vector<Value> operands;
      for (Value v : from_[op].operands) operands.push_back(map_.at(v));
      std::vector<Type> types;
      for (Value v : from_[op].results) types.push_back(from_.type(v));
      const OpId made = b_.create(from_[op].opcode, operands, types, from_[op].attrs);
      for (std::size_t i = 0; i < types.size(); ++i)
        map_[from_[op].results[i]] = to_[made].results[i];
    }
    b_.at_end(outer);
  }

  void mark_store(const OpData& d, OpId made) {
    const Type stored = from_.type(d.operands[1]);
    if (!stored.is_tile() || stored.rank() != 2) return;
    const bool by_tma = choice_.is_by_tma(d);
    if (by_tma) to_[made].attrs.set(AttrName::tma, std::int64_t{1});
    const std::string_view why_not = why_not_tma_store(from_, d);
    context_.remark(by_tma ? Remark::Kind::Applied : Remark::Kind::Missed, d.loc,
                    by_tma ? "stored by TMA" : "not stored by TMA",
                    {{"tile", stored.str()},
                     {"why", by_tma              ? "the plan requests it"
                             : has_no_channel(d) ? "the Schedule has no channel for it"
                             : why_not.empty()   ? "has another layout than accumulators"
                                                 : std::string(why_not)}});
  }

  /// Returns true if the author's Schedule has threads store it.
  bool has_no_channel(const OpData& store) const {
    const Schedule* requested = context_.planned.schedule.get();
    return requested && !store_channel(*requested, store);
  }

  void remark_dot(const OpData& d) {
    const bool fast = choice_.dot(d).tensor_core;
    context_.remark(
        fast ? Remark::Kind::Applied : Remark::Kind::Missed, d.loc,
        fast ? "dot by tensor cores" : "dot by FMA",
        {{"a", from_.type(d.operands[0]).str()}, {"b", from_.type(d.operands[1]).str()}});
  }

  const Kernel& from_;
  PassContext& context_;
  LayoutAssignment choice_;
  Kernel to_;
  Builder b_;
  std::unordered_map<Value, Value> map_;
  std::vector<std::map<std::pair<Value, Layout>, Value>> made_;
  std::vector<Value> unchecked_;  ///< conditions of dropped assumes
};

/// Attaches the labels by which a Schedule assigns channels to stores.
void label_stores(Kernel& k) {
  const Graph graph = Graph::without_edges(k);
  for (const Node& node : graph.nodes())
    if (node.kind == NodeKind::Store)
      k[node.ops.front()].attrs.set(AttrName::label, node.label.str());
}

}  // namespace

bool assign_layouts(Kernel& kernel, PassContext& context) {
  if (context.planned.schedule) label_stores(kernel);
  if (!context.plan) context.plan = Plan{.num_warps = std::max(1, kernel.info.threads / 32)};
  kernel = Assigner(kernel, context).run();
  return true;
}

}  // namespace tegula::ir
