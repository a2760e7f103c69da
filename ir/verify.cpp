// Invariants of the three forms. Every violation is reported; nothing is repaired.
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/layout/dims.h"
#include "ir/loop.h"
#include "ir/made_view.h"
#include "ir/reduce_kind.h"
#include "ir/text.h"

namespace tegula::ir {
namespace {

bool legal_in(Type t, Form form) {
  switch (t.kind()) {
    case TypeKind::Scalar:
      return true;
    case TypeKind::Tile:
      return form != Form::Simt;
    case TypeKind::View:
      return form != Form::Simt;
    case TypeKind::Shared:
      return form == Form::Machine;
    default:
      return true;  // registers, pending values, tensor maps: expert ops are legal in every form
  }
}

/// Compares types without their layouts, which are assigned, not inferred.
bool same_without_layout(Type a, Type b) {
  if (a.is_tile() && b.is_tile())
    return a.elem() == b.elem() && std::ranges::equal(a.shape(), b.shape());
  return a == b;
}

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k), visible_(k.value_count(), false) {}

  std::vector<Diagnostic> run() {
    for (const Param& p : k_.params()) visible_[p.value.index] = true;
    cluster();
    if (k_[k_.launch()].first) region(k_.launch(), kNoOp);
    region(k_.body(), kNoOp);
    pending_is_linear();
    return std::move(found_);
  }

 private:
  static constexpr OpId kNoOp{};

  void report(OpId op, std::string message) {
    found_.push_back({"", fmt::format("{}: {}", print_op(k_, op), message), k_[op].loc, {}, ""});
  }

  void cluster() {
    const int n = k_.info.cluster;
    if (n != 1 && n != 2 && n != 4 && n != 8)
      found_.push_back(
          {"", fmt::format("a cluster cannot have {} programs: 1, 2, 4 or 8", n), {}, {}, ""});
  }

  void region(RegionId r, OpId owner) {
    for (Value v : k_[r].args) visible_[v.index] = true;
    for (OpId op : k_.ops(r)) {
      check(op, r, owner);
      for (Value v : k_[op].results) visible_[v.index] = true;
    }
    for (Value v : k_[r].args) visible_[v.index] = false;
    for (OpId op : k_.ops(r))
      for (Value v : k_[op].results) visible_[v.index] = false;
  }

  void check(OpId op, RegionId r, OpId owner) {
    const OpData& d = k_[op];
    const OpInfo& row = info(d.opcode);
    const int operands = static_cast<int>(d.operands.size());
    if (operands < row.operands.min || (row.operands.max >= 0 && operands > row.operands.max))
      return report(op, fmt::format("has {} operands, takes {}..{}", operands, row.operands.min,
                                    row.operands.max));
    if (row.results != kVariadic && static_cast<int>(d.results.size()) != row.results)
      return report(op,
                    fmt::format("has {} results, but returns {}", d.results.size(), row.results));
    if (row.regions != kVariadic && static_cast<int>(d.regions.size()) != row.regions)
      return report(op, fmt::format("has {} regions, takes {}", d.regions.size(), row.regions));
    if (!row.allowed_in(k_.info.form))
      report(op, fmt::format("is not legal in {} form", name(k_.info.form)));
    for (Value v : d.operands)
      if (v.index >= visible_.size() || !visible_[v.index])
        report(op, "uses a value that is not visible here");
    types(op, row);
    if (d.opcode == Opcode::ClusterReduceScatter) cluster_reduce_scatter(op, owner);
    if (d.opcode == Opcode::ClusterGather) cluster_gather(op, owner);
    if (d.opcode == Opcode::Reshape) reshape(op);
    if (d.opcode == Opcode::TileSlice) tile_slice(op);
    if (d.opcode == Opcode::MakeView) make_view(op);
    if (is_access(d.opcode)) access(op);
    if (row.has(kTerminator)) {
      if (k_[r].last != op) report(op, "is not the last op of its region");
      yields(op, owner);
    }
    for (RegionId inner : d.regions) region(inner, op);
    regions_end(op);
  }

  void types(OpId op, const OpInfo& row) {
    const OpData& d = k_[op];
    operand_types_.clear();
    for (Value v : d.operands) operand_types_.push_back(k_.type(v));
    for (Value v : d.results)
      if (!legal_in(k_.type(v), k_.info.form))
        report(op, fmt::format("result type {} is not legal in {} form", k_.type(v).str(),
                               name(k_.info.form)));
    if (!row.infer) return;
    const Inferred inferred = row.infer({operand_types_, d.attrs});
    if (!inferred.error.empty()) return report(op, inferred.error);
    if (inferred.types.size() != d.results.size())
      return report(op, fmt::format("has {} results, but its operands imply {}", d.results.size(),
                                    inferred.types.size()));
    for (std::size_t i = 0; i < d.results.size(); ++i)
      if (!same_without_layout(k_.type(d.results[i]), inferred.types[i]))
        report(op, fmt::format("result type {} should be {}", k_.type(d.results[i]).str(),
                               inferred.types[i].str()));
  }

  /// Checks a reshape, whose result type is given, not inferred.
  void reshape(OpId op) {
    const Type from = k_.type(k_[op].operands[0]), to = k_.type(k_[op].results[0]);
    if (!from.is_tile() || !to.is_tile() || from.elem() != to.elem() || from.count() != to.count())
      report(op, fmt::format("{} is not a reshape of {}", to.str(), from.str()));
  }

  void make_view(OpId op) {
    const OpData& d = k_[op];
    const Type view = k_.type(d.results[0]), pointer = k_.type(d.operands[0]);
    if (!view.is_view() || !view.view_facts().is_made)
      return report(op, "its result is not a made view");
    if (pointer != Type::pointer(view.dtype()))
      report(op, fmt::format("{} is not an address of {}", pointer.str(), name(view.dtype())));
    if (std::ssize(d.operands) != 1 + 2 * view.rank())
      return report(op, "takes an extent and a stride of each dimension");
    const ViewFacts& facts = view.view_facts();
    const auto is_none = [](std::int64_t n) { return n < 1; };
    if (facts.align < 1 || std::ranges::any_of(facts.dim_div, is_none) ||
        std::ranges::any_of(facts.stride_div, is_none))
      report(op, "has an alignment that is not a power of two");
    for (std::size_t i = 1; i < d.operands.size(); ++i) {
      const Type number = k_.type(d.operands[i]);
      const bool is_index =
          number == Type::scalar(DType::i32) || number == Type::scalar(DType::i64);
      if (!is_index || number != k_.type(d.operands[1]))
        return report(op, "takes extents and strides of one type, i32 or i64");
    }
  }

  /// Checks that offsets in a made view have the type of its extents, with which they are compared.
  void access(OpId op) {
    if (const std::string_view why_not = why_not_access(k_, k_[op]); !why_not.empty())
      return report(op, std::string(why_not));
    const BoxAccess a = access_of(k_, k_[op]);
    const OpId make = maker_of(k_, a.view);
    for (const AccessAxis& axis : a.axes)
      if (make && k_.type(axis.offset).elem() != k_.type(k_[make].operands[1]).elem())
        return report(op, "has offsets of another type than the view's extents");
  }

  void tile_slice(OpId op) {
    const Type from = k_.type(k_[op].operands[0]), to = k_.type(k_[op].results[0]);
    const auto offsets = k_[op].attrs.ints(AttrName::offsets);
    bool fits = from.is_tile() && to.is_tile() && from.elem() == to.elem() &&
                from.rank() == to.rank() && std::ssize(offsets) == from.rank();
    for (std::size_t d = 0; fits && d < offsets.size(); ++d)
      fits = offsets[d] >= 0 && offsets[d] + to.shape()[d] <= from.shape()[d];
    if (!fits) report(op, fmt::format("{} is not a box of {}", to.str(), from.str()));
  }

  void cluster_reduce_scatter(OpId op, OpId owner) {
    if (owner) report(op, "must be outside of loops and branches");
    const Type whole = k_.type(k_[op].operands[0]), part = k_.type(k_[op].results[0]);
    const std::int64_t axis = k_[op].attrs.i(AttrName::axis);
    if (!whole.is_tile() || axis < 0 || axis >= whole.rank())
      return report(op, "axis is out of range");
    Ints shape(whole.shape().begin(), whole.shape().end());
    std::int64_t& extent = shape[static_cast<std::size_t>(axis)];
    if (k_.info.cluster < 1) return;  // reported separately
    if (extent % k_.info.cluster != 0)
      return report(op, fmt::format("cannot cut {} into {}", extent, k_.info.cluster));
    extent /= k_.info.cluster;
    const Type wanted = Type::tile(whole.elem(), shape);
    if (!same_without_layout(part, wanted))
      report(op, fmt::format("result type {} should be {}", part.str(), wanted.str()));
  }

  void cluster_gather(OpId op, OpId owner) {
    if (owner) report(op, "must be outside of loops and branches");
    const OpData& d = k_[op];
    if (d.results.size() != d.operands.size())
      return report(
          op, fmt::format("has {} results for {} tiles", d.results.size(), d.operands.size()));
    for (std::size_t i = 0; i < d.results.size(); ++i) {
      const Type given = k_.type(d.operands[i]);
      if (!given.is_tile() || given.rank() == kMaxRank)
        return report(
            op, fmt::format("operand {} is not a tile of less than {} dimensions", i, kMaxRank));
      Ints shape{k_.info.cluster};
      shape.insert(shape.end(), given.shape().begin(), given.shape().end());
      const Type wanted = Type::tile(given.elem(), shape);
      if (!same_without_layout(k_.type(d.results[i]), wanted))
        report(op, fmt::format("result type {} should be {}", k_.type(d.results[i]).str(),
                               wanted.str()));
    }
  }

  /// Returns the types that a region of `owner` must yield.
  std::vector<Type> yielded(OpId owner, RegionId r) const {
    const OpData& d = k_[owner];
    std::vector<Type> types;
    if (d.opcode == Opcode::While && d.regions.front() == r) return {Type::scalar(DType::i1)};
    if (is_fold_by_function(d.opcode)) {
      for (Value v : d.results) types.push_back(Type::of(k_.type(v).elem()));
      return types;
    }
    for (Value v : d.results) types.push_back(k_.type(v));
    return types;
  }

  void yields(OpId op, OpId owner) {
    if (!owner) return;  // the launch region yields the grid, checked by its evaluator
    const auto wanted = yielded(owner, k_[op].parent);
    const OpData& d = k_[op];
    if (wanted.size() != d.operands.size())
      return report(op, fmt::format("yields {} values, its owner takes {}", d.operands.size(),
                                    wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (k_.type(d.operands[i]) != wanted[i])
        report(op, fmt::format("yields {} where its owner takes {}", k_.type(d.operands[i]).str(),
                               wanted[i].str()));
  }

  void regions_end(OpId op) {
    const OpData& d = k_[op];
    const bool needs_yield = !d.results.empty() || d.opcode == Opcode::While;
    for (RegionId r : d.regions)
      if (needs_yield && !k_.terminator(r)) report(op, "has a region that does not end in yield");
    if (is_loop(d)) loop_args(op);
  }

  void loop_args(OpId op) {
    const OpData& d = k_[op];
    for (RegionId r : d.regions) {
      std::vector<Type> wanted;
      if (d.opcode == Opcode::For) wanted.push_back(k_.type(d.operands[0]));
      for (Value v : loop_inits(d)) wanted.push_back(k_.type(v));
      std::vector<Type> args;
      for (Value v : k_[r].args) args.push_back(k_.type(v));
      if (args != wanted) report(op, "region arguments do not match the loop's carries");
    }
  }

  /// Checks that each pending value has one use, by one of the ops below. Uses in different regions
  /// of an `if` are counted separately.
  void pending_is_linear() {
    std::unordered_map<Value, std::vector<OpId>> uses;
    walk(k_, k_.body(), [&](OpId op) {
      for (Value v : k_[op].operands)
        if (k_.type(v).is(TypeKind::Pending)) uses[v].push_back(op);
    });
    for (const auto& [v, users] : uses) {
      for (OpId user : users) {
        const Opcode o = k_[user].opcode;
        if (o != Opcode::Wgmma && o != Opcode::WgmmaWait && o != Opcode::For &&
            o != Opcode::Yield && o != Opcode::WgmmaFence && o != Opcode::DotAsync &&
            o != Opcode::DotWait)
          report(user,
                 "uses a pending value; only a chained wgmma, a loop carry or wgmma_wait may");
      }
      if (users.size() > 1) report(users[1], "uses a pending value a second time");
    }
  }

  const Kernel& k_;
  std::vector<bool> visible_;  ///< by index of the value
  std::vector<Type> operand_types_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const Kernel& kernel) { return Verifier(kernel).run(); }

void verify_or_throw(const Kernel& kernel, std::string_view after) {
  const auto found = verify(kernel);
  if (found.empty()) return;
  std::string text = fmt::format("kernel {} is malformed{}{}:\n", kernel.info.name,
                                 after.empty() ? "" : " after ", after);
  for (const Diagnostic& d : found) text += "  " + d.str() + "\n";
  throw InternalError(text + print(kernel));
}

}  // namespace tegula::ir
