#include "ir/passes/schedule/live_tiles.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/sort_words.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/layouts/warp_grid.h"
#include "ir/reduce_kind.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// Registers of a thread next to live tiles: addresses, masks and elementwise values. Measured by
/// ptxas 13.0 on row kernels and on dots by mma.sync.
constexpr std::int64_t kOtherRegisters = 40;

bool is_exchange(Opcode o) {
  using enum Opcode;
  return o == Reduce || o == ArgReduce || o == Scan || o == Sort || o == KeyRanks ||
         is_fold_by_function(o);
}

/// Returns true if the assembler computes the op again rather than spill its result.
bool is_cheap(const OpData& d) {
  using enum Opcode;
  return d.is(Add, Sub, Mul, Fma, Min, Max, Neg, Abs, And, Or, Xor, Not, Select, Cast, Bitcast);
}

/// Returns true if threads compare positions of loaded elements with extents.
bool has_masked_loads(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (d.opcode == Opcode::Load) return d.operands.size() > 1;
    return d.opcode == Opcode::LoadView &&
           std::ranges::any_of(access_of(k, d).axes, [](const AccessAxis& axis) {
             return axis.tile_dim >= 0 && !axis.in_bounds;
           });
  });
}

/// Live range of a tile, from its definition to its last use in program order.
struct LiveSpan {
  Value tile;
  std::int64_t registers = 0, first = 0, last = 0;
  bool is_counted = false;  ///< else only if the range contains a point of exchange

  bool is_live(std::int64_t time) const { return first < time && time <= last; }
};

/// How long a carry is live whose next value is loaded in the loop, i.e. one iteration ahead.
enum class LoadedCarry : std::uint8_t { throughout_loop, to_last_use };

class LiveSpans {
 public:
  LiveSpans(const Kernel& k, std::int64_t threads, LoadedCarry loaded)
      : k_(k), threads_(threads), loaded_(loaded), uses_(k) {
    region(k.body());
  }

  LiveTiles most() const {
    const std::vector<LiveSpan> held = held_spans();
    const std::vector<std::int64_t> sums = sums_of(held);
    const auto peak = std::ranges::max_element(sums);
    LiveTiles most{.registers = *peak, .largest = {}, .has_exchange = has_exchange_};
    const LiveSpan* largest = nullptr;
    for (const LiveSpan& s : held)
      if (s.is_live(peak - sums.begin()) && (!largest || is_larger(s, *largest))) largest = &s;
    if (largest) most.largest = largest->tile;
    return most;
  }

  /// Returns the registers at the point of highest pressure, without the tiles that one cheap op
  /// computes again from other live tiles.
  std::int64_t least() const {
    std::vector<LiveSpan> held = held_spans();
    std::ranges::sort(held, {}, &LiveSpan::first);
    const std::vector<std::int64_t> sums = sums_of(held);
    std::int64_t most = 0;
    for (std::int64_t time = 0; time < now_; ++time)
      if (sums[static_cast<std::size_t>(time)] > most) most = std::max(most, least_at(time, held));
    return most;
  }

 private:
  static bool is_larger(const LiveSpan& a, const LiveSpan& b) {
    return a.registers != b.registers ? a.registers > b.registers : a.first < b.first;
  }

  /// Returns the live ranges that take registers.
  std::vector<LiveSpan> held_spans() const {
    std::vector<LiveSpan> held = others_;
    for (const auto& [value, span] : spans_)
      if (span.is_counted || waits(span)) held.push_back(span);
    return held;
  }

  /// Returns the registers of the live ranges at each position.
  std::vector<std::int64_t> sums_of(std::span<const LiveSpan> held) const {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(now_) + 2, 0);
    for (const LiveSpan& s : held) {
      sums[static_cast<std::size_t>(s.first + 1)] += s.registers;
      sums[static_cast<std::size_t>(s.last + 1)] -= s.registers;
    }
    std::partial_sum(sums.begin(), sums.end(), sums.begin());
    return sums;
  }

  /// Returns least() at one position; `held` is in the order of definitions.
  std::int64_t least_at(std::int64_t time, std::span<const LiveSpan> held) const {
    std::int64_t registers = 0;
    std::unordered_set<Value> kept;
    for (const LiveSpan& s : held) {
      if (!s.is_live(time) || (!s.is_counted && is_computed_from(kept, s.tile))) continue;
      registers += s.registers;
      kept.insert(s.tile);
    }
    return registers;
  }

  /// Returns true if one cheap op computes the value from scalars, constants and these tiles.
  bool is_computed_from(const std::unordered_set<Value>& tiles, Value v) const {
    const OpId def = k_[v].def;
    return def && is_cheap(k_[def]) && std::ranges::all_of(k_[def].operands, [&](Value operand) {
             const OpId by = k_[operand].def;
             return !k_.type(operand).is_tile() || tiles.contains(operand) ||
                    (by && k_[by].opcode == Opcode::Const);
           });
  }

  bool waits(const LiveSpan& s) const {
    const auto next = std::ranges::upper_bound(exchanges_, s.first);
    return next != exchanges_.end() && *next < s.last;
  }

  void use(Value v, std::int64_t time) {
    last_uses_[v] = time;
    if (const auto found = spans_.find(v); found != spans_.end())
      found->second.last = std::max(found->second.last, time);
  }

  /// A value that a loop or a branch reads from outside is live to the end of the loop or branch.
  /// The initial value of a carry that is live to its last use is live to the start of the loop.
  void region(RegionId r) {
    for (OpId op : k_.ops(r)) {
      const OpData& d = k_[op];
      const std::int64_t time = now_++;
      if (is_exchange(d.opcode) || d.opcode == Opcode::Dot) exchanges_.push_back(time);
      has_exchange_ |= is_exchange(d.opcode);
      for (RegionId inner : d.regions) region(inner);
      const bool has_carries = is_loop(d) && loaded_ == LoadedCarry::to_last_use;
      const std::size_t inits = has_carries ? loop_inits(d).size() : 0;
      for (Value v : std::span(d.operands).last(inits)) use(v, time);
      std::vector<Value> read(d.operands.begin(),
                              d.operands.end() - static_cast<std::ptrdiff_t>(inits));
      for (RegionId inner : d.regions)
        walk(k_, inner, [&](OpId o) {
          read.insert(read.end(), k_[o].operands.begin(), k_[o].operands.end());
        });
      const std::int64_t end = d.regions.empty() ? time : now_ - 1;
      if (is_loop(d)) carries(op, time, end);
      for (Value v : read)
        if (!spans_.contains(v) || spans_.at(v).first <= time) use(v, end);
      if (d.opcode == Opcode::Sort) keep_keys(d, time);
      if (d.opcode == Opcode::Dot) fragments(d, time);
      for (Value v : d.results) make(v, d.opcode, end);
    }
  }

  /// Loop carries are live throughout the loop, or to their last use. An accumulator's next value
  /// takes the registers of a carry that is not read any more.
  void carries(OpId loop, std::int64_t time, std::int64_t end) {
    const OpData& d = k_[loop];
    const auto inits = loop_inits(d), nexts = loop_nexts(k_, loop);
    const auto args = body_carries(k_, loop);
    for (std::size_t i = 0; i < d.results.size(); ++i) {
      if (!k_.type(d.results[i]).is_tile()) continue;
      const auto next = spans_.find(nexts[i]);
      const bool is_in_loop = next != spans_.end() && next->second.first > time;
      const bool is_dot = is_in_loop && k_[k_[nexts[i]].def].opcode == Opcode::Dot;
      const std::int64_t last_use = last_uses_[args[i]];
      if (is_dot && last_use <= next->second.first) next->second.registers = 0;
      const bool is_loaded = is_in_loop && !is_dot && next->second.is_counted;
      const bool ends = is_loaded && loaded_ == LoadedCarry::to_last_use;
      const std::int64_t last = ends ? std::max(last_use, time) : end;
      others_.push_back({inits[i], registers_of(k_.type(d.results[i])), time, last, true});
    }
  }

  /// A sort in registers holds keys and indices in addition to its operand.
  void keep_keys(const OpData& sort, std::int64_t time) {
    const Value operand = sort.operands[0];
    const Type t = k_.type(operand);
    if (t.is_tile() && !is_sorted_in_memory(k_, sort))
      others_.push_back({operand, 2 * registers_of(t), time - 1, time, true});
  }

  /// Returns true if only dots read the value, as it is or transposed.
  bool is_read_by_dots(Value v) const {
    return std::ranges::all_of(uses_.of(v), [&](const Uses::Use& use) {
      const OpData& d = k_[use.op];
      return (d.opcode == Opcode::Dot && use.operand < 2) ||
             (d.is(Opcode::Permute, Opcode::FillAbsent) && is_read_by_dots(d.results[0]));
    });
  }

  /// Returns true if the operand is loaded for dots alone. Threads then read it from a ring of
  /// slots in shared memory, and it takes no registers before the dot.
  bool is_loaded_for_dots(Value operand) {
    OpId def = k_[operand].def;
    while (def && k_[def].is(Opcode::Permute, Opcode::FillAbsent))
      def = k_[k_[def].operands[0]].def;
    if (!def || k_[def].opcode != Opcode::LoadView || !is_read_by_dots(k_[def].results[0]))
      return false;
    if (const auto span = spans_.find(k_[def].results[0]); span != spans_.end())
      span->second.registers = 0;
    return true;
  }

  /// Registers that hold the operands during a dot. An instruction of tensor cores reads `step`
  /// columns of A and rows of B; threads hold all columns of an A that they computed. FMAs read
  /// rows of A that are exchanged between threads all at once, and rows of B one after another.
  void fragments(const OpData& d, std::int64_t time) {
    const Value a = d.operands[0], b = d.operands[1];
    const bool has_loaded_a = is_loaded_for_dots(a);
    is_loaded_for_dots(b);
    const auto acc = k_.type(d.results[0]).shape();
    const std::int64_t m = acc[acc.size() - 2], n = acc.back(), depth = k_.type(a).shape().back();
    const int warps = static_cast<int>(threads_ / 32);
    const MatrixType* type = matrix_type(k_, d);
    if (type && m % kWarpRows == 0 && n % kMmaColumns == 0 && depth % type->step() == 0) {
      const WarpGrid grid = warp_grid(m, n, 0, warps);
      const std::int64_t per_register = 32 / type->bits * 32;
      const auto registers = [&](std::int64_t lines, int parts, std::int64_t columns) {
        return lines / std::min<std::int64_t>(parts, lines) * columns / per_register;
      };
      others_.push_back(
          {a, registers(m, grid.rows, has_loaded_a ? type->step() : depth), time - 1, time, true});
      const bool is_in_memory = k_.info.target->has_wgmma && m % kWgmmaRows == 0;
      if (!is_in_memory)
        others_.push_back({b, registers(n, grid.columns, type->step()), time - 1, time, true});
    } else if (!has_loaded_a) {
      others_.push_back({a, fma_rows(m, n, warps) * depth, time - 1, time, true});
    }
  }

  /// Returns the rows of A that a thread multiplies by FMA, of 4 x 8 threads in a warp.
  static std::int64_t fma_rows(std::int64_t m, std::int64_t n, int warps) {
    constexpr std::int64_t kMaxRows = 4, kRowsOfLanes = 4;
    const auto eighth = static_cast<std::uint64_t>(std::max<std::int64_t>(1, m / 8));
    const auto rows = std::min(kMaxRows, static_cast<std::int64_t>(std::bit_floor(eighth)));
    const std::int64_t of_warps = kRowsOfLanes * rows * (m >= n ? warps : 1);
    return rows * ((m + of_warps - 1) / of_warps);
  }

  std::int64_t registers_of(Type t) const {
    const std::int64_t bits = t.count() * size_bits(t.dtype());
    return (bits + 32 * threads_ - 1) / (32 * threads_);
  }

  void make(Value v, Opcode by, std::int64_t time) {
    const Type t = k_.type(v);
    if (!t.is_tile() || by == Opcode::Const || by == Opcode::Arange) return;
    const bool is_counted = by == Opcode::LoadView || by == Opcode::Load || by == Opcode::Dot;
    spans_[v] = {v, registers_of(t), time, time, is_counted};
  }

  const Kernel& k_;
  std::int64_t threads_, now_ = 0;
  LoadedCarry loaded_;
  Uses uses_;
  std::unordered_map<Value, LiveSpan> spans_;
  std::unordered_map<Value, std::int64_t> last_uses_;
  std::vector<std::int64_t> exchanges_;  ///< positions, ascending
  bool has_exchange_ = false;
  std::vector<LiveSpan> others_;
};

}  // namespace

LiveTiles live_tiles(const Kernel& k, std::int64_t threads) {
  return LiveSpans(k, threads, LoadedCarry::throughout_loop).most();
}

bool live_tiles_fit(const Kernel& k, int num_warps) {
  const std::int64_t available = k.info.target->registers_at_entry(num_warps) - kOtherRegisters;
  const LiveSpans spans(k, 32 * std::int64_t{num_warps}, LoadedCarry::to_last_use);
  return spans.most().registers <= available ||
         (!has_masked_loads(k) && spans.least() <= available);
}

int warps_that_fit(const Kernel& k, int preferred) {
  for (int warps = preferred; warps <= kMaxWarps; warps *= 2)
    if (live_tiles_fit(k, warps)) return warps;
  return preferred;
}

}  // namespace tegula::ir
