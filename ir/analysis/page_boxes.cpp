#include "ir/analysis/page_boxes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/invariant_load.h"

namespace tegula::ir {
namespace {

/// Smaller boxes are slower than copies by threads: boxes of 8 rows reach 0.89 of the bandwidth of
/// contiguous rows on an H200, threads 0.92.
constexpr std::int64_t kFewestRows = 16;

/// Positions that are assumed for a whole box: negative ones, existing ones, or those from the end
/// on. Boxes begin at multiples of their rows, so no box has positions below and above 0.
enum class Assumed : std::uint8_t { Before, Present, After };

/// How a tile changes along a box: not at all, as positions do, as rows of a page do (by 1).
enum class Along : std::uint8_t { Unknown, Uniform, Position, Row };

struct Known {
  Along along = Along::Unknown;
  std::optional<std::int64_t> number = {};  ///< of a uniform value

  bool is_uniform() const { return along == Along::Uniform; }
};

Known uniform(std::optional<std::int64_t> number = {}) { return {Along::Uniform, number}; }

/// Evaluates index tiles along a box.
class IndexTiles {
 public:
  explicit IndexTiles(const Kernel& k) : k_(k) {}

  Value first() const { return first_; }
  Value end() const { return end_; }
  /// Returns the greatest common divisor of the page rows, or 0 if there are no pages.
  std::int64_t page_rows() const { return page_rows_; }
  /// Returns false if positions or ends differ.
  bool is_consistent() const { return is_consistent_; }

  void assume(Assumed positions) {
    assumed_ = positions;
    known_.clear();
  }

  Known of(Value v) {
    if (!k_.type(v).is_tile()) return uniform(constant_value(k_, v));
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    const Known found = k_[v].def ? evaluate(k_[v].def) : Known();
    return known_[v] = found;
  }

  /// Returns the value that selects choose under the assumption.
  Value chosen(Value v) {
    const OpId def = k_[v].def;
    if (def && k_[def].opcode == Opcode::ConvertLayout) return chosen(k_[def].operands[0]);
    if (!def || k_[def].opcode != Opcode::Select) return v;
    const auto condition = of(k_[def].operands[0]).number;
    return condition ? chosen(k_[def].operands[*condition != 0 ? 1 : 2]) : v;
  }

 private:
  Known evaluate(OpId op) {
    const OpData& d = k_[op];
    const auto operand = [&](std::size_t i) { return of(d.operands[i]); };
    using enum Opcode;
    if (d.is(Splat, ConvertLayout, Bitcast) || is_widening(d)) return operand(0);
    if (d.opcode == Const) return uniform(constant_value(k_, d.results[0]));
    if (d.opcode == Add && is_position(d)) return {Along::Position};
    if (d.opcode == Cmp) return compare(d);
    if (d.opcode == And) return both(operand(0), operand(1));
    if (d.opcode == Select) return choose(operand(0), operand(1), operand(2));
    if (d.is(Div, Rem) && operand(0).along == Along::Position) {
      const auto rows = operand(1).number;
      if (!rows || *rows <= 0) return {};
      page_rows_ = std::gcd(page_rows_, *rows);
      return d.opcode == Div ? uniform() : Known{Along::Row};
    }
    const Family family = info(d.opcode).family;
    const bool is_known = family == Family::Elementwise || is_invariant_load(k_, op);
    for (std::size_t i = 0; i < d.operands.size(); ++i)
      if (!is_known || !operand(i).is_uniform()) return {};
    return is_known && !d.operands.empty() ? uniform() : Known();
  }

  /// Returns true for a cast that keeps each number: subscripts of large views have 64 bits.
  bool is_widening(const OpData& d) const {
    return d.opcode == Opcode::Cast && k_.type(d.operands[0]).dtype() == DType::i32 &&
           k_.type(d.results[0]).dtype() == DType::i64;
  }

  bool is_position(const OpData& sum) {
    for (std::size_t i : {0U, 1U}) {
      OpId index = k_[sum.operands[i]].def;
      while (index && k_[index].opcode == Opcode::ConvertLayout)
        index = k_[k_[index].operands[0]].def;
      if (!index || k_[index].opcode != Opcode::Arange || k_[index].attrs.i(AttrName::start) != 0 ||
          k_.type(sum.operands[1 - i]).is_tile())
        continue;
      note(first_, sum.operands[1 - i]);
      return true;
    }
    return false;
  }

  void note(Value& known, Value v) {
    if (!known) known = v;
    is_consistent_ = is_consistent_ && is_same(k_, known, v);
  }

  Known compare(const OpData& d) {
    const Known a = of(d.operands[0]), b = of(d.operands[1]);
    const std::string_view pred = d.attrs.s(AttrName::pred);
    if (a.along != Along::Position) return a.is_uniform() && b.is_uniform() ? uniform() : Known();
    if (pred == "ge" && b.number == 0) return uniform(assumed_ == Assumed::Before ? 0 : 1);
    const Value end = pred == "lt" ? signed_end(d.operands[1]) : Value();
    if (!end) return {};
    note(end_, end);
    if (assumed_ == Assumed::Before) return uniform();
    return uniform(assumed_ == Assumed::Present ? 1 : 0);
  }

  /// Returns the end of the positions as a signed number: positions are compared as unsigned
  /// numbers with the bits of one that is not negative.
  Value signed_end(Value end) const {
    if (!k_.type(end).is_scalar()) return {};
    if (is_signed(k_.type(end).dtype())) return end;
    const OpId cast = k_[end].def;
    if (!cast || k_[cast].opcode != Opcode::Bitcast) return {};
    const Value number = k_[cast].operands[0];
    const OpId floor = k_[number].def;
    const bool is_natural =
        floor && k_[floor].opcode == Opcode::Max && is_zero(k_, k_[floor].operands[1]);
    return is_natural ? number : Value();
  }

  static Known both(Known a, Known b) {
    if (a.number == 0 || b.number == 0) return uniform(0);
    if (a.number) return b;
    if (b.number) return a;
    return a.is_uniform() && b.is_uniform() ? uniform() : Known();
  }

  static Known choose(Known condition, Known a, Known b) {
    if (condition.number) return *condition.number != 0 ? a : b;
    const bool are_uniform = condition.is_uniform() && a.is_uniform() && b.is_uniform();
    if (!are_uniform) return {};
    return uniform(a.number == b.number ? a.number : std::nullopt);
  }

  const Kernel& k_;
  Assumed assumed_ = Assumed::Present;
  std::unordered_map<Value, Known> known_;
  Value first_, end_;
  std::int64_t page_rows_ = 0;
  bool is_consistent_ = true;
};

}  // namespace

std::optional<PageBoxes> page_boxes(const Kernel& k, const OpData& load) {
  const Type tile = k.type(load.results[0]);
  const BoxAccess a = access_of(k, load);
  if (tile.rank() != 2 || a.gathered_dim() != 0 || a.has_limits()) return std::nullopt;
  if (!load.attrs.s(AttrName::cache).empty()) return std::nullopt;  // TMA has no cache operators
  const ViewFacts& facts = k.type(a.view).view_facts();
  IndexTiles tiles(k);
  PageBoxes boxes;
  std::vector<Value> indices;
  int row_dims = 0;
  for (std::size_t v = 0; v < facts.strides.size(); ++v) {
    if (!a.axes[v].is_gathered()) continue;
    indices.push_back(a.axes[v].offset);
    const Known index = tiles.of(indices.back());
    if (index.is_uniform()) continue;
    if (index.along == Along::Unknown || facts.strides[v] == 1) return std::nullopt;
    boxes.row_dim = v, ++row_dims;
    boxes.row = tiles.chosen(indices.back());
  }
  const auto select_nothing = [&](Assumed positions) {
    tiles.assume(positions);
    return std::ranges::any_of(indices,
                               [&](Value index) { return tiles.of(index).number.value_or(0) < 0; });
  };
  if (row_dims != 1 || !select_nothing(Assumed::Before) || !select_nothing(Assumed::After) ||
      !tiles.is_consistent() || !tiles.first() || !tiles.end())
    return std::nullopt;
  boxes.rows = tile.shape()[0];
  if (tiles.page_rows() != 0)
    boxes.rows = std::gcd(std::gcd(boxes.rows, tiles.page_rows()), divisor_of(k, tiles.first()));
  if (boxes.rows % kFewestRows != 0) return std::nullopt;
  boxes.first = tiles.first(), boxes.end = tiles.end();
  return boxes;
}

}  // namespace tegula::ir
