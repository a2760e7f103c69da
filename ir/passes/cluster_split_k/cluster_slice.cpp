#include "ir/passes/cluster_split_k/cluster_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/gathered_box.h"
#include "ir/passes/layouts/split_dim.h"

namespace tegula::ir {

namespace {

/// Each element of the result is of one element, or one line, of the operands; what reads does so
/// wherever it stands.
bool is_repeatable(const OpData& d) {
  using enum Opcode;
  return info(d.opcode).is_elementwise() ||
         d.is(Const, Poison, Arange, Splat, Broadcast, ExpandDims, Reshape, Permute, LoadView, Load,
              Reduce, ArgReduce, Scan) ||
         (d.opcode == AsmElementwise && d.attrs.i(AttrName::effects) == 0);
}

/// The dimension of the operand that keeps its elements' order, if one does.
std::optional<int> dim_before_reshape(Type from, Type to, int dim) {
  std::int64_t before = 1;
  for (int d = 0; d < dim; ++d) before *= to.shape()[static_cast<std::size_t>(d)];
  std::int64_t passed = 1;
  for (int d = 0; d < static_cast<int>(from.rank()); ++d) {
    const std::int64_t extent = from.shape()[static_cast<std::size_t>(d)];
    if (passed == before && extent == to.shape()[static_cast<std::size_t>(dim)]) return d;
    passed *= extent;
  }
  return std::nullopt;
}

}  // namespace

bool ClusterSlicer::fail(std::string why) {
  why_not_ = std::move(why);
  return false;
}

bool ClusterSlicer::depends(Value v) {
  if (accumulators_.contains(v)) return true;
  const OpId def = k_[v].def;
  if (!def) return false;
  if (const auto known = depends_.find(v); known != depends_.end()) return known->second;
  const auto any = [&](OpId op) {
    return std::ranges::any_of(k_[op].operands, [&](Value o) { return depends(o); });
  };
  const bool found = any_op(k_, def, any);
  return depends_[v] = found;
}

bool ClusterSlicer::is_computed_here(OpId def) const {
  return def && k_[def].parent == k_.body() && k_[def].regions.empty() && is_repeatable(k_[def]);
}

std::optional<int> ClusterSlicer::operand_dim(OpId op, Value operand, int dim) const {
  const OpData& d = k_[op];
  const Type t = k_.type(operand);
  if (!t.is_tile()) return kNotSplit;
  const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
  using enum Opcode;
  if (d.is(Reduce, ArgReduce)) return dim < axis ? dim : dim + 1;
  if (d.opcode == Scan && dim == axis) return std::nullopt;
  if (d.opcode == Reshape) return dim_before_reshape(t, k_.type(d.results[0]), dim);
  return dim_of_operand(k_, d, operand, dim);
}

std::optional<int> ClusterSlicer::result_dim(OpId op, Value operand, int dim) const {
  for (int d = 0; d < static_cast<int>(k_.type(k_[op].results[0]).rank()); ++d)
    if (operand_dim(op, operand, d) == dim) return d;
  return std::nullopt;
}

std::optional<int> ClusterSlicer::cut_dim(Value v) {
  if (const auto sum = accumulators_.find(v); sum != accumulators_.end()) return sum->second;
  const OpId def = k_[v].def;
  if (!is_computed_here(def)) {
    fail(def ? fmt::format("{} reads accumulators", info(k_[def].opcode).mnemonic)
             : "a loop carries accumulators");
    return std::nullopt;
  }
  std::optional<int> found;
  for (Value operand : k_[def].operands) {
    if (!depends(operand)) continue;
    const auto dim = cut_dim(operand);
    if (!dim) return std::nullopt;
    const auto here = k_.type(v).is_tile() ? result_dim(def, operand, *dim) : std::nullopt;
    if (!here || (found && found != here)) {
      fail(fmt::format("{} mixes rows of accumulators", info(k_[def].opcode).mnemonic));
      return std::nullopt;
    }
    found = here;
  }
  return found;
}

void ClusterSlicer::take_whole(Value v) {
  const OpId def = k_[v].def;
  if (!def || !whole_.insert(v).second) return;
  cuts_[def].insert(kNotSplit);
  const auto operands = [&](OpId op) {
    for (Value operand : k_[op].operands) take_whole(operand);
  };
  operands(def);
  for (RegionId r : k_[def].regions) walk(k_, r, operands);
}

bool ClusterSlicer::can_cut(Value v, int dim) {
  const Type t = k_.type(v);
  const OpId def = k_[v].def;
  if (!t.is_tile() || dim == kNotSplit) {
    take_whole(v);
    return !depends(v) || fail("each row of accumulators is combined with all rows of a tile");
  }
  if (can_[v].contains(dim)) return true;
  if (const auto sum = accumulators_.find(v); sum != accumulators_.end())
    return sum->second == dim || fail("rows of accumulators are combined with their columns");
  if (!is_computed_here(def))
    return fail("an operand of accumulators is computed in a loop, a branch or an MMA");
  const OpData& d = k_[def];
  if (t.shape()[static_cast<std::size_t>(dim)] % parts_ != 0)
    return fail("an operand of accumulators cannot be divided evenly");
  if (d.opcode == Opcode::LoadView && d.attrs.ints(AttrName::axes).size() != t.shape().size())
    return fail("a load has dimensions that its view lacks");
  if (d.opcode == Opcode::LoadView && gathered_dim(k_, d) >= 0)
    return fail("an index tile selects the rows of a load");
  cuts_[def].insert(dim);
  for (Value operand : d.operands) {
    const auto of_operand = operand_dim(def, operand, dim);
    if (!of_operand) return fail(fmt::format("{} mixes rows", info(d.opcode).mnemonic));
    if (!can_cut(operand, *of_operand)) return false;
  }
  can_[v].insert(dim);
  return true;
}

// ---- making
void ClusterSlicer::begin() {
  start_.before(k_[k_.body()].first);
  rank_ = start_.op(Opcode::ClusterRank, {}, Type::scalar(DType::i32));
}

Type ClusterSlicer::part_type(Type t, int dim) const {
  std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end());
  shape[static_cast<std::size_t>(dim)] /= parts_;
  return Type::tile(t.elem(), shape);
}

Value ClusterSlicer::rank_times(std::int64_t extent, DType dtype) {
  Value& made = multiples_[{extent, dtype}];
  if (!made)
    made = start_.mul(start_.cast(rank_, dtype), start_.constant(Type::scalar(dtype), extent));
  return made;
}

void ClusterSlicer::move_box(OpId op, std::size_t first, int dim, std::int64_t extent) {
  OpData& d = k_[op];
  const auto axis =
      static_cast<std::size_t>(d.attrs.ints(AttrName::axes)[static_cast<std::size_t>(dim)]);
  Builder b(k_, op);
  const Value offset = d.operands[first + axis];
  k_[op].operands[first + axis] = b.add(offset, rank_times(extent, k_.type(offset).dtype()));
  const bool is_contiguous = k_.type(k_[op].operands[0]).view_facts().strides[axis] == 1;
  AttrList& attrs = k_[op].attrs;
  if (const std::int64_t old = attrs.i(AttrName::offset_divisibility, 0); is_contiguous && old != 0)
    attrs.set(AttrName::offset_divisibility, std::gcd(old, extent));
}

Value ClusterSlicer::part(Value v, int dim) {
  if (!k_.type(v).is_tile() || dim == kNotSplit) return v;
  if (!made_[v].contains(dim)) remake(k_[v].def, dim);
  return made_[v].at(dim);
}

void ClusterSlicer::remake(OpId op, int dim) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
    const Value operand = k_[op].operands[i];
    operands.push_back(part(operand, *operand_dim(op, operand, dim)));
  }
  std::vector<Type> types;
  for (Value result : k_[op].results) types.push_back(part_type(k_.type(result), dim));
  Builder b(k_, op);
  const AttrList attrs = k_[op].attrs;
  const OpId made = b.create(k_[op].opcode, operands, types, attrs);
  for (std::size_t i = 0; i < types.size(); ++i)
    made_[k_[op].results[i]][dim] = k_[made].results[i];
  const std::int64_t extent = types[0].shape()[static_cast<std::size_t>(dim)];
  if (k_[op].opcode == Opcode::LoadView) move_box(made, 1, dim, extent);
  if (k_[op].opcode == Opcode::Arange)
    made_[k_[op].results[0]][dim] =
        b.add(k_[made].results[0], rank_times(extent, types[0].dtype()));
}

}  // namespace tegula::ir
