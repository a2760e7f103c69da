// Parses shared-memory layouts.
#include <fmt/format.h>

#include <algorithm>

#include "ir/layout/layout_text.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {
namespace {

/// Maximum number of elements of a parsed layout, and of the widths of its segments: far more than
/// fit a CTA, and small enough that offset arithmetic does not overflow.
constexpr std::int64_t kMaxElements = 1 << 20;

bool accept_shape_and_element(LayoutText& text, Dims& shape, int& element_bytes) {
  std::int64_t elements = 1;
  if (!text.accept("()")) {
    do {
      int extent = 0;
      if (shape.size() == kMaxRank || !text.accept(extent) || extent < 1) return false;
      elements *= extent;
      if (elements > kMaxElements) return false;
      shape.push_back(extent);
    } while (text.accept("x"));
  }
  return text.accept(":") && text.accept(element_bytes) &&
         (element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8 ||
          element_bytes == 16);
}

/// Parses `name=[item,item]`, possibly empty.
template <class Item>
bool accept_list(LayoutText& text, std::string_view name, Item item) {
  if (!text.accept(name) || !text.accept("=[")) return false;
  if (text.accept("]")) return true;
  do {
    if (!item()) return false;
  } while (text.accept(","));
  return text.accept("]");
}

bool accept_piece(LayoutText& text, SwizzleSegment& piece) {
  if (text.accept("plain:")) {
    if (!text.accept(piece.width)) return false;
  } else {
    if (!text.accept(piece.swizzle) ||
        (piece.swizzle != 32 && piece.swizzle != 64 && piece.swizzle != 128))
      return false;
    piece.width = piece.swizzle;
  }
  return (!text.accept("*") || text.accept(piece.count)) && piece.width > 0 &&
         piece.width <= kMaxElements && piece.count > 0 && piece.count <= kMaxElements;
}

bool is_order(const Dims& order, int rank) {
  Dims sorted = order;
  std::sort(const_cast<int*>(sorted.begin()), const_cast<int*>(sorted.end()));
  return sorted == Dims::iota(rank);
}

using Parsed = Result<SharedLayout>;

Parsed not_a_layout(const LayoutText& text) {
  return Parsed::refused(fmt::format("not a shared layout, at '{}'", text.where()));
}

Parsed parse_pieces(LayoutText& text) {
  Dims shape, order;
  int element_bytes = 0, batch = 0;
  std::vector<SwizzleSegment> pieces;
  const auto dim = [&] {
    int d = 0;
    if (order.size() == kMaxRank || !text.accept(d)) return false;
    order.push_back(d);
    return true;
  };
  const auto piece = [&] { return accept_piece(text, pieces.emplace_back()); };
  if (!accept_shape_and_element(text, shape, element_bytes) || !text.accept(";") ||
      !accept_list(text, "order", dim) || !is_order(order, shape.size()) || !text.accept(";") ||
      !accept_list(text, "rows", piece) || pieces.empty())
    return not_a_layout(text);
  if (text.accept(";") &&
      (!text.accept("batch=") || !text.accept(batch) || batch < 0 || batch >= shape.size()))
    return not_a_layout(text);
  if (!text.accept(">") || !text.at_end()) return not_a_layout(text);
  return SharedLayout::pieces(shape, element_bytes, order, pieces, batch);
}

Parsed parse_matrix(LayoutText& text) {
  Dims shape;
  int element_bytes = 0;
  std::vector<Dims> basis;
  std::vector<Repeat> digits;
  const auto vector = [&] { return accept_basis(text, shape.size(), basis.emplace_back()); };
  const auto digit = [&] {
    Repeat& r = digits.emplace_back();
    return text.accept(r.dim) && text.accept("*") && text.accept(r.count);
  };
  if (!accept_shape_and_element(text, shape, element_bytes) || !text.accept(";") ||
      !accept_list(text, "off", vector))
    return not_a_layout(text);
  if (text.accept(";") && !accept_list(text, "rep", digit)) return not_a_layout(text);
  if (!text.accept(">") || !text.at_end()) return not_a_layout(text);
  for (const Dims& b : basis)
    if (std::any_of(b.begin(), b.end(), [](int v) { return v < 0; })) return not_a_layout(text);
  return SharedLayout::linear(shape, element_bytes, basis, digits);
}

}  // namespace

Result<SharedLayout> SharedLayout::parse(std::string_view source) {
  LayoutText text(source);
  if (text.accept("swz<")) return parse_pieces(text);
  if (text.accept("mem<")) return parse_matrix(text);
  return not_a_layout(text);
}

}  // namespace tegula::ir
