// Linear layouts with repeat digits: construction, evaluation, inversion, comparison.
#include "ir/layout/linear_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tegula/error.h"

namespace tegula::ir {
namespace {

constexpr std::size_t at(HwDim in) { return static_cast<std::size_t>(in); }
constexpr BitVector low_mask(int bits) { return (BitVector{1} << bits) - 1; }

void require(bool ok, const char* what) {
  if (!ok) throw InternalError(fmt::format("malformed layout: {}", what));
}

}  // namespace

const char* name(HwDim in) {
  constexpr std::array<const char*, 4> kNames{"reg", "lane", "warp", "block"};
  return kNames[at(in)];
}

int HardwareCoord::operator[](HwDim in) const { return std::array{reg, lane, warp, block}[at(in)]; }
int& HardwareCoord::operator[](HwDim in) {
  return *std::array<int*, 4>{&reg, &lane, &warp, &block}[at(in)];
}

LinearLayout::LinearLayout(const LayoutSpec& spec) : shape_(spec.shape), bits_(spec.bits) {
  require(shape_.size() == bits_.size(), "shape and bits differ in rank");
  for (int extent : shape_) require(extent > 0, "an extent is not positive");
  for (int b : bits_) require(b >= 0 && b < 31, "bits of a dimension out of range");
  require(index_bits() < 48, "tile too large");
  require(spec.repeats.size() <= kMaxRepeats, "too many repeats");
  for (const Repeat& r : spec.repeats) {
    require(r.count > 0 && r.dim >= Repeat::kNoDim && r.dim < rank(), "repeat out of range");
    if (r.count > 1) repeats_[repeat_count_++] = r;
  }
  std::size_t next = 0;
  for (HwDim in : kIns) {
    require(next + spec.of(in).size() <= kMaxInputs, "too many input bits");
    in_bits_[at(in)] = static_cast<std::uint8_t>(spec.of(in).size());
    for (const Dims& basis : spec.of(in)) {
      require(basis.size() == rank(), "a basis has the wrong rank");
      for (int d = 0; d < rank(); ++d)
        require(basis[d] >= 0 && basis[d] >> bits_[d] == 0, "a basis leaves the covered bits");
      basis_[next++] = pack(basis);
    }
  }
  const Dims covered = cover();
  for (int d = 0; d < rank(); ++d) require(covered[d] >= shape_[d], "the tile is not covered");
}

LayoutSpec LinearLayout::spec() const {
  LayoutSpec spec;
  spec.shape = shape_;
  spec.bits = bits_;
  for (HwDim in : kIns)
    for (int b = 0; b < in_bits(in); ++b) spec.of(in).push_back(basis(in, b));
  spec.repeats.assign(repeats().begin(), repeats().end());
  return spec;
}

Dims LinearLayout::cover() const {
  Dims covered;
  for (int d = 0; d < rank(); ++d) covered.push_back(repeat_factor(d) << bits_[d]);
  return covered;
}

int LinearLayout::index_bits() const { return std::accumulate(bits_.begin(), bits_.end(), 0); }

int LinearLayout::repeat_factor(int dim) const {
  int factor = 1;
  for (const Repeat& r : repeats())
    if (r.dim == dim) factor *= r.count;
  return factor;
}

bool LinearLayout::has_thread_digit(int dim) const {
  return std::ranges::any_of(
      repeats(), [dim](const Repeat& r) { return r.dim == dim && r.in != HwDim::Register; });
}

int LinearLayout::size(HwDim in) const {
  int total = 1 << in_bits(in);
  for (const Repeat& r : repeats())
    if (r.in == in) total *= r.count;
  return total;
}

int LinearLayout::first_input(HwDim in) const {
  return std::accumulate(in_bits_.begin(), in_bits_.begin() + static_cast<int>(at(in)), 0);
}

BitVector LinearLayout::packed_basis(HwDim in, int bit) const {
  return packed_bases(in)[static_cast<std::size_t>(bit)];
}

std::span<const BitVector> LinearLayout::packed_bases(HwDim in) const {
  return std::span(basis_).subspan(static_cast<std::size_t>(first_input(in)),
                                   static_cast<std::size_t>(in_bits(in)));
}

BitMatrix LinearLayout::matrix() const {
  const auto inputs = std::accumulate(in_bits_.begin(), in_bits_.end(), std::size_t{0});
  return BitMatrix::from_columns(std::span(basis_).first(inputs), index_bits());
}

Dims LinearLayout::apply(const HardwareCoord& place) const {
  HardwareCoord rest = place;
  BitVector packed = 0;
  for (HwDim in : kIns) {
    const auto bases = packed_bases(in);
    for (std::size_t b = 0; b < bases.size(); ++b)
      if (place[in] >> b & 1) packed ^= bases[b];
    rest[in] >>= in_bits(in);
  }
  Dims index = unpack(packed);
  Dims weight;
  for (int b : bits_) weight.push_back(1 << b);
  for (const Repeat& r : repeats()) {
    const int digit = rest[r.in] % r.count;
    rest[r.in] /= r.count;
    if (r.dim == Repeat::kNoDim) continue;
    index[r.dim] += digit * weight[r.dim];
    weight[r.dim] *= r.count;
  }
  return index;
}

bool LinearLayout::is_absent(const Dims& index) const {
  for (int d = 0; d < rank(); ++d)
    if (index[d] >= shape_[d]) return true;
  return false;
}

std::optional<HardwareCoord> LinearLayout::locate(const Dims& index) const {
  Dims low, high;
  for (int d = 0; d < rank(); ++d) {
    low.push_back(index[d] & static_cast<int>(low_mask(bits_[d])));
    high.push_back(index[d] >> bits_[d]);
    if (high[d] >= repeat_factor(d)) return std::nullopt;
  }
  const auto inputs = Echelon(matrix().columns()).solve(pack(low));
  if (!inputs) return std::nullopt;
  HardwareCoord place;
  std::array<int, 4> weight{};
  for (HwDim in : kIns) {
    place[in] = static_cast<int>(*inputs >> first_input(in) & low_mask(in_bits(in)));
    weight[at(in)] = 1 << in_bits(in);
  }
  for (const Repeat& r : repeats()) {
    if (r.dim != Repeat::kNoDim) {
      place[r.in] += high[r.dim] % r.count * weight[at(r.in)];
      high[r.dim] /= r.count;
    }
    weight[at(r.in)] *= r.count;
  }
  return place;
}

bool LinearLayout::is_surjective() const { return matrix().is_surjective(); }

bool LinearLayout::is_bijective() const {
  const auto copies = [](const Repeat& r) { return r.dim == Repeat::kNoDim; };
  return std::none_of(repeats().begin(), repeats().end(), copies) && is_surjective() &&
         matrix().is_injective();
}

std::uint32_t LinearLayout::free_bits(HwDim in) const {
  const BitVector free = ~Echelon(matrix().columns()).pivots();
  return static_cast<std::uint32_t>(free >> first_input(in) & low_mask(in_bits(in)));
}

BitVector LinearLayout::pack(const Dims& index) const {
  BitVector packed = 0;
  for (int d = 0; d < rank(); ++d) packed = packed << bits_[d] | static_cast<BitVector>(index[d]);
  return packed;
}

Dims LinearLayout::unpack(BitVector packed) const {
  Dims index = Dims::filled(rank(), 0);
  for (int d = rank() - 1; d >= 0; --d) {
    index[d] = static_cast<int>(packed & low_mask(bits_[d]));
    packed >>= bits_[d];
  }
  return index;
}

namespace {

/// Chooses, for one basis of `to`, a sum of bases of `from` that stays as close as possible to the
/// same thread.
class SourceFinder {
 public:
  explicit SourceFinder(const LinearLayout& from) : from_(from) {}

  std::optional<BitVector> find(HwDim in, int bit, BitVector target) const {
    for (bool keep_own : {true, false}) {
      if (keep_own && (in == HwDim::Register || bit >= from_.in_bits(in))) continue;
      const BitVector own = keep_own ? BitVector{1} << (from_.first_input(in) + bit) : 0;
      const BitVector rest = keep_own ? target ^ from_.packed_basis(in, bit) : target;
      // Moving within the thread is cheapest, then within the warp. A lane is preferred to a
      // register selected by lane.
      using enum HwDim;
      const std::vector<std::vector<HwDim>> reach =
          in == Lane && !keep_own
              ? std::vector<std::vector<HwDim>>{{Lane}, {Lane, Register}, {Warp, Lane, Register}}
              : std::vector<std::vector<HwDim>>{
                    {Register}, {Register, Lane}, {Register, Lane, Warp}};
      for (const auto& ins : reach)
        if (const auto found = solve(ins, rest)) return own ^ *found;
    }
    return solve({HwDim::Register, HwDim::Lane, HwDim::Warp, HwDim::Block}, target);
  }

 private:
  std::optional<BitVector> solve(const std::vector<HwDim>& ins, BitVector target) const {
    BitBasis columns;
    std::vector<int> inputs;
    for (HwDim in : ins)
      for (int b = 0; b < from_.in_bits(in); ++b) {
        columns.push_back(from_.packed_basis(in, b));
        inputs.push_back(from_.first_input(in) + b);
      }
    const auto picked = Echelon(columns).solve(target);
    if (!picked) return std::nullopt;
    BitVector out = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (*picked >> i & 1) out |= BitVector{1} << inputs[i];
    return out;
  }

  const LinearLayout& from_;
};

/// Returns the indices of the repeats along `dim`, innermost first.
std::vector<int> repeats_along(const LinearLayout& layout, int dim) {
  std::vector<int> out;
  for (std::size_t i = 0; i < layout.repeats().size(); ++i)
    if (layout.repeats()[i].dim == dim) out.push_back(static_cast<int>(i));
  return out;
}

bool digits_match(const LinearLayout& from, const LinearLayout& to, std::vector<int>& digit_of) {
  for (int d = 0; d < to.rank(); ++d) {
    const auto a = repeats_along(from, d), b = repeats_along(to, d);
    if (from.bits(d) != to.bits(d) || a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto ai = static_cast<std::size_t>(a[i]), bi = static_cast<std::size_t>(b[i]);
      if (from.repeats()[ai].count != to.repeats()[bi].count) return false;
      digit_of[bi] = a[i];
    }
  }
  return true;
}

}  // namespace

Result<CoordMap> coord_map(const LinearLayout& from, const LinearLayout& to) {
  using LayoutRefusal = Result<CoordMap>;
  if (from.shape() != to.shape()) return LayoutRefusal::refused("the shapes differ");
  CoordMap map;
  map.digit_of.assign(to.repeats().size(), -1);
  if (!digits_match(from, to, map.digit_of))
    return LayoutRefusal::refused("the layouts cover the tile with different digits");
  const SourceFinder finder(from);
  map.matrix = BitMatrix(to.matrix().inputs(), from.matrix().inputs());
  for (HwDim in : kIns)
    for (int b = 0; b < to.in_bits(in); ++b) {
      const auto source = finder.find(in, b, to.packed_basis(in, b));
      if (!source)
        return LayoutRefusal::refused("the source does not hold every element of the target");
      map.matrix.set_column(to.first_input(in) + b, *source);
    }
  return map;
}

}  // namespace tegula::ir
