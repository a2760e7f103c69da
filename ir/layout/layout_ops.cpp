// Shape operations on layouts; see layout_ops.h.
#include "ir/layout/layout_ops.h"

#include <algorithm>
#include <bit>
#include <string>

namespace tegula::ir {
namespace {

/// Applies `edit` to each basis of the spec.
template <class Edit>
void for_each_basis(LayoutSpec& spec, Edit edit) {
  for (HwDim in : kIns)
    for (Dims& basis : spec.of(in)) edit(basis);
}

}  // namespace

RegisterView drop_register_copies(const LinearLayout& layout) {
  LayoutSpec spec = layout.spec();
  Echelon seen;
  std::vector<int> kept_bits;
  const auto bases = layout.packed_bases(HwDim::Register);
  for (int b = 0; b < layout.in_bits(HwDim::Register); ++b)
    if (seen.add(bases[static_cast<std::size_t>(b)])) kept_bits.push_back(b);
  auto& registers = spec.of(HwDim::Register);
  registers.clear();
  for (int b : kept_bits) registers.push_back(layout.basis(HwDim::Register, b));
  std::erase_if(spec.repeats,
                [](const Repeat& r) { return r.in == HwDim::Register && r.dim == Repeat::kNoDim; });

  std::vector<int> from{0};
  const auto add_digit = [&from](int count, int weight) {
    const auto n = from.size();
    for (int digit = 1; digit < count; ++digit)
      for (std::size_t i = 0; i < n; ++i) from.push_back(from[i] + digit * weight);
  };
  for (int b : kept_bits) add_digit(2, 1 << b);
  int weight = 1 << layout.in_bits(HwDim::Register);
  for (const Repeat& r : layout.repeats()) {
    if (r.in != HwDim::Register) continue;
    if (r.dim != Repeat::kNoDim) add_digit(r.count, weight);
    weight *= r.count;
  }
  return {LinearLayout(spec), from};
}

Result<LinearLayout> number_lanes_first(const LinearLayout& layout) {
  if (!layout.repeats().empty()) return Result<LinearLayout>::refused("repeat digits are not bits");
  constexpr std::array kOrder{HwDim::Lane, HwDim::Warp, HwDim::Register, HwDim::Block};
  LayoutSpec spec = layout.spec();
  spec.shape = Dims{1 << layout.index_bits()};
  spec.bits = Dims{layout.index_bits()};
  Echelon seen;
  std::vector<int> numbers;  // indexed like the vectors added to `seen`
  for (HwDim in : kOrder)
    for (int bit = 0; bit < layout.in_bits(in); ++bit) {
      const BitVector element = layout.packed_basis(in, bit);
      int number = 1 << seen.rank();
      if (!seen.add(element)) {
        number = 0;
        for (BitVector rest = *seen.solve(element); rest != 0; rest &= rest - 1)
          number ^= numbers.at(static_cast<std::size_t>(std::countr_zero(rest)));
      }
      numbers.push_back(number);
      spec.of(in).at(static_cast<std::size_t>(bit)) = Dims{number};
    }
  return LinearLayout(spec);
}

LinearLayout slice(const LinearLayout& layout, int dim) {
  LayoutSpec spec = layout.spec();
  spec.shape.erase(dim);
  spec.bits.erase(dim);
  for_each_basis(spec, [dim](Dims& basis) { basis.erase(dim); });
  for (Repeat& r : spec.repeats) r.dim = r.dim == dim ? Repeat::kNoDim : r.dim - (r.dim > dim);
  return drop_register_copies(LinearLayout(spec)).layout;
}

LinearLayout expand_dim(const LinearLayout& layout, int position) {
  LayoutSpec spec = layout.spec();
  spec.shape.insert(position, 1);
  spec.bits.insert(position, 0);
  for_each_basis(spec, [position](Dims& basis) { basis.insert(position, 0); });
  for (Repeat& r : spec.repeats) r.dim += r.dim >= position;
  return LinearLayout(spec);
}

LinearLayout permute(const LinearLayout& layout, const Dims& order) {
  LayoutSpec spec = layout.spec();
  const auto reorder = [&order](Dims& d) {
    Dims out;
    for (int from : order) out.push_back(d[from]);
    d = out;
  };
  reorder(spec.shape);
  reorder(spec.bits);
  for_each_basis(spec, reorder);
  for (Repeat& r : spec.repeats)
    if (r.dim != Repeat::kNoDim)
      r.dim = static_cast<int>(std::find(order.begin(), order.end(), r.dim) - order.begin());
  return LinearLayout(spec);
}

namespace {

/// State of one reshape. Row-major order lists the bits of all dimensions in the order of a packed
/// index, so the packed bases are unchanged. Only the dimension boundaries and the dimension of
/// each digit have to be determined.
class Reshaping {
 public:
  Reshaping(const LinearLayout& layout, const Dims& shape) : layout_(layout), shape_(shape) {
    bits_ = Dims::filled(shape.size(), 0);
    repeats_.assign(layout.repeats().begin(), layout.repeats().end());
  }

  /// Returns the reason for refusal, or an empty string on success.
  std::string run() {
    int from = layout_.rank() - 1, to = shape_.size() - 1;
    while (from >= 0 || to >= 0) {
      while (from >= 0 && layout_.cover()[from] == 1) --from;
      const bool pads_one = from >= 0 && layout_.shape()[from] == 1;
      while (to >= 0 && shape_[to] == 1 && !pads_one) --to;
      const int from_end = from, to_end = to;
      std::int64_t a = from >= 0 ? layout_.shape()[from--] : 1, b = to >= 0 ? shape_[to--] : 1;
      while (a != b) {
        if (a < b ? from < 0 : to < 0) return "the numbers of elements differ";
        if (a < b)
          a *= layout_.shape()[from--];
        else
          b *= shape_[to--];
      }
      const std::string reason = group(from + 1, from_end, to + 1, to_end);
      if (!reason.empty()) return reason;
    }
    return check_digit_order();
  }

  LinearLayout result() const {
    LayoutSpec spec;
    spec.shape = shape_;
    spec.bits = bits_;
    spec.repeats = repeats_;
    for (HwDim in : kIns)
      for (BitVector packed : layout_.packed_bases(in)) {
        Dims basis = Dims::filled(shape_.size(), 0);
        for (int d = shape_.size() - 1; d >= 0; --d) {
          basis[d] = static_cast<int>(packed & ((BitVector{1} << bits_[d]) - 1));
          packed >>= bits_[d];
        }
        spec.of(in).push_back(basis);
      }
    return LinearLayout(spec);
  }

 private:
  struct Digit {
    int repeat;  // -1: `count` matrix bits; otherwise the index of a repeat
    int count;
  };

  std::string group(int from, int from_end, int to, int to_end) {
    if (from == from_end && to == to_end) {
      bits_[to] = layout_.bits(from);
      move_repeats(from, to);
      return {};
    }
    std::vector<Digit> digits;  // least significant first
    for (int d = from_end; d >= from; --d) {
      if (layout_.cover()[d] != layout_.shape()[d])
        return "a padded dimension would be cut or merged";
      if (layout_.bits(d) > 0) digits.push_back({-1, layout_.bits(d)});
      for (std::size_t i = 0; i < repeats_.size(); ++i)
        if (layout_.repeats()[i].dim == d)
          digits.push_back({static_cast<int>(i), layout_.repeats()[i].count});
    }
    auto next = digits.begin();
    for (int d = to_end; d >= to; --d)
      for (int remaining = shape_[d]; remaining > 1;) {
        if (next->repeat < 0 ? !take_bits(*next, d, remaining) : !take_repeat(*next, d, remaining))
          return "repeat digits of different dimensions would mix with bits";
        if (next->repeat >= 0 || next->count == 0) ++next;
      }
    return {};
  }

  bool take_bits(Digit& digit, int dim, int& remaining) {
    const int n = std::min(digit.count, std::countr_zero(static_cast<unsigned>(remaining)));
    const bool above_digit = remaining < shape_[dim] >> bits_[dim];
    if (n == 0 || above_digit) return false;
    bits_[dim] += n;
    remaining >>= n;
    digit.count -= n;
    return true;
  }

  bool take_repeat(const Digit& digit, int dim, int& remaining) {
    if (remaining % digit.count != 0) return false;
    remaining /= digit.count;
    repeats_[static_cast<std::size_t>(digit.repeat)].dim = dim;
    placed_.push_back(digit.repeat);
    return true;
  }

  void move_repeats(int from, int to) {
    for (std::size_t i = 0; i < repeats_.size(); ++i)
      if (layout_.repeats()[i].dim == from) {
        repeats_[i].dim = to;
        placed_.push_back(static_cast<int>(i));
      }
  }

  /// Along one dimension the list order of repeats is their order of significance.
  std::string check_digit_order() const {
    for (std::size_t i = 0; i < placed_.size(); ++i)
      for (std::size_t j = i + 1; j < placed_.size(); ++j) {
        const auto a = static_cast<std::size_t>(placed_[i]),
                   b = static_cast<std::size_t>(placed_[j]);
        if (repeats_[a].dim == repeats_[b].dim && a > b)
          return "repeat digits would merge in the wrong order";
      }
    return {};
  }

  const LinearLayout& layout_;
  Dims shape_, bits_;
  std::vector<Repeat> repeats_;
  std::vector<int> placed_;  // repeats in order of significance
};

}  // namespace

Result<LinearLayout> reshape(const LinearLayout& layout, const Dims& shape) {
  Reshaping reshaping(layout, shape);
  const std::string reason = reshaping.run();
  if (!reason.empty()) return Result<LinearLayout>::refused(reason);
  return reshaping.result();
}

}  // namespace tegula::ir
