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
// Contractions: absence/check_contraction.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/lines.h"
#include "ir/loop.h"
#include "ir/passes/absence/check_contraction.h"
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
  bool varies = false;   ///< in a loop: which elements some iteration has is not known
  Value condition = {};  ///< in a branch: whether it is taken
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
      if (o == Dot || o == Reduce) changed_ |= check_contraction(k_, presence_, op);
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
    const std::tuple searched{v, start, by};
    if (others_.contains(searched)) return false;
    const bool found = k_[def].opcode == Opcode::If ? terms_of_branch(def, v, start, by, all, depth)
                                                    : terms_of_op(def, start, by, all, depth);
    if (!found) others_.insert(searched);
    return found;
  }

  bool terms_of_op(OpId def, Value start, std::optional<Opcode>& by, std::vector<Term>& all,
                   int depth) {
    const Opcode o = k_[def].opcode;
    if (by && *by != o) return false;
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

  /// Appends the terms that the branches add to a value from before them.
  bool terms_of_branch(OpId branch, Value v, Value start, std::optional<Opcode>& by,
                       std::vector<Term>& all, int depth) {
    const std::array<Value, 2> ends = branch_ends(branch, v);
    for (const Value before : starts_of(branch, ends)) {
      auto kind = by;
      std::vector<Term> added;
      const auto follow = [&](std::size_t r) {
        const std::size_t count = added.size();
        if (!terms(ends[r], before, kind, added, depth - 1)) return false;
        for (std::size_t t = count; t < added.size(); ++t) leave_branch(branch, r, added[t]);
        return true;
      };
      if (!follow(0) || !follow(1) || !terms(before, start, kind, all, depth - 1)) continue;
      all.insert(all.end(), added.begin(), added.end());
      by = kind;
      return true;
    }
    return false;
  }

  /// Returns the values that the branches give to the result.
  std::array<Value, 2> branch_ends(OpId branch, Value result) const {
    const std::size_t i = k_[result].position;
    return {k_[k_.terminator(k_[branch].regions[0])].operands[i],
            k_[k_.terminator(k_[branch].regions[1])].operands[i]};
  }

  /// Returns the values from before the branch that may be the accumulator of both.
  std::vector<Value> starts_of(OpId branch, const std::array<Value, 2>& ends) const {
    for (const Value end : ends)
      if (k_.is_visible_from(end, branch)) return {end};
    std::vector<Value> found;
    Value v = ends[0];
    for (OpId def = k_[v].def; def && !k_.is_visible_from(v, branch); def = k_[v].def) {
      const Value inner = v;
      for (const std::size_t i : accumulators(k_[def].opcode)) {
        const Value operand = k_[def].operands[i];
        if (k_.type(operand) != k_.type(inner)) continue;
        if (k_.is_visible_from(operand, branch))
          found.push_back(operand);
        else if (v == inner)
          v = operand;
      }
      if (v == inner) break;
    }
    return found;
  }

  void leave_branch(OpId branch, std::size_t region, Term& t) {
    leave(branch, t);
    Builder b(k_, branch);
    const Value taken = k_[branch].operands[0];
    t.condition = both(b, t.condition, region == 0 ? taken : b.op(Opcode::Not, {taken}));
  }

  /// Rewrites the presence of a term in terms of values before the loop or branch.
  void leave(OpId loop, Term& t) {
    for (PresentLine& line : t.presence.dims) leave(loop, line, t);
    leave(loop, t.presence.whole, t);
    if (!t.condition) return;
    t.condition = ahead(loop, t.condition, kMaxTileChain);
    if (!t.condition) t.presence = {};  // not known
  }
  void leave(OpId loop, PresentLine& line, Term& t) {
    std::erase_if(line.all, [&](LoadedInterval& i) {
      const bool is_step =
          k_[loop].opcode == Opcode::For && i.offset == k_[k_[loop].regions[0]].args[0];
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
    std::vector<const Term*> having;
    for (const Term& t : all)
      if (line_of(t.presence, dim).is_data && !t.varies) having.push_back(&t);
    const auto is_alike = [&](const Term& t) {
      return std::ranges::all_of(having, [&](const Term* one) {
        return covers(k_, line_of(one->presence, dim), line_of(t.presence, dim));
      });
    };
    if (having.empty() || std::ranges::all_of(all, is_alike)) return;
    Builder b = Builder::after(k_, k_[v].def);
    Value some;
    for (const Term* t : having) {
      Value one = inside(b, line_of(t->presence, dim), dim, v, /*with_kept=*/true);
      if (t->condition) one = b.op(Opcode::And, {one, alike(b, t->condition, one)});
      some = some ? b.op(Opcode::Or, {some, one}) : one;
    }
    for (std::size_t t = 0; t < all.size(); ++t) {
      const Loc loc = k_[all[t].op].loc;
      const auto is_earlier = [&](const Term& x) { return k_[x.op].loc == loc; };
      if (std::ranges::any_of(all.first(t), is_earlier)) continue;
      PresentLine lacks;
      Value has;
      for (const Term& x : all.subspan(t)) {
        PresentLine own = is_earlier(x) ? line_of(x.presence, dim) : PresentLine();
        std::erase_if(own.all, &LoadedInterval::is_kept);
        if (own.all.empty()) continue;
        add_line(lacks, own);
        Value one = inside(b, own, dim, v, /*with_kept=*/false);
        if (x.condition)
          one = b.op(Opcode::Or, {one, alike(b, b.op(Opcode::Not, {x.condition}), one)});
        has = both(b, has, one);
      }
      if (!has) continue;
      losses.push_back(
          {dim, b.op(Opcode::And, {some, b.op(Opcode::Not, {has})}), loc, text(lacks)});
    }
  }

  /// Returns the scalar as a tile if `like` is one.
  Value alike(Builder& b, Value scalar, Value like) const {
    const Type type = k_.type(like);
    return type.is_tile() ? b.op(Opcode::Splat, {scalar}, type) : scalar;
  }

  std::string text(const PresentLine& lacks) const {
    std::string out;
    for (const LoadedInterval& i : lacks.all) {
      const Loc loc = k_[i.load].loc;
      const std::string one =
          fmt::format("{} at {}:{}:{}", view_name(k_, i.view), loc.file, loc.line, loc.column);
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
    if (o == If) return lost_by_branch(def, v);
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

  /// Returns the losses of the branch that is taken, as further results of the op.
  Losses lost_by_branch(OpId branch, Value v) {
    Losses all;
    const std::array<Value, 2> ends = branch_ends(branch, v);
    for (std::size_t r = 0; r < 2; ++r) {
      const OpId taken = k_.terminator(k_[branch].regions[r]),
                 other = k_.terminator(k_[branch].regions[1 - r]);
      const Losses inner = losses(ends[r]);
      for (Loss one : inner) {
        const Type type = k_.type(one.lost);
        const Value none = Builder(k_, other).constant(type, std::int64_t{0});
        k_[taken].operands.push_back(one.lost);
        k_[other].operands.push_back(none);
        one.lost = k_.add_result(branch, type);
        all.push_back(std::move(one));
      }
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

  Kernel& k_;
  TilePresence presence_;
  std::unordered_map<Value, Losses> losses_;
  /// Values that accumulate nothing since a start, by the op.
  std::set<std::tuple<Value, Value, std::optional<Opcode>>> others_;
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
