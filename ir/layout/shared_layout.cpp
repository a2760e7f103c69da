// Shared-memory layouts: plain, hardware-swizzled in segments, or given by a matrix.
#include "ir/layout/shared_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/layout/layout_text.h"
#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

constexpr int kSwizzleUnit = 16;  // bytes of a chunk that the swizzle does not split
constexpr int kSwizzleRows = 8;   // rows of the swizzle width after which the pattern repeats

int trailing_zeros(std::int64_t v) { return std::countr_zero(static_cast<std::uint64_t>(v)); }

/// Applies the hardware swizzle. 128 B: address bits 4..6 ^= bits 7..9; 64 B: 4..5 ^= 7..8; 32 B: 4
/// ^= 7 (PTX ISA, "Swizzling Modes").
std::uint32_t swizzle_address(std::uint32_t address, int swizzle) {
  const auto chunks = static_cast<std::uint32_t>(swizzle / kSwizzleUnit);
  return chunks == 0 ? address : address ^ ((address >> 7 & (chunks - 1)) << 4);
}

/// Returns the bytes after which the swizzle pattern repeats. The swizzle reads only address bits
/// below this.
int swizzle_span(int swizzle) { return swizzle == 0 ? 0 : swizzle * kSwizzleRows; }

/// Lays out one run of equal segments, dimension by dimension.
class SlabBuilder {
 public:
  SlabBuilder(const Dims& shape, int element_bytes, const Dims& order, int batch)
      : shape_(shape), element_bytes_(element_bytes), order_(order), inner_(order.size() - batch) {}

  /// Builds the slab and sets `run_bytes` to the bytes of the run, without batches.
  Slab build(int begin, const SwizzleSegment& piece) {
    Slab slab;
    slab.begin = begin;
    slab.swizzle = piece.swizzle;
    slab.bits = Dims::filled(shape_.size(), 0);
    linear_.assign(static_cast<std::size_t>(shape_.size()), {});
    const int width = piece.width / element_bytes_;
    slab.end = begin + width * piece.count;
    std::int64_t bytes = element_bytes_;
    contiguous_ = true;
    for (int i = 0; i < inner_; ++i)
      bytes = nest(slab, order_[i], i == 0 ? width : shape_[order_[i]], bytes);
    piece_bytes = bytes;
    stride_bytes = round_up(bytes, std::max(1, swizzle_span(piece.swizzle)));
    if (piece.count > 1) slab.stride[static_cast<std::size_t>(order_[0])] = stride_bytes;
    run_bytes = stride_bytes * piece.count;
    int next = 0;
    for (int d = shape_.size() - 1; d >= 0; --d)
      for (std::uint32_t address : linear_[static_cast<std::size_t>(d)])
        slab.basis.at(static_cast<std::size_t>(next++)) = swizzle_address(address, piece.swizzle);
    return slab;
  }

  std::int64_t piece_bytes = 0;   // bytes of one segment, without padding
  std::int64_t stride_bytes = 0;  // from one piece to the next
  std::int64_t run_bytes = 0;

 private:
  /// Adds a dimension that encloses `bytes`. Its power-of-two part is linear as long as everything
  /// inside it is.
  std::int64_t nest(Slab& slab, int dim, int extent, std::int64_t bytes) {
    const int bits = contiguous_ ? trailing_zeros(extent) : 0;
    slab.bits[dim] = bits;
    for (int b = 0; b < bits; ++b)
      linear_[static_cast<std::size_t>(dim)].push_back(static_cast<std::uint32_t>(bytes << b));
    slab.stride[static_cast<std::size_t>(dim)] = bytes << bits;
    contiguous_ = contiguous_ && extent == 1 << bits;
    return bytes * extent;
  }

  const Dims& shape_;
  int element_bytes_;
  const Dims& order_;
  int inner_;
  bool contiguous_ = true;
  std::vector<std::vector<std::uint32_t>> linear_;
};

std::vector<SwizzleSegment> divide_row(std::int64_t row_bytes, int max_swizzle, SegmentRule rule) {
  std::vector<SwizzleSegment> out;
  for (int swizzle = max_swizzle; swizzle >= 32; swizzle /= 2) {
    if (rule == SegmentRule::Equal && row_bytes % swizzle != 0) continue;
    const auto count = static_cast<int>(row_bytes / swizzle);
    if (count == 0) continue;
    out.push_back({swizzle, swizzle, count});
    row_bytes -= static_cast<std::int64_t>(count) * swizzle;
  }
  if (row_bytes > 0) out.push_back({0, static_cast<int>(row_bytes), 1});
  return out;
}

}  // namespace

int Slab::first_bit(int dim) const {
  int first = 0;
  for (int d = bits.size() - 1; d > dim; --d) first += bits[d];
  return first;
}

int Slab::block_bytes(int element_bytes) const {
  int total = 0;
  for (int b : bits) total += b;
  return element_bytes << total;
}

SharedLayout SharedLayout::plain(const Dims& shape, int element_bytes, const Dims& order) {
  const int width = shape.empty() ? element_bytes : shape[order[0]] * element_bytes;
  const SwizzleSegment row{0, width, 1};
  return *pieces(shape, element_bytes, order, {&row, 1});
}

Result<SharedLayout> SharedLayout::swizzled(const Dims& shape, int element_bytes, const Dims& order,
                                            int max_swizzle, SegmentRule rule, int batch) {
  if (shape.empty()) return plain(shape, element_bytes, order);
  const std::int64_t row_bytes = static_cast<std::int64_t>(shape[order[0]]) * element_bytes;
  return pieces(shape, element_bytes, order, divide_row(row_bytes, max_swizzle, rule), batch);
}

Result<SharedLayout> SharedLayout::pieces(const Dims& shape, int element_bytes, const Dims& order,
                                          std::span<const SwizzleSegment> pieces, int batch) {
  using LayoutRefusal = Result<SharedLayout>;
  SharedLayout out;
  out.shape_ = shape;
  out.element_bytes_ = element_bytes;
  out.order_ = order;
  out.pieces_.assign(pieces.begin(), pieces.end());
  out.batch_ = batch;
  if (shape.empty()) {
    out.slabs_.push_back({});
    out.bytes_ = element_bytes;
    return out;
  }
  SlabBuilder builder(shape, element_bytes, order, batch);
  int begin = 0;
  std::int64_t bytes = 0;
  for (const SwizzleSegment& piece : pieces) {
    if (piece.swizzle != 0 && piece.swizzle != piece.width)
      return LayoutRefusal::refused("a swizzled piece has its swizzle's width");
    if (piece.width % element_bytes != 0) return LayoutRefusal::refused("a piece cuts an element");
    if (piece.count > 1 && !std::has_single_bit(static_cast<unsigned>(piece.width)))
      return LayoutRefusal::refused("pieces side by side have a power-of-two width");
    Slab slab = builder.build(begin, piece);
    if (slab.block_bytes(element_bytes) <
        std::min<std::int64_t>(swizzle_span(piece.swizzle), builder.piece_bytes))
      return LayoutRefusal::refused(
          "the swizzle would depend on rows that are not counted in binary");
    bytes = round_up(bytes, std::max(1, swizzle_span(piece.swizzle)));
    slab.base = bytes;
    bytes += builder.run_bytes;
    begin = slab.end;
    out.slabs_.push_back(slab);
  }
  const int beyond = begin - shape[order[0]];
  if (beyond < 0 || (beyond > 0 && (out.pieces_.back().swizzle == 0 ||
                                    beyond * element_bytes >= out.pieces_.back().width)))
    return LayoutRefusal::refused("the pieces do not add up to a row");
  for (int i = order.size() - batch; i < order.size(); ++i) {
    bytes = round_up(bytes, out.alignment());
    for (Slab& slab : out.slabs_) slab.stride[static_cast<std::size_t>(order[i])] = bytes;
    bytes *= shape[order[i]];
  }
  out.bytes_ = bytes;
  return out;
}

Result<SharedLayout> SharedLayout::linear(const Dims& shape, int element_bytes,
                                          std::span<const Dims> offset_basis,
                                          std::span<const Repeat> digits) {
  using LayoutRefusal = Result<SharedLayout>;
  SharedLayout out;
  out.shape_ = shape;
  out.element_bytes_ = element_bytes;
  out.offset_basis_.assign(offset_basis.begin(), offset_basis.end());
  Slab slab;
  slab.bits = Dims::filled(shape.size(), 0);
  for (const Dims& basis : offset_basis) {
    if (basis.size() != shape.size()) return LayoutRefusal::refused("a basis has the wrong rank");
    for (int d = 0; d < shape.size(); ++d)
      slab.bits[d] =
          std::max(slab.bits[d], static_cast<int>(std::bit_width(static_cast<unsigned>(basis[d]))));
  }
  BitBasis columns;
  for (const Dims& basis : offset_basis) {
    BitVector packed = 0;
    for (int d = 0; d < shape.size(); ++d)
      packed = packed << slab.bits[d] | static_cast<BitVector>(basis[d]);
    columns.push_back(packed);
  }
  int total = 0;
  for (int b : slab.bits) total += b;
  const auto inverse = BitMatrix::from_columns(columns, total).right_inverse();
  if (!inverse || total != static_cast<int>(columns.size()) || columns.size() > slab.basis.size())
    return LayoutRefusal::refused("the offset bits are not a basis of the index bits");
  for (int b = 0; b < total; ++b)
    slab.basis[static_cast<std::size_t>(b)] =
        static_cast<std::uint32_t>(inverse->column(b)) * static_cast<std::uint32_t>(element_bytes);
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes) << total;
  Dims covered;
  for (int b : slab.bits) covered.push_back(1 << b);
  for (const Repeat& digit : digits) {
    if (digit.dim < 0 || digit.dim >= shape.size() ||
        covered[digit.dim] >> slab.bits[digit.dim] != 1 || digit.count < 2)
      return LayoutRefusal::refused("one digit a dimension");
    out.digits_.push_back({digit.dim, digit.count, HwDim::Register});
    slab.stride[static_cast<std::size_t>(digit.dim)] = bytes;
    covered[digit.dim] *= digit.count;
    bytes *= digit.count;
  }
  for (int d = 0; d < shape.size(); ++d)
    if (covered[d] < shape[d]) return LayoutRefusal::refused("the tile is not covered");
  slab.end = shape.empty() ? 1 : covered[0];
  out.slabs_.push_back(slab);
  out.bytes_ = bytes;
  return out;
}

const Slab& SharedLayout::slab_of(const Dims& index) const {
  for (const Slab& slab : slabs_)
    if (shape_.empty() || index[split_dim()] < slab.end) return slab;
  return slabs_.back();
}

std::int64_t SharedLayout::offset(const Dims& index) const {
  const Slab& slab = slab_of(index);
  std::int64_t sum = slab.base;
  std::uint32_t low = 0;
  for (int d = 0; d < rank(); ++d) {
    const int i = index[d] - (d == split_dim() ? slab.begin : 0);
    sum += (i >> slab.bits[d]) * slab.stride[static_cast<std::size_t>(d)];
    const int first = slab.first_bit(d);
    for (int b = 0; b < slab.bits[d]; ++b)
      if (i >> b & 1) low ^= slab.basis[static_cast<std::size_t>(first + b)];
  }
  return sum + low;
}

int SharedLayout::alignment() const {
  int widest = kSwizzleUnit;
  for (const Slab& slab : slabs_) widest = std::max(widest, swizzle_span(slab.swizzle));
  return widest;
}

std::string SharedLayout::str() const {
  std::vector<std::string> list, repeats;
  for (const Dims& basis : offset_basis_) list.push_back(basis_str(basis));
  for (const Repeat& r : digits_) repeats.push_back(fmt::format("{}*{}", r.dim, r.count));
  for (const SwizzleSegment& p : pieces_)
    list.push_back((p.swizzle == 0 ? fmt::format("plain:{}", p.width) : std::to_string(p.swizzle)) +
                   (p.count == 1 ? "" : fmt::format("*{}", p.count)));
  const std::string shape = fmt::format(
      "{}:{}",
      shape_.empty() ? "()" : fmt::format("{}", fmt::join(shape_.begin(), shape_.end(), "x")),
      element_bytes_);
  if (pieces_.empty()) {
    return fmt::format("mem<{}; off=[{}]{}>", shape, fmt::join(list, ","),
                       repeats.empty() ? "" : fmt::format("; rep=[{}]", fmt::join(repeats, ",")));
  }
  return fmt::format("swz<{}; order=[{}]; rows=[{}]{}>", shape,
                     fmt::join(order_.begin(), order_.end(), ","), fmt::join(list, ","),
                     batch_ == 0 ? "" : fmt::format("; batch={}", batch_));
}

}  // namespace tegula::ir
