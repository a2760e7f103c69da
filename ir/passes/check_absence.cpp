// Reports absent elements that silently change a result. Both checks are `assume` ops that only the
// interpreter and the simulator evaluate.
//
// Accumulators (kind "elements"): s = zeros, or a part of a view, then s = s + t, or where(c, s +
// t, s), for several terms t. An element of s is lost if one term has it and another does not:
//
//   s1 = add zeros, t1             lost = inside t1 and not inside t2, or the reverse
//   s2 = add s1, t2            ->  assume not lost or the element is outside V [kind = "elements"]
//   store_view V, s2               store_view V, s2
//
// A loss matters if the element is stored, or if a reduction skips it and its result is stored. The
// terms of a `for` belong to its result: it keeps the elements that an iteration lacks, but not
// those that every iteration lacks.
//
// Contractions (kind "contraction"): both operands of a dot, or of a product that is summed, read
// the summed dimension at the same step or at the same fixed position, and one of the views ends
// earlier. The check precedes the loop over the steps.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/lines.h"
#include "ir/loop.h"
#include "ir/passes/absence/tile_presence.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"

namespace tegula::ir {
namespace {

/// A value that is added to (multiplied with, ..) operand `accumulator` of `op`.
struct Term {
  OpId op;
  std::size_t accumulator = 0;
  PresentLines presence;
  bool varies = false;  ///< in a loop: which elements some iteration has is not known
};

/// Elements that an accumulator lost: an i1 along `dim`, or a scalar for the whole tile.
struct Loss {
  static constexpr int kWhole = -1;
  int dim = kWhole;
  Value lost;
  Loc loc;
  std::string text;
};
using Losses = std::vector<Loss>;

std::string name_of(const Kernel& k, Value view) {
  const auto param = std::ranges::find(k.params(), view, &Param::value);
  return param == k.params().end() ? "a view" : param->name;
}

class CheckAbsence {
 public:
  explicit CheckAbsence(Kernel& k) : k_(k), presence_(k) {}

  bool run() {
    region(k_.body());
    return changed_;
  }

 private:
  void region(RegionId r) {
    using enum Opcode;
    for (const OpId op : k_.ops(r)) {
      const Opcode o = k_[op].opcode;
      if (o == Dot) contraction(op);
      if (o == Reduce) sum_of_products(op);
      if (o == StoreView || o == Store) stored(op);
      const OpId owner = k_[k_[op].parent].owner;
      if (o == Yield && owner && is_loop(k_[owner])) yielded(op);
      if (is_fold_by_function(o)) continue;
      for (const RegionId inner :
           std::vector<RegionId>(k_[op].regions.begin(), k_[op].regions.end()))
        region(inner);
    }
  }

  void assume(Builder& b, Value holds, std::string_view kind, const std::string& message) {
    b.effect(Opcode::Assume, {holds},
             {{AttrName::kind, kind}, {AttrName::message, std::string_view(message)}});
    changed_ = true;
  }

  // ---- accumulators
  /// Returns the operand of an accumulating op that may be the accumulator.
  static std::vector<std::size_t> accumulators(Opcode o) {
    using enum Opcode;
    if (o == Dot || o == Fma) return {2};
    if (o == Sub) return {0};
    if (o == Select) return {1, 2};
    if (o == Add || o == Mul || o == Max || o == Min || o == And || o == Or || o == Xor)
      return {0, 1};
    return {};
  }

  /// Appends the terms that `v` accumulates by one kind of op since `start`, or since a tile of
  /// equal numbers. Returns false if it is not an accumulator.
  bool terms(Value v, Value start, std::optional<Opcode>& by, std::vector<Term>& all, int depth) {
    if (v == start || (!start && is_fill_tile(k_, v))) return true;
    const OpId def = k_[v].def;
    if (!def || depth == 0) return false;
    if (k_[def].opcode == Opcode::For) return terms_of_loop(def, v, start, by, all, depth);
    const Opcode o = k_[def].opcode;
    if ((by && *by != o) || others_.contains({v.index, start.index})) return false;
    for (const std::size_t i : accumulators(o)) {
      const auto before = by;
      const std::size_t count = all.size();
      by = o;
      if (terms(k_[def].operands[i], start, by, all, depth - 1)) {
        all.push_back(term(def, i));
        return true;
      }
      by = before;
      all.resize(count);
    }
    if (const Value scaled = scaled_by_number(def);
        scaled && terms(scaled, start, by, all, depth - 1))
      return true;
    others_.insert({v.index, start.index});
    return false;
  }

  /// Returns the tile that the op combines with values that have all elements, such as s of s * 2.
  Value scaled_by_number(OpId op) {
    const OpData& d = k_[op];
    if (!info(d.opcode).is_elementwise() || d.is(Opcode::Select) || d.operands.size() != 2)
      return {};
    for (std::size_t i = 0; i < 2; ++i)
      if (k_.type(d.operands[i]).is_tile() && presence_.is_whole(d.operands[1 - i]) &&
          !is_fill_tile(k_, d.operands[i]))
        return d.operands[i];
    return {};
  }

  /// Returns the elements that `v` has if all elements of the accumulator are present.
  PresentLines presence_of(Value v, Value accumulator) {
    if (v == accumulator) return presence_.all_present(v);
    const OpId def = k_[v].def;
    const bool merges = def && info(k_[def].opcode).is_elementwise() &&
                        !k_[def].is(Opcode::Select) && k_.type(v).is_tile() &&
                        std::ranges::find(k_[def].operands, accumulator) != k_[def].operands.end();
    if (!merges) return presence_.of(v);
    PresentLines all = presence_.all_present(v);
    for (const Value o : std::vector<Value>(k_[def].operands.begin(), k_[def].operands.end())) {
      const PresentLines one = presence_of(o, accumulator);
      if (!one.is_known) return {};
      for (std::size_t d = 0; d < one.dims.size(); ++d) add_line(all.dims[d], one.dims[d]);
      add_line(all.whole, one.whole);
    }
    return all;
  }

  Term term(OpId op, std::size_t accumulator) {
    if (k_[op].opcode == Opcode::Dot) return {op, accumulator, presence_.factors(op)};
    // s = where(c, s + t, s) has no element where c has none.
    if (k_[op].opcode == Opcode::Select) {
      const Value condition = k_[op].operands[0];
      if (!k_.type(condition).is_tile())
        return {op, accumulator, presence_.all_present(k_[op].results[0])};
      return {op, accumulator, presence_of(condition, k_[op].operands[accumulator])};
    }
    Term t{op, accumulator, presence_.all_present(k_[op].results[0])};
    for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
      if (i == accumulator) continue;
      const PresentLines of = presence_.of(k_[op].operands[i]);
      if (!of.is_known) return {op, accumulator, {}};
      for (std::size_t d = 0; d < of.dims.size(); ++d) add_line(t.presence.dims[d], of.dims[d]);
      add_line(t.presence.whole, of.whole);
    }
    return t;
  }

  /// Appends the parts of one view that `v` adds up, or takes the maximum of: x(slice(0, 8)) +
  /// x(slice(8, 8)). Returns false if it combines anything else, or parts that overlap.
  bool parts_of_view(Value v, std::vector<Term>& all) {
    using enum Opcode;
    all.clear();
    const OpId def = k_[v].def;
    if (!def || !k_[def].is(Add, Max, Min, And, Or) || !leaves(def, all, kMaxTileChain))
      return false;
    const auto differs = [&](std::size_t d) {
      for (std::size_t t = 0; t < all.size(); ++t)
        for (std::size_t o = 0; o < t; ++o)
          if (!is_other_part(all[t].presence.dims[d], all[o].presence.dims[d],
                             k_.type(v).shape()[d]))
            return false;
      return true;
    };
    for (std::size_t d = 0; d < static_cast<std::size_t>(k_.type(v).rank()); ++d)
      if (differs(d)) return true;
    return false;
  }

  bool leaves(OpId op, std::vector<Term>& all, int depth) {
    if (depth == 0) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      const Value operand = k_[op].operands[i];
      const OpId def = k_[operand].def;
      if (!k_.type(operand).is_tile()) return false;
      if (def && k_[def].opcode == k_[op].opcode) {
        if (!leaves(def, all, depth - 1)) return false;
        continue;
      }
      all.push_back({op, 1 - i, presence_.of(operand)});
      if (!all.back().presence.is_known) return false;
    }
    return true;
  }

  /// Returns true if the lines are of one view, at fixed places that do not overlap.
  bool is_other_part(const PresentLine& a, const PresentLine& b, std::int64_t extent) const {
    if (a.all.empty() || b.all.empty()) return false;
    for (const LoadedInterval& x : a.all)
      for (const LoadedInterval& y : b.all) {
        const auto from = constant_value(k_, x.offset), to = constant_value(k_, y.offset);
        if (x.view != y.view || x.axis != y.axis || x.is_kept || y.is_kept || !from || !to ||
            std::abs(*from - *to) < extent)
          return false;
      }
    return true;
  }

  bool terms_of_loop(OpId loop, Value v, Value start, std::optional<Opcode>& by,
                     std::vector<Term>& all, int depth) {
    const auto i =
        static_cast<std::size_t>(std::ranges::find(k_[loop].results, v) - k_[loop].results.begin());
    if (!terms(loop_inits(k_[loop])[i], start, by, all, depth - 1)) return false;
    const std::size_t count = all.size();
    if (!terms(loop_nexts(k_, loop)[i], body_carries(k_, loop)[i], by, all, depth - 1))
      return false;
    for (std::size_t t = count; t < all.size(); ++t) leave(loop, all[t]);
    return true;
  }

  /// Rewrites the presence of a term in terms of values before the loop.
  void leave(OpId loop, Term& t) {
    for (PresentLine& line : t.presence.dims) leave(loop, line, t);
    leave(loop, t.presence.whole, t);
  }
  void leave(OpId loop, PresentLine& line, Term& t) {
    std::erase_if(line.all, [&](LoadedInterval& i) {
      const bool is_step = i.offset == k_[k_[loop].regions[0]].args[0];
      if (is_step) i.is_kept = true;  // most elements are present in the first iteration
      const Value offset = is_step ? k_[loop].operands[0] : ahead(loop, i.offset, kMaxTileChain);
      if (offset && k_.is_visible_from(i.view, loop)) {
        i.offset = offset;
        return false;
      }
      t.varies = true;
      return true;
    });
  }

  /// Returns the value computed before the loop; null if it varies between iterations.
  Value ahead(OpId loop, Value v, int depth) {
    if (k_.is_visible_from(v, loop)) return v;
    const OpId def = k_[v].def;
    if (!def || depth == 0 || !k_.type(v).is_scalar() || !k_[def].regions.empty() ||
        (!info(k_[def].opcode).is_elementwise() && k_[def].opcode != Opcode::Const))
      return {};
    std::vector<Value> operands;
    for (const Value o : std::vector<Value>(k_[def].operands.begin(), k_[def].operands.end())) {
      operands.push_back(ahead(loop, o, depth - 1));
      if (!operands.back()) return {};
    }
    Builder b(k_, loop);
    const Type type = k_.type(v);
    return k_[b.create(k_[def].opcode, operands, std::span(&type, 1), k_[def].attrs)].results[0];
  }

  bool is_same_interval(const LoadedInterval& a, const LoadedInterval& b) const {
    return a.view == b.view && a.axis == b.axis && is_same(k_, a.offset, b.offset);
  }
  bool covers(const PresentLine& line, const PresentLine& other) const {
    return std::ranges::all_of(other.all, [&](const LoadedInterval& i) {
      return std::ranges::any_of(
          line.all, [&](const LoadedInterval& own) { return is_same_interval(own, i); });
    });
  }

  static const PresentLine& line_of(const PresentLines& p, int dim) {
    return dim == Loss::kWhole ? p.whole : p.dims[static_cast<std::size_t>(dim)];
  }

  /// Returns what an accumulator lost and what its terms lost; nothing for other values.
  std::optional<Losses> losses_of_accumulator(Value v) {
    std::optional<Opcode> by;
    std::vector<Term> all;
    if (!k_.type(v).is_tile() || is_fill_tile(k_, v)) return {};
    if (!terms(v, {}, by, all, kMaxTileChain) && !parts_of_view(v, all)) return {};
    Losses found;
    for (const Term& t : all)
      if (k_[t.op].parent == k_[k_[v].def].parent && k_[t.op].opcode != Opcode::Dot)
        for (std::size_t i = 0; i < k_[t.op].operands.size(); ++i)
          if (i != t.accumulator) add(found, losses(k_[t.op].operands[i]));
    std::erase_if(all, [](const Term& t) { return !t.presence.is_known; });
    for (int dim = Loss::kWhole; dim < k_.type(v).rank(); ++dim) lost_along(v, dim, all, found);
    return found;
  }

  void lost_along(Value v, int dim, std::span<const Term> all, Losses& losses) {
    std::vector<const PresentLine*> having;
    for (const Term& t : all)
      if (const PresentLine& line = line_of(t.presence, dim); !t.varies && line.is_data)
        having.push_back(&line);
    const auto is_alike = [&](const Term& t) {
      return std::ranges::all_of(
          having, [&](const PresentLine* line) { return covers(*line, line_of(t.presence, dim)); });
    };
    if (having.empty() || std::ranges::all_of(all, is_alike)) return;
    Builder b = Builder::after(k_, k_[v].def);
    Value some;
    for (const PresentLine* line : having) {
      const Value one = inside(b, *line, dim, v, /*with_kept=*/true);
      some = some ? b.op(Opcode::Or, {some, one}) : one;
    }
    for (std::size_t t = 0; t < all.size(); ++t) {
      const Loc loc = k_[all[t].op].loc;
      const auto is_earlier = [&](const Term& x) { return k_[x.op].loc == loc; };
      if (std::ranges::any_of(all.first(t), is_earlier)) continue;
      PresentLine lacks;
      for (const Term& x : all.subspan(t))
        if (is_earlier(x))
          for (const LoadedInterval& i : line_of(x.presence, dim).all)
            if (!i.is_kept) lacks.all.push_back(i);
      if (lacks.all.empty()) continue;
      const Value has = inside(b, lacks, dim, v, /*with_kept=*/false);
      losses.push_back(
          {dim, b.op(Opcode::And, {some, b.op(Opcode::Not, {has})}), loc, text(lacks)});
    }
  }

  std::string text(const PresentLine& lacks) const {
    std::string out;
    for (const LoadedInterval& i : lacks.all) {
      const Loc loc = k_[i.load].loc;
      const std::string one =
          fmt::format("{} at {}:{}:{}", name_of(k_, i.view), loc.file, loc.line, loc.column);
      if (out.find(one) == std::string::npos) out += (out.empty() ? "" : " and ") + one;
    }
    return fmt::format(
        "an accumulator loses the values of elements that {} lacks: they are absent "
        "from its result",
        out);
  }

  /// Returns the condition that all intervals hold: an i1 along `dim` of `like`, or a scalar.
  Value inside(Builder& b, const PresentLine& line, int dim, Value like, bool with_kept) {
    const bool is_whole = dim == Loss::kWhole;
    const std::int64_t extent = is_whole ? 1 : k_.type(like).shape()[static_cast<std::size_t>(dim)];
    const Type type =
        is_whole ? Type::scalar(DType::i1) : Type::tile({DType::i1, false}, std::span(&extent, 1));
    Value all;
    for (const LoadedInterval& i : line.all) {
      if (i.is_kept && !with_kept) continue;
      all = both(b, all, inside(b, i.view, i.axis, i.offset, is_whole ? 0 : extent));
    }
    return all ? all : b.constant(type, std::int64_t{1});
  }

  /// Returns 0 <= offset + i < the view's extent for each i below `extent`; a scalar if it is 0.
  Value inside(Builder& b, Value view, std::int64_t axis, Value offset, std::int64_t extent) {
    const Type type = k_.type(offset);
    const DType index = type.dtype(), no_sign = size_bits(index) == 64 ? DType::u64 : DType::u32;
    const Value limit = b.op(Opcode::ViewDim, {view}, type, {{AttrName::axis, axis}});
    const Value position = extent > 0 ? b.add(index_line(b, index, extent), offset) : offset;
    return b.cmp("lt", b.cast(position, no_sign), b.cast(limit, no_sign));
  }

  // ---- uses of lost elements
  const Losses& losses(Value v) {
    if (const auto it = losses_.find(v); it != losses_.end()) return it->second;
    Losses found;
    if (++depth_ < kMaxTileChain) found = find_losses(v);
    --depth_;
    return losses_[v] = std::move(found);
  }

  static void add(Losses& all, const Losses& more) {
    for (const Loss& one : more)
      if (std::ranges::find(all, one.lost, &Loss::lost) == all.end()) all.push_back(one);
  }

  Losses find_losses(Value v) {
    const OpId def = k_[v].def;
    if (!def || !(k_.type(v).is_tile() || k_.type(v).is_scalar())) return {};
    if (auto own = losses_of_accumulator(v)) return *std::move(own);
    using enum Opcode;
    const Opcode o = k_[def].opcode;
    if (o == Reduce || o == ArgReduce) return lost_by_fold(def);
    if (o == Crop) return cropped(def);
    if (o == ExpandDims || o == Permute || o == Reshape || o == Broadcast) return lost_by_move(def);
    if (o != Splat && !info(o).is_elementwise()) return {};
    Losses all;
    for (const Value operand : std::vector<Value>(k_[def].operands.begin(), k_[def].operands.end()))
      add(all, losses(operand));
    return all;
  }

  Value any(Builder& b, Value lost) {
    return b.op(Opcode::Reduce, {lost}, {{AttrName::axis, 0}, {AttrName::kind, "or"}});
  }

  Losses lost_by_fold(OpId op) {
    Losses all = losses(k_[op].operands[0]);
    const int axis = static_cast<int>(k_[op].attrs.i(AttrName::axis));
    Builder b = Builder::after(k_, op);
    for (Loss& one : all) {
      if (one.dim == axis) one.lost = any(b, one.lost);
      one.dim = one.dim == axis ? Loss::kWhole : one.dim - (one.dim > axis ? 1 : 0);
    }
    return all;
  }

  Losses lost_by_move(OpId op) {
    Losses all = losses(k_[op].operands[0]);
    std::erase_if(all, [&](Loss& one) {
      if (one.dim == Loss::kWhole) return false;
      one.dim = dim_after(k_, k_[op], one.dim);
      return one.dim < 0;
    });
    return all;
  }

  Losses cropped(OpId op) {
    Losses all = losses(k_[op].operands[0]);
    const OpData d = k_[op];
    const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
    Builder b = Builder::after(k_, op);
    for (Loss& one : all) {
      if (one.dim != axis) continue;
      const Type index = k_.type(d.operands[1]);
      const Value line = index_line(b, index.dtype(), k_.type(one.lost).shape()[0]);
      const Value position = b.add(line, d.operands[1]);
      const Value from = b.cmp("ge", position, b.zero(index));
      const Value within = b.op(Opcode::And, {from, b.cmp("lt", position, d.operands[2])});
      one.lost = b.op(Opcode::And, {one.lost, within});
    }
    return all;
  }

  /// A store through a view drops what is outside of it anyway.
  void stored(OpId op) {
    const Losses all = losses(k_[op].operands[1]);
    const bool is_view = k_[op].opcode == Opcode::StoreView;
    const BoxAccess a = is_view ? access_of(k_, k_[op]) : BoxAccess();
    for (const Loss& one : all) {
      Builder b(k_, op);
      b.loc = one.loc;
      Value holds = b.op(Opcode::Not, {one.lost});
      if (is_view && one.dim != Loss::kWhole) {
        const AccessAxis& axis = a.along_dim(one.dim);
        if (axis.is_gathered()) continue;
        const Value is_inside = inside(b, a.view, a.along[static_cast<std::size_t>(one.dim)],
                                       axis.offset, k_.type(one.lost).shape()[0]);
        holds = b.op(Opcode::Or, {holds, b.op(Opcode::Not, {is_inside})});
      } else if (!is_view && k_[op].operands.size() > 2) {
        continue;  // the mask may exclude the element
      }
      assume(b, holds, "elements", one.text);
    }
  }

  /// A number that a loop carries is the result of folds.
  void yielded(OpId op) {
    for (const Value v : std::vector<Value>(k_[op].operands.begin(), k_[op].operands.end())) {
      if (!k_.type(v).is_scalar()) continue;
      const Losses all = losses(v);
      for (const Loss& one : all) {
        Builder b(k_, op);
        b.loc = one.loc;
        assume(b, b.op(Opcode::Not, {one.lost}), "elements", one.text);
      }
    }
  }

  // ---- contractions
  void contraction(OpId dot) {
    const auto rank = static_cast<std::size_t>(k_.type(k_[dot].operands[0]).rank());
    const PresentLines a = presence_.of(k_[dot].operands[0]), b = presence_.of(k_[dot].operands[1]);
    if (!a.is_known || !b.is_known) return;
    contraction(dot, a.dims[rank - 1], b.dims[rank - 2],
                k_.type(k_[dot].operands[0]).shape()[rank - 1]);
  }

  /// sum(a(m, k) * x(k)) contracts as a dot does.
  void sum_of_products(OpId sum) {
    OpId mul = k_[k_[sum].operands[0]].def;
    while (mul && k_[mul].opcode == Opcode::Cast) mul = k_[k_[mul].operands[0]].def;
    if (k_[sum].attrs.s(AttrName::kind) != "sum" || !mul || k_[mul].opcode != Opcode::Mul) return;
    const auto axis = static_cast<std::size_t>(k_[sum].attrs.i(AttrName::axis));
    const PresentLines a = presence_.of(k_[mul].operands[0]), b = presence_.of(k_[mul].operands[1]);
    if (!a.is_known || !b.is_known || a.dims.size() <= axis || b.dims.size() <= axis) return;
    contraction(sum, a.dims[axis], b.dims[axis], k_.type(k_[mul].results[0]).shape()[axis]);
  }

  void contraction(OpId op, const PresentLine& left, const PresentLine& right,
                   std::int64_t extent) {
    const auto is_kept = [](const LoadedInterval& i) { return i.is_kept; };
    if (std::ranges::any_of(left.all, is_kept) || std::ranges::any_of(right.all, is_kept)) return;
    for (const LoadedInterval& x : left.all)
      for (const LoadedInterval& y : right.all)
        if (is_same(k_, x.offset, y.offset) && (x.view != y.view || x.axis != y.axis))
          ends_differ(op, x, y, extent);
  }

  void ends_differ(OpId dot, const LoadedInterval& x, const LoadedInterval& y,
                   std::int64_t extent) {
    const Type type = k_.type(x.offset);
    const OpId cast = k_[x.offset].def;
    const Value index = cast && k_[cast].opcode == Opcode::Cast ? k_[cast].operands[0] : x.offset;
    const RegionId home = k_[index].region;
    const OpId loop = !k_[index].def && home ? k_[home].owner : OpId();
    const bool is_step = loop && k_[loop].opcode == Opcode::For && k_[home].args[0] == index;
    const auto fixed = constant_value(k_, x.offset);
    if (!is_step && !fixed) return;  // each program may sum only its own block
    std::vector<Value> needed{x.view, y.view};
    if (is_step)
      needed.insert(needed.end(), k_[loop].operands.begin(), k_[loop].operands.begin() + 3);
    const auto is_visible_at = [&](OpId op) {
      return std::ranges::all_of(needed, [&](Value v) { return k_.is_visible_from(v, op); });
    };
    OpId place = is_step ? loop : dot;
    if (!is_visible_at(place)) return;
    for (OpId outer = k_[k_[place].parent].owner;
         outer && k_[outer].opcode == Opcode::For && is_visible_at(outer);
         outer = k_[k_[place].parent].owner)
      place = outer;
    if (!is_step && is_inside_loop(place)) return;  // a check in a loop would change its schedule
    Builder b(k_, place);
    b.loc = k_[dot].loc;
    Value first, runs;
    if (!is_step) {
      first = b.constant(type, *fixed);
    } else {
      const Value lo = b.cast(needed[2], type.dtype()), hi = b.cast(needed[3], type.dtype()),
                  one = b.constant(type, std::int64_t{1}),
                  step = b.op(Opcode::Max, {b.cast(needed[4], type.dtype()), one});
      const Value last = b.sub(b.sub(hi, lo), one);
      first = b.add(lo, b.mul(b.div(last, step), step));
      runs = b.cmp("lt", lo, hi);
    }
    const Value end = b.add(first, b.constant(type, extent));
    const auto read_of = [&](const LoadedInterval& i) {
      const Value limit = b.op(Opcode::ViewDim, {i.view}, type, {{AttrName::axis, i.axis}});
      return b.op(Opcode::Min, {limit, end});
    };
    const Value left = read_of(x), right = read_of(y);
    Value holds = b.cmp("eq", left, right);
    if (runs) holds = b.op(Opcode::Or, {holds, b.op(Opcode::Not, {runs})});
    assume(b, holds, "contraction",
           fmt::format("{} sums over {}.dim({}) and {}.dim({}), which differ, and the elements "
                       "that one of them lacks count as 0",
                       k_[dot].opcode == Opcode::Dot ? "a dot" : "a sum of products",
                       name_of(k_, x.view), x.axis, name_of(k_, y.view), y.axis));
  }

  bool is_inside_loop(OpId op) const {
    for (OpId outer = k_[k_[op].parent].owner; outer; outer = k_[k_[outer].parent].owner)
      if (is_loop(k_[outer])) return true;
    return false;
  }

  Kernel& k_;
  TilePresence presence_;
  std::unordered_map<Value, Losses> losses_;
  /// Values that accumulate nothing since a start.
  std::set<std::pair<std::uint32_t, std::uint32_t>> others_;
  int depth_ = 0;
  bool changed_ = false;
};

bool has_checks(const Kernel& kernel) {
  return any_op(kernel, kernel.body(), [&](OpId op) {
    const std::string_view kind = kernel[op].attrs.s(AttrName::kind);
    return kernel[op].opcode == Opcode::Assume && (kind == "elements" || kind == "contraction");
  });
}

}  // namespace

bool check_absence(Kernel& kernel, PassContext& context) {
  return context.keep_checks && !has_checks(kernel) && CheckAbsence(kernel).run();
}

}  // namespace tegula::ir
