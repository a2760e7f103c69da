// Plans layout conversions; see conversion.h.
#include "ir/layout/conversion.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>

namespace tegula::ir {
namespace {

constexpr int kLaneBits = 5;

/// The four blocks of a coordinate map within a warp, from target registers and lanes to source
/// registers and lanes.
struct WarpMap {
  BitMatrix reg_from_reg{0, 0}, lane_from_reg{0, 0}, reg_from_lane{0, 0}, lane_from_lane{0, 0};
};

/// Returns true if both have the same repeats on warps and blocks, in the same order and along the
/// same dimensions.
bool same_thread_digits(const LinearLayout& a, const LinearLayout& b) {
  std::vector<Repeat> in_a, in_b;
  const auto on_threads = [](const Repeat& r) { return r.in != HwDim::Register; };
  std::copy_if(a.repeats().begin(), a.repeats().end(), std::back_inserter(in_a), on_threads);
  std::copy_if(b.repeats().begin(), b.repeats().end(), std::back_inserter(in_b), on_threads);
  return in_a == in_b;
}

/// Returns the map within each warp if no element moves to another warp or block; otherwise
/// nothing.
std::optional<WarpMap> within_warps(const LinearLayout& from, const LinearLayout& to,
                                    const CoordMap& map) {
  for (HwDim in : {HwDim::Lane, HwDim::Warp, HwDim::Block})
    if (from.in_bits(in) != to.in_bits(in)) return std::nullopt;
  if (!same_thread_digits(from, to) || from.in_bits(HwDim::Lane) != kLaneBits) return std::nullopt;
  const int regs = from.in_bits(HwDim::Register), first_to = to.in_bits(HwDim::Register);
  const BitVector reg_mask = unit_vector(regs) - 1;
  const BitVector lane_mask = (unit_vector(kLaneBits) - 1) << regs;
  WarpMap out{BitMatrix(first_to, regs), BitMatrix(first_to, kLaneBits), BitMatrix(kLaneBits, regs),
              BitMatrix(kLaneBits, kLaneBits)};
  for (int i = 0; i < map.matrix.inputs(); ++i) {
    const BitVector column = map.matrix.column(i);
    if (i >= first_to + kLaneBits) {
      if (column != unit_vector(i - first_to + regs)) return std::nullopt;
      continue;
    }
    if (column & ~(reg_mask | lane_mask)) return std::nullopt;
    const bool is_reg = i < first_to;
    const int bit = is_reg ? i : i - first_to;
    (is_reg ? out.reg_from_reg : out.reg_from_lane).set_column(bit, column & reg_mask);
    (is_reg ? out.lane_from_reg : out.lane_from_lane).set_column(bit, column >> regs);
  }
  return out;
}

/// Returns the source register for the repeat digits of each target register, with low bits zero.
std::vector<int> digit_registers(const LinearLayout& from, const LinearLayout& to,
                                 const CoordMap& map) {
  std::vector<int> weight(from.repeats().size(), 0);
  int next = 1 << from.in_bits(HwDim::Register);
  for (std::size_t i = 0; i < from.repeats().size(); ++i)
    if (from.repeats()[i].in == HwDim::Register) {
      weight[i] = next;
      next *= from.repeats()[i].count;
    }
  std::vector<int> out{0};
  for (std::size_t i = 0; i < to.repeats().size(); ++i) {
    const Repeat& r = to.repeats()[i];
    if (r.in != HwDim::Register) continue;
    const int step = map.digit_of[i] < 0 ? 0 : weight[static_cast<std::size_t>(map.digit_of[i])];
    const auto n = out.size();
    for (int digit = 1; digit < r.count; ++digit)
      for (std::size_t j = 0; j < n; ++j) out.push_back(out[j] + digit * step);
  }
  return out;
}

/// Decomposes a linear map from lanes to register flips into swaps, one for each dimension of its
/// image.
std::vector<LaneSwap> swaps_of(const BitMatrix& flip_of_lane) {
  const Echelon echelon(flip_of_lane.columns());
  std::vector<LaneSwap> out;
  for (int i = 0; i < flip_of_lane.inputs(); ++i) {
    if (!(echelon.pivots() >> i & 1)) continue;
    LaneSwap swap{0, static_cast<int>(flip_of_lane.column(i))};
    for (int lane = 0; lane < flip_of_lane.inputs(); ++lane)
      if (*echelon.solve(flip_of_lane.column(lane)) >> i & 1)
        swap.lanes |= std::uint32_t{1} << lane;
    out.push_back(swap);
  }
  return out;
}

/// In round j (a target register), lane l fills register j ^ stagger(l) and reads from lane
/// lanes(l) ^ lane_from_reg(j). The stagger makes all readers of a lane request the same register.
/// It is zero if the map from lanes to lanes is injective already; otherwise a register bit
/// replaces the lost lane bit.
struct ShuffleRounds {
  BitMatrix stagger{0, 0};  // lane -> target register
  BitMatrix lanes{0, 0};    // lane -> source lane
};

std::optional<ShuffleRounds> stagger(const WarpMap& m) {
  ShuffleRounds out{BitMatrix(kLaneBits, m.reg_from_reg.inputs()), m.lane_from_lane};
  Echelon reached(m.lane_from_lane.columns());
  const BitBasis lost = reached.relations();
  for (BitVector lanes : lost) {
    if (m.reg_from_lane(lanes) == 0) continue;  // replicas of each other may read the same register
    int chosen = -1;
    for (int r = 0; r < m.lane_from_reg.inputs() && chosen < 0; ++r)
      if (reached.add(m.lane_from_reg.column(r))) chosen = r;
    if (chosen < 0) return std::nullopt;
    // The last lane of the relation is the dependent one; only this lane is staggered.
    const int lane = static_cast<int>(std::bit_width(lanes)) - 1;
    out.stagger.set_column(lane, unit_vector(chosen));
    out.lanes.set_column(lane, out.lanes.column(lane) ^ m.lane_from_reg.column(chosen));
  }
  return out;
}

/// Returns the register flip of each source lane for its readers, found by inverting `rounds.lanes`
/// on its image. Readers with the same source lane are replicas and require the same flip.
BitMatrix flips_of_sources(const WarpMap& m, const ShuffleRounds& rounds) {
  BitMatrix wished(kLaneBits, m.reg_from_reg.outputs());
  for (int l = 0; l < kLaneBits; ++l)
    wished.set_column(l, m.reg_from_lane.column(l) ^ m.reg_from_reg(rounds.stagger.column(l)));
  Echelon echelon(rounds.lanes.columns());
  for (BitVector v : complement(rounds.lanes.image(), kLaneBits)) echelon.add(v);
  BitMatrix flips(kLaneBits, wished.outputs());
  for (int s = 0; s < kLaneBits; ++s)
    flips.set_column(s, wished(*echelon.solve(unit_vector(s)) & (unit_vector(kLaneBits) - 1)));
  return flips;
}

std::optional<ShufflePlan> plan_shuffles(const WarpMap& m, const std::vector<int>& digits,
                                         int element_bytes) {
  const auto rounds = stagger(m);
  if (!rounds) return std::nullopt;
  const BitMatrix flips = flips_of_sources(m, *rounds);
  ShufflePlan plan;
  plan.before = swaps_of(flips);
  plan.after = swaps_of(rounds->stagger);
  for (int l = 0; l < kLaneBits; ++l)
    plan.source_of_bit[static_cast<std::size_t>(l)] = static_cast<int>(rounds->lanes.column(l));
  const int bits = m.reg_from_reg.inputs();
  const auto per_word = static_cast<std::size_t>(std::max(1, kWordBytes / element_bytes));
  std::map<int, std::size_t> open;  // lane flip -> a shuffle that has room left
  for (std::size_t d = 0; d < digits.size(); ++d)
    for (int j = 0; j < 1 << bits; ++j) {
      const BitVector lane_flip = m.lane_from_reg(static_cast<BitVector>(j));
      const BitVector from = m.reg_from_reg(static_cast<BitVector>(j)) ^ flips(lane_flip);
      const auto key = static_cast<int>(lane_flip);
      const auto it = open.find(key);
      if (it == open.end() || plan.shuffles[it->second].from.size() == per_word) {
        open[key] = plan.shuffles.size();
        plan.shuffles.push_back({key, {}, {}});
      }
      Shuffle& shuffle = plan.shuffles[open[key]];
      shuffle.from.push_back(digits[d] + static_cast<int>(from));
      shuffle.to.push_back(static_cast<int>(d << bits) + j);
    }
  return plan;
}

/// Maps target registers to source registers of the same thread; returns nothing if some elements
/// are in other threads.
std::optional<std::vector<int>> plan_registers(const WarpMap& m, const std::vector<int>& digits) {
  if (m.lane_from_lane != BitMatrix::identity(kLaneBits)) return std::nullopt;
  for (BitVector v : m.lane_from_reg.columns())
    if (v != 0) return std::nullopt;
  for (BitVector v : m.reg_from_lane.columns())
    if (v != 0) return std::nullopt;
  std::vector<int> out;
  for (int digit : digits)
    for (int r = 0; r < 1 << m.reg_from_reg.inputs(); ++r)
      out.push_back(digit + static_cast<int>(m.reg_from_reg(static_cast<BitVector>(r))));
  return out;
}

/// Estimates the cycles of one warp. A shuffle moves 32 words, like a wavefront of shared memory;
/// selects and packing also work on words, two instructions per cycle.
int cost_of(const ShufflePlan& plan, const LinearLayout& from, const LinearLayout& to,
            int element_bytes) {
  const int per_word = std::max(1, kWordBytes / element_bytes);
  const auto swaps = static_cast<int>(plan.before.size()) * from.registers() / per_word +
                     static_cast<int>(plan.after.size()) * to.registers() / per_word;
  const auto packing = per_word == 1 ? 0 : 2 * static_cast<int>(plan.shuffles.size());
  return plan.crossings() + (swaps + packing) / 2;
}

}  // namespace

bool ShufflePlan::is_butterfly() const { return source_of_bit == std::array{1, 2, 4, 8, 16}; }

int ShufflePlan::crossings() const {
  return static_cast<int>(std::count_if(shuffles.begin(), shuffles.end(), [&](const Shuffle& s) {
    return s.lane_flip != 0 || !is_butterfly();
  }));
}

Result<Conversion> plan_conversion(const LinearLayout& from, const LinearLayout& to,
                                   int element_bytes, const ConversionOptions& options) {
  using LayoutRefusal = Result<Conversion>;
  if (from.shape() != to.shape()) return LayoutRefusal::refused("the shapes differ");
  Conversion out;
  if (from == to) return out;
  std::optional<ShufflePlan> shuffles;
  if (const auto map = coord_map(from, to)) {
    if (const auto warp_map = within_warps(from, to, *map)) {
      const auto digits = digit_registers(from, to, *map);
      if (const auto registers = plan_registers(*warp_map, digits)) {
        out.kind = ConversionKind::Registers;
        out.registers = *registers;
        return out;
      }
      if (options.allow_shuffles) shuffles = plan_shuffles(*warp_map, digits, element_bytes);
    }
  }
  std::optional<SharedExchange> shared;
  if (options.allow_shared)
    if (const auto exchange = synthesize_exchange(from, to, element_bytes, options.exchange))
      shared = *exchange;
  if (!shuffles && !shared)
    return LayoutRefusal::refused("elements change threads, and no allowed way moves them");
  const int warps = to.size(HwDim::Warp);
  const bool prefer_shuffles =
      shuffles && (!shared || cost_of(*shuffles, from, to, element_bytes) * warps <=
                                  shared->cost() + options.shared_overhead);
  out.kind = prefer_shuffles ? ConversionKind::Shuffles : ConversionKind::Shared;
  if (prefer_shuffles)
    out.shuffle = std::move(*shuffles);
  else
    out.shared = std::move(shared);
  return out;
}

}  // namespace tegula::ir
