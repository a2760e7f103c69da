#include "ir/passes/absence/tile_presence.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/reshape_groups.h"

namespace tegula::ir {
namespace {

constexpr std::size_t kMaxIntervals = 8;

void keep(PresentLine& line) {
  for (LoadedInterval& i : line.all) i.is_kept = true;
}

}  // namespace

void add_line(PresentLine& line, const PresentLine& more) {
  line.is_data |= more.is_data;
  line.all.insert(line.all.end(), more.all.begin(), more.all.end());
}

bool covers(const Kernel& k, const PresentLine& line, const PresentLine& other) {
  return std::ranges::all_of(other.all, [&](const LoadedInterval& i) {
    return std::ranges::any_of(line.all, [&](const LoadedInterval& own) {
      return own.view == i.view && own.axis == i.axis && is_same(k, own.offset, i.offset);
    });
  });
}

bool is_fill_tile(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  return def && k.type(v).is_tile() && k[def].is(Opcode::Const, Opcode::Splat);
}

int dim_after(const Kernel& k, const OpData& op, int dim) {
  const auto from = k.type(op.operands[0]).shape(), to = k.type(op.results[0]).shape();
  if (op.opcode == Opcode::ExpandDims) return dim + (op.attrs.i(AttrName::axis) <= dim ? 1 : 0);
  if (op.opcode == Opcode::Permute) {
    const auto order = op.attrs.ints(AttrName::order);
    return static_cast<int>(std::ranges::find(order, std::int64_t{dim}) - order.begin());
  }
  const int now = op.opcode == Opcode::Reshape ? dim_after_reshape(from, to, dim) : dim;
  const bool is_whole =
      now >= 0 && to[static_cast<std::size_t>(now)] == from[static_cast<std::size_t>(dim)];
  return is_whole ? now : -1;
}

const PresentLines& TilePresence::of(Value v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  PresentLines found;
  if (++depth_ < kMaxTileChain) found = find(v);
  --depth_;
  const auto is_long = [](const PresentLine& line) { return line.all.size() > kMaxIntervals; };
  if (is_long(found.whole) || std::ranges::any_of(found.dims, is_long)) found = {};
  return known_[v] = std::move(found);
}

PresentLines TilePresence::all_present(Value v) const {
  PresentLines p;
  p.is_known = true;
  p.dims.resize(static_cast<std::size_t>(k_.type(v).rank()));
  return p;
}

PresentLines TilePresence::find(Value v) {
  const Type type = k_.type(v);
  if (type.is_scalar() || is_fill_tile(k_, v)) return all_present(v);
  const OpId def = k_[v].def;
  if (!def || !type.is_tile()) return {};
  using enum Opcode;
  const OpData& d = k_[def];
  if (d.is(LoadView)) return loaded(def);
  if (d.is(FillAbsent)) return filled(def);
  if (d.is(ExpandDims, Permute, Reshape, Broadcast)) return moved(def);
  if (d.is(Reduce, ArgReduce)) return reduced(def);
  if (d.is(Dot)) return product(def);
  if (d.is(Select)) return selected(def);
  return info(d.opcode).is_elementwise() ? merged(def) : PresentLines();
}

/// A select of two tiles without absent elements is present where its condition is.
PresentLines TilePresence::selected(OpId op) {
  return is_whole(k_[op].operands[1]) && is_whole(k_[op].operands[2]) ? merged(op) : PresentLines();
}

bool TilePresence::is_whole(Value v) {
  const PresentLines& p = of(v);
  return p.is_known && p.whole.all.empty() &&
         std::ranges::all_of(p.dims, [](const PresentLine& line) { return line.all.empty(); });
}

PresentLines TilePresence::loaded(OpId op) {
  PresentLines p = all_present(k_[op].results[0]);
  const BoxAccess a = access_of(k_, k_[op]);
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    const AccessAxis& axis = a.axes[v];
    PresentLine& line =
        axis.tile_dim < 0 ? p.whole : p.dims[static_cast<std::size_t>(axis.tile_dim)];
    line.is_data = true;
    if (axis.is_gathered()) {  // an index outside of the view gives a 0 that is present
      const PresentLines& index = of(axis.offset);
      p.is_known = index.is_known && std::ranges::all_of(index.dims, [](const PresentLine& l) {
                     return l.all.empty();
                   });
      if (!p.is_known) return p;
    } else {
      line.all.push_back({op, a.view, static_cast<std::int64_t>(v), axis.offset});
    }
  }
  return p;
}

PresentLines TilePresence::filled(OpId op) {
  if (k_[op].attrs.s(AttrName::kind) == "present") return {};
  PresentLines p = of(k_[op].operands[0]);
  for (PresentLine& line : p.dims) keep(line);
  keep(p.whole);
  return p;
}

PresentLines TilePresence::merged(OpId op) {
  PresentLines p = all_present(k_[op].results[0]);
  const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
  for (const Value v : operands) {
    const PresentLines& one = of(v);
    if (!one.is_known) return {};
    for (std::size_t d = 0; d < one.dims.size(); ++d) add_line(p.dims[d], one.dims[d]);
    add_line(p.whole, one.whole);
  }
  return p;
}

PresentLines TilePresence::moved(OpId op) {
  const PresentLines from = of(k_[op].operands[0]);
  if (!from.is_known) return {};
  const auto extents = k_.type(k_[op].operands[0]).shape();
  PresentLines p = all_present(k_[op].results[0]);
  p.whole = from.whole;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    const int now = dim_after(k_, k_[op], static_cast<int>(d));
    if (now >= 0)
      add_line(p.dims[static_cast<std::size_t>(now)], from.dims[d]);
    else if (extents[d] == 1)  // one element, repeated or squeezed
      p.whole.all.insert(p.whole.all.end(), from.dims[d].all.begin(), from.dims[d].all.end());
    else if (!from.dims[d].all.empty())
      return {};
  }
  return p;
}

PresentLines TilePresence::reduced(OpId op) {
  PresentLines p = of(k_[op].operands[0]);
  if (p.is_known) p.dims.erase(p.dims.begin() + k_[op].attrs.i(AttrName::axis));
  return p;
}

PresentLines TilePresence::factors(OpId op) {
  PresentLines p = all_present(k_[op].results[0]);
  const std::size_t row = p.dims.size() - 2;
  for (std::size_t i = 0; i < 2; ++i) {
    const PresentLines& one = of(k_[op].operands[i]);
    if (!one.is_known) return {};
    p.dims[row + i] = one.dims[row + i];
  }
  return p;
}

PresentLines TilePresence::product(OpId op) {
  PresentLines p = factors(op);
  const PresentLines& sum = of(k_[op].operands[2]);
  if (!p.is_known || !sum.is_known) return {};
  for (std::size_t d = 0; d < p.dims.size(); ++d) add_line(p.dims[d], sum.dims[d]);
  add_line(p.whole, sum.whole);
  return p;
}

}  // namespace tegula::ir
