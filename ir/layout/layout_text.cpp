// Text of layouts: the exact inverses `str` and `parse`, and tables for human readers.
#include "ir/layout/layout_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "tegula/error.h"

namespace tegula::ir {

bool LayoutText::accept(std::string_view token) {
  while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  if (!rest_.starts_with(token)) return false;
  rest_.remove_prefix(token.size());
  return true;
}

bool LayoutText::accept(int& number) {
  accept("");
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
  if (error != std::errc{}) return false;
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return true;
}

bool LayoutText::at_end() {
  accept("");
  return rest_.empty();
}

std::string basis_str(const Dims& basis) {
  if (std::all_of(basis.begin(), basis.end(), [](int v) { return v == 0; })) return "0";
  if (basis.size() == 1) return std::to_string(basis[0]);
  return fmt::format("({})", fmt::join(basis.begin(), basis.end(), ","));
}

bool accept_basis(LayoutText& text, int rank, Dims& basis) {
  basis = Dims::filled(rank, 0);
  if (!text.accept("(")) {
    int value = 0;
    if (!text.accept(value)) return false;
    if (rank == 1) basis[0] = value;
    return rank == 1 || value == 0;
  }
  for (int d = 0; d < rank; ++d)
    if ((d > 0 && !text.accept(",")) || !text.accept(basis[d])) return false;
  return text.accept(")");
}

namespace {

std::string shape_str(const LinearLayout& layout) {
  if (layout.rank() == 0) return "()";
  const Dims cover = layout.cover();
  std::string out;
  for (int d = 0; d < layout.rank(); ++d) {
    if (d > 0) out += 'x';
    out += std::to_string(layout.shape()[d]);
    if (cover[d] != layout.shape()[d]) out += fmt::format("/{}", cover[d]);
  }
  return out;
}

std::string repeats_str(std::span<const Repeat> repeats) {
  std::string out;
  for (const Repeat& r : repeats) {
    if (!out.empty()) out += ',';
    if (r.in != HwDim::Register) out += fmt::format("{}:", name(r.in));
    out += r.dim == Repeat::kNoDim ? "_" : std::to_string(r.dim);
    out += fmt::format("*{}", r.count);
  }
  return out;
}

bool accept_covered_shape(LayoutText& text, LayoutSpec& spec, Dims& cover) {
  if (text.accept("()")) return true;
  do {
    int extent = 0;
    if (spec.shape.size() == kMaxRank || !text.accept(extent)) return false;
    int covered = extent;
    if (text.accept("/") && !text.accept(covered)) return false;
    spec.shape.push_back(extent);
    cover.push_back(covered);
  } while (text.accept("x"));
  return true;
}

bool accept_bases(LayoutText& text, int rank, std::vector<Dims>& bases) {
  if (text.accept("]")) return true;
  do {
    Dims basis;
    if (!accept_basis(text, rank, basis)) return false;
    bases.push_back(basis);
  } while (text.accept(","));
  return text.accept("]");
}

bool accept_repeats(LayoutText& text, std::vector<Repeat>& repeats) {
  do {
    Repeat r;
    for (HwDim in : kIns)
      if (text.accept(fmt::format("{}:", name(in)))) r.in = in;
    if (!text.accept("_") && !text.accept(r.dim)) return false;
    if (!text.accept("*") || !text.accept(r.count) || r.count < 2) return false;
    repeats.push_back(r);
  } while (text.accept(","));
  return text.accept("]");
}

/// Derives the matrix bits from the cover: the cover divided by the repeats must be a power of two.
bool derive_bits(const Dims& cover, LayoutSpec& spec) {
  for (int d = 0; d < cover.size(); ++d) {
    int remaining = cover[d];
    for (const Repeat& r : spec.repeats) {
      if (r.dim != d) continue;
      if (remaining % r.count != 0) return false;
      remaining /= r.count;
    }
    if (remaining <= 0 || !std::has_single_bit(static_cast<unsigned>(remaining))) return false;
    spec.bits.push_back(std::countr_zero(static_cast<unsigned>(remaining)));
  }
  return true;
}

bool accept_layout(LayoutText& text, LayoutSpec& spec) {
  Dims cover;
  if (!text.accept("lin<") || !accept_covered_shape(text, spec, cover)) return false;
  while (text.accept(";")) {
    bool known = false;
    for (HwDim in : kIns)
      if (!known && text.accept(fmt::format("{}=[", name(in)))) {
        known = true;
        if (!accept_bases(text, spec.shape.size(), spec.of(in))) return false;
      }
    if (!known && (!text.accept("rep=[") || !accept_repeats(text, spec.repeats))) return false;
  }
  return text.accept(">") && text.at_end() && derive_bits(cover, spec);
}

}  // namespace

std::string LinearLayout::str() const {
  std::string out = "lin<" + shape_str(*this);
  for (HwDim in : kIns) {
    if (in_bits(in) == 0) continue;
    std::vector<std::string> bases;
    for (int b = 0; b < in_bits(in); ++b) bases.push_back(basis_str(basis(in, b)));
    out += fmt::format("; {}=[{}]", name(in), fmt::join(bases, ","));
  }
  if (!repeats().empty()) out += fmt::format("; rep=[{}]", repeats_str(repeats()));
  return out + ">";
}

Result<LinearLayout> LinearLayout::parse(std::string_view source) {
  using LayoutRefusal = Result<LinearLayout>;
  LayoutText text(source);
  LayoutSpec spec;
  if (!accept_layout(text, spec))
    return LayoutRefusal::refused(fmt::format("not a layout, at '{}'", text.where()));
  try {
    return LinearLayout(spec);
  } catch (const InternalError& e) {
    return LayoutRefusal::refused(e.what());
  }
}

namespace {

std::string cell(const LinearLayout& layout, const Dims& index) {
  if (layout.is_absent(index)) return ".";
  const auto place = layout.locate(index);
  if (!place) return "-";
  std::string out;
  if (layout.size(HwDim::Block) > 1) out += fmt::format("b{} ", place->block);
  if (layout.size(HwDim::Warp) > 1) out += fmt::format("w{} ", place->warp);
  if (layout.size(HwDim::Lane) > 1) out += fmt::format("l{} ", place->lane);
  return out + fmt::format("r{}", place->reg);
}

bool is_repacked(const LinearLayout& layout) {
  for (const Repeat& r : layout.repeats())
    if (r.dim == Repeat::kNoDim) return true;
  return !layout.matrix().is_injective();
}

}  // namespace

std::string picture(const LinearLayout& layout, int max_cells) {
  const int rank = layout.rank();
  const Dims cover = layout.cover();
  const int rows = rank < 2 ? 1 : std::min(cover[rank - 2], max_cells);
  const int cols = rank < 1 ? 1 : std::min(cover[rank - 1], max_cells);
  std::vector<std::string> cells;
  std::size_t width = std::to_string(cols - 1).size();
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      Dims index = Dims::filled(rank, 0);
      if (rank >= 2) index[rank - 2] = i;
      if (rank >= 1) index[rank - 1] = j;
      cells.push_back(cell(layout, index) + (is_repacked(layout) ? "+" : ""));
      width = std::max(width, cells.back().size());
    }
  std::string out = fmt::format("{}\n     ", layout.str());
  for (int j = 0; j < cols; ++j) out += fmt::format(" {:>{}}", j, width);
  for (int i = 0; i < rows; ++i) {
    out += fmt::format("\n{:>4}:", i);
    for (int j = 0; j < cols; ++j)
      out += fmt::format(" {:>{}}", cells[static_cast<std::size_t>(i * cols + j)], width);
  }
  return out + "\n";
}

}  // namespace tegula::ir
