// Result types of the ops that combine tiles and select elements by an index.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/infer.h"
#include "ir/kernel.h"

namespace tegula::ir {
namespace {

/// Returns an error unless the tiles have equal extents except along `axis`.
std::string lines_disagree(std::span<const Type> tiles, std::int64_t axis) {
  for (Type t : tiles) {
    if (!t.is_tile() || t.rank() != tiles[0].rank()) return "operands must be tiles of one rank";
    if (axis < 0 || axis >= t.rank()) return "axis is out of range";
    for (std::int64_t d = 0; d < t.rank(); ++d)
      if (d != axis &&
          t.shape()[static_cast<std::size_t>(d)] != tiles[0].shape()[static_cast<std::size_t>(d)])
        return fmt::format("extents of {} and {} differ along dimension {}", tiles[0].str(),
                           t.str(), d);
  }
  return "";
}

std::string no_index(Type t) {
  const bool fits = !t.is_pointer() && (t.dtype() == DType::i32 || t.dtype() == DType::i64);
  return fits ? "" : "the index must be i32 or i64";
}

}  // namespace

Inferred infer_tile_concat(const InferArgs& a) {
  const std::int64_t axis = a.attrs.i(AttrName::axis);
  if (const std::string e = lines_disagree(a.operands, axis); !e.empty()) return Inferred::fail(e);
  Ints shape(a.operands[0].shape().begin(), a.operands[0].shape().end());
  std::int64_t& extent = shape[static_cast<std::size_t>(axis)];
  extent = 0;
  for (Type t : a.operands) {
    if (t.elem() != a.operands[0].elem())
      return Inferred::fail(
          fmt::format("element types differ: {} and {}", a.operands[0].str(), t.str()));
    extent += t.shape()[static_cast<std::size_t>(axis)];
  }
  return {{Type::tile(a.operands[0].elem(), shape)}, ""};
}

Inferred infer_gather(const InferArgs& a) {
  if (const std::string e = lines_disagree(a.operands, a.attrs.i(AttrName::axis)); !e.empty())
    return Inferred::fail(e);
  if (const std::string e = no_index(a.operands[1]); !e.empty()) return Inferred::fail(e);
  return {{Type::tile(a.operands[0].elem(), a.operands[1].shape())}, ""};
}

Inferred infer_scatter(const InferArgs& a) {
  const Type into = a.operands[0], index = a.operands[1], values = a.operands[2];
  if (const std::string e = lines_disagree(a.operands, a.attrs.i(AttrName::axis)); !e.empty())
    return Inferred::fail(e);
  if (const std::string e = no_index(index); !e.empty()) return Inferred::fail(e);
  if (values.elem() != into.elem() || !std::ranges::equal(values.shape(), index.shape()))
    return Inferred::fail("values must have the tile's element type and the index's shape");
  const std::string_view kind = a.attrs.s(AttrName::kind);
  constexpr std::array<std::string_view, 5> kKinds{"store", "add", "max", "min", "or"};
  if (std::ranges::find(kKinds, kind) == kKinds.end())
    return Inferred::fail(fmt::format("not a kind of scatter: {}", kind));
  if (kind != "store" && (into.is_pointer() || !is_integer(into.dtype())))
    return Inferred::fail(
        "only integers can be combined: with floats, the result would depend on the order");
  return {{Type::tile(into.elem(), into.shape())}, ""};
}

}  // namespace tegula::ir
