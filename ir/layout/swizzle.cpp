// Synthesizes swizzles by the subspace method; see swizzle.h.
#include "ir/layout/swizzle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace tegula::ir {
namespace {

constexpr int kBankRowBytes = 128;

int log2_of(int v) { return std::countr_zero(static_cast<unsigned>(v)); }

BitBasis concat(std::initializer_list<std::span<const BitVector>> parts) {
  BitBasis all;
  for (auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::span<const BitVector> prefix(std::span<const BitVector> list, int n) {
  return list.first(std::min(list.size(), static_cast<std::size_t>(n)));
}

/// The index space that both layouts share: for each dimension, the bits that are counted in
/// binary, and a digit above them. Register digits of a layout may be among these bits, because
/// they are constants; thread digits may not.
struct Cover {
  Dims shape, bits;
  std::vector<Repeat> digits;

  Cover(const LinearLayout& a, const LinearLayout& b) {
    for (int d = 0; d < a.rank(); ++d) {
      const int extent = std::max(a.cover()[d], b.cover()[d]);
      const LinearLayout& coarser = a.bits(d) < b.bits(d) ? a : b;
      bits.push_back(coarser.has_thread_digit(d) ? coarser.bits(d)
                                                 : std::max(a.bits(d), b.bits(d)));
      shape.push_back(extent);
      const int count = (extent + (1 << bits[d]) - 1) >> bits[d];
      if (count > 1) digits.push_back({d, count, HwDim::Register});
    }
  }
  int total_bits() const {
    int total = 0;
    for (int b : bits) total += b;
    return total;
  }
  BitVector pack(const Dims& index) const {
    BitVector packed = 0;
    for (int d = 0; d < bits.size(); ++d)
      packed = packed << bits[d] | static_cast<BitVector>(index[d] & ((1 << bits[d]) - 1));
    return packed;
  }
  Dims unpack(BitVector packed) const {
    Dims index = Dims::filled(bits.size(), 0);
    for (int d = bits.size() - 1; d >= 0; packed >>= bits[d], --d)
      index[d] = static_cast<int>(packed & ((BitVector{1} << bits[d]) - 1));
    return index;
  }
};

/// The writer or the reader, in terms of the bits of the cover.
struct Side {
  const LinearLayout& layout;
  BitBasis registers, lanes;

  Side(const LinearLayout& l, const Cover& cover) : layout(l) {
    for (int b = 0; b < l.in_bits(HwDim::Register); ++b)
      registers.push_back(cover.pack(l.basis(HwDim::Register, b)));
    for (int b = 0; b < l.in_bits(HwDim::Lane); ++b)
      lanes.push_back(cover.pack(l.basis(HwDim::Lane, b)));
  }

  /// Returns the bits that the instruction needs contiguous, lowest first (for vectors: all bits
  /// that registers hold).
  std::optional<BitBasis> vector(AccessForm form, int element_bytes) const {
    if (form == AccessForm::Vector) return registers;
    const auto in_word = static_cast<std::size_t>(log2_of(kWordBytes / element_bytes));
    if (lanes.size() != 5 || registers.size() < in_word) return std::nullopt;
    const BitBasis own =
        form == AccessForm::Matrix
            ? concat({std::span(registers).first(in_word), std::span(lanes).first(2)})
            : BitBasis(lanes.begin() + 2, lanes.end());
    if (Echelon(own).rank() != static_cast<int>(own.size())) return std::nullopt;
    return own;
  }

  /// Returns the elements accessed in one phase if 2^width elements are contiguous.
  BitBasis phase(AccessForm form, std::span<const BitVector> contiguous, int width,
                 int element_bytes) const {
    if (form == AccessForm::Matrix) return concat({std::span(lanes).subspan(2), contiguous});
    if (form == AccessForm::MatrixTransposed)
      return concat({std::span(registers).first(1), std::span(lanes).first(2), contiguous});
    const int bytes = element_bytes << width;
    const int lane_bits = 5 - std::max(0, log2_of(std::max(bytes, kWordBytes)) - 2);
    return concat({prefix(lanes, lane_bits), prefix(contiguous, width)});
  }

  /// Returns the number of bits of `contiguous` that this side covers with one access, or nothing
  /// if the form needs other bits.
  std::optional<int> width(AccessForm form, std::span<const BitVector> contiguous,
                           int element_bytes) const {
    if (form != AccessForm::Vector) {
      const auto own = vector(form, element_bytes);
      if (!own || !std::equal(own->begin(), own->end(), contiguous.begin(), contiguous.end()))
        return std::nullopt;
      return static_cast<int>(contiguous.size());
    }
    const Echelon held(registers);
    int n = 0;
    for (BitVector v : contiguous) {
      if (!held.contains(v)) break;
      ++n;
    }
    return n;
  }

  Result<BankUse> use(AccessForm form, const SharedLayout& shared, int max_bytes) const {
    if (form == AccessForm::Vector) return bank_use(shared, layout, max_bytes);
    const auto plan = matrix_plan(shared, layout, form == AccessForm::MatrixTransposed);
    if (!plan) return Result<BankUse>::refused(plan.reason());
    return bank_use(layout, *plan);
  }
};

class Synthesis {
 public:
  Synthesis(const LinearLayout& writer, const LinearLayout& reader, int element_bytes,
            const ExchangeOptions& options)
      : cover_(writer, reader),
        sides_{Side(writer, cover_), Side(reader, cover_)},
        element_bytes_(element_bytes),
        options_(options) {}

  std::optional<SharedExchange> run() {
    for (AccessForm write : forms(options_.stmatrix))
      for (AccessForm read : forms(options_.ldmatrix))
        for (int leader : {1, 0}) {
          if (best_ && is_perfect(*best_)) return best_;
          consider({write, read}, leader);
        }
    return best_;
  }

 private:
  using Forms = std::array<AccessForm, 2>;

  std::vector<AccessForm> forms(bool matrix) const {
    std::vector<AccessForm> out{AccessForm::Vector};
    if (matrix && element_bytes_ <= kWordBytes) out.push_back(AccessForm::Matrix);
    if (matrix && element_bytes_ == 2) out.push_back(AccessForm::MatrixTransposed);
    return out;
  }

  /// Returns true if every access has full width and no conflicts, so that no other form can be
  /// cheaper.
  bool is_perfect(const SharedExchange& e) const {
    const auto full = [&](const BankUse& use, const LinearLayout& l) {
      const std::int64_t bytes = static_cast<std::int64_t>(l.registers()) * l.size(HwDim::Lane) *
                                 l.size(HwDim::Warp) * element_bytes_;
      return use.extra() == 0 && use.instructions * 32LL * options_.max_vector_bytes <= bytes;
    };
    return full(e.write_use, sides_[0].layout) && full(e.read_use, sides_[1].layout);
  }

  /// Returns the vector bits chosen for the leader, starting with those that are also in registers
  /// on the other side.
  std::optional<BitBasis> vector_bits(const Forms& forms, std::size_t leader) const {
    auto own = sides_[leader].vector(forms[leader], element_bytes_);
    if (!own || forms[leader] != AccessForm::Vector) return own;
    const BitBasis common = intersection(*own, sides_[1 - leader].registers);
    const Echelon in_common(common);
    BitBasis first, rest;
    for (BitVector v : *own) (in_common.contains(v) ? first : rest).push_back(v);
    const BitBasis ordered = extension({}, concat({first, common, rest}));
    const auto most =
        prefix(ordered, log2_of(std::max(1, options_.max_vector_bytes / element_bytes_)));
    return BitBasis(most.begin(), most.end());
  }

  void consider(const Forms& forms, int leader) {
    const auto contiguous = vector_bits(forms, static_cast<std::size_t>(leader));
    if (!contiguous) return;
    std::array<BitBasis, 2> phases;
    for (std::size_t s = 0; s < 2; ++s) {
      const auto width = sides_[s].width(forms[s], *contiguous, element_bytes_);
      if (!width) return;
      // Elements of one word never conflict, so the rest of the word counts as accessed.
      const int in_word = log2_of(std::max(1, kWordBytes / element_bytes_));
      phases[s] = concat({sides_[s].phase(forms[s], *contiguous, *width, element_bytes_),
                          prefix(*contiguous, in_word)});
    }
    const auto layout = place(*contiguous, phases);
    if (!layout) return;
    const auto write = sides_[0].use(forms[0], *layout, options_.max_vector_bytes);
    const auto read = sides_[1].use(forms[1], *layout, options_.max_vector_bytes);
    if (!write || !read) return;
    SharedExchange found{*layout, forms[0], forms[1], *write, *read, options_.reads};
    if (!best_ || found.cost() < best_->cost()) best_ = found;
  }

  /// Assigns vector bits to the lowest offset bits, then banks, then segments that neither side
  /// accesses within a phase.
  std::optional<SharedLayout> place(const BitBasis& contiguous,
                                    const std::array<BitBasis, 2>& phases) const {
    const int total = cover_.total_bits();
    const int segments = std::max(0, total - log2_of(kBankRowBytes / element_bytes_));
    // Plain bits that no phase accesses give the simplest addresses, so they precede the diagonals.
    BitBasis free = common_complement(phases[0], phases[1], total);
    std::stable_sort(free.begin(), free.end(), [](BitVector a, BitVector b) {
      return std::has_single_bit(a) > std::has_single_bit(b);
    });
    const BitBasis high = extension(contiguous, prefix(free, segments));
    const BitBasis banks = extension(concat({contiguous, high}),
                                     concat({phases[1], phases[0], complement({}, total)}));
    std::vector<Dims> offset_basis;
    for (BitVector v : concat({contiguous, banks, high})) offset_basis.push_back(cover_.unpack(v));
    const auto layout =
        SharedLayout::linear(cover_.shape, element_bytes_, offset_basis, cover_.digits);
    return layout ? std::optional(*layout) : std::nullopt;
  }

  Cover cover_;
  std::array<Side, 2> sides_;
  int element_bytes_;
  ExchangeOptions options_;
  std::optional<SharedExchange> best_;
};

}  // namespace

Result<SharedExchange> synthesize_exchange(const LinearLayout& writer, const LinearLayout& reader,
                                           int element_bytes, const ExchangeOptions& options) {
  using LayoutRefusal = Result<SharedExchange>;
  if (writer.rank() != reader.rank()) return LayoutRefusal::refused("the ranks differ");
  const auto best = Synthesis(writer, reader, element_bytes, options).run();
  if (!best)
    return LayoutRefusal::refused(
        "no layout gives both sides addresses of thread and register parts");
  return *best;
}

}  // namespace tegula::ir
