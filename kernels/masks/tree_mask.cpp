// Masks of token trees, from bit sets of each node's ancestors.
#include "kernels/masks/mask_arguments.h"
#include "tegula/kernels/masks.h"
#include "tegula/math.h"

namespace tegula::kernels::masks {
namespace {

constexpr int kBits = 32;

std::size_t words_of(int nodes) { return static_cast<std::size_t>((nodes + kBits - 1) / kBits); }

void check_nodes(const char* of, int nodes) {
  // Limits a tree to 2^15 words, so that table indices fit in 32 bits for 65535 batch entries.
  if (nodes < 1 || nodes > 1024) throw_argument_error(ErrorId::tree_nodes, of, nodes);
}

}  // namespace

Tensor ancestor_bits(const std::vector<std::vector<int>>& parents, int nodes, Device device,
                     Loc at) {
  const detail::CallPlace here(at);
  check_nodes("ancestor_bits", nodes);
  const std::size_t words = words_of(nodes), row_count = static_cast<std::size_t>(nodes);
  std::vector<std::uint32_t> bits(parents.size() * row_count * words);
  for (std::size_t t = 0; t < parents.size(); ++t) {
    if (parents[t].size() > row_count)
      throw_argument_error(ErrorId::tree_size, t, parents[t].size(), nodes);
    for (std::size_t i = 0; i < parents[t].size(); ++i) {
      const int parent = parents[t][i];
      if (parent < -1 || parent >= static_cast<int>(i))
        throw_argument_error(ErrorId::tree_parent, i, t, parent);
      const auto row = [&](std::size_t node) {
        return bits.data() + (t * row_count + node) * words;
      };
      for (std::size_t w = 0; parent >= 0 && w < words; ++w)
        row(i)[w] = row(static_cast<std::size_t>(parent))[w];
      row(i)[i / kBits] |= std::uint32_t{1} << (i % kBits);
    }
  }
  return Tensor::from(std::vector<i32>(bits.begin(), bits.end()), device);
}

Mask tree(MaskScalar prefix, Tensor ancestors, int nodes, Loc at) {
  const detail::CallPlace here(at);
  check_nodes("tree", nodes);
  require_count("masks::tree", "prefix", prefix);
  const auto words = static_cast<int>(words_of(nodes));
  const std::int64_t one = std::int64_t{nodes} * words;
  if (ancestors.rank() != 1 || ancestors.numel() == 0 || ancestors.numel() % one != 0)
    throw_argument_error(ErrorId::tree_ancestors, ancestors.str(), one, nodes);
  const bool is_of_batch = ancestors.numel() > one;
  return [=, ancestors = std::move(ancestors)](Tile b, Tile, Tile q, Tile kv) {
    const Tile p = prefix.value(), node = q - p, of = kv - p;
    const Tile is_node = node >= 0 && of >= 0 && node < nodes && of < nodes;
    Tile row = where(is_node, node, 0);
    if (is_of_batch) row = b * nodes + row;
    const Tile bit = where(is_node, of, 0), word = bit / kBits;
    const Tile bits = view<i32, 1>(ancestors)(row * words + word);
    // Shifts the bit into the sign position.
    const Tile has_bit = (bits << ((word + 1) * kBits - 1 - bit)) < 0;
    return kv < p || (is_node && has_bit);
  };
}

}  // namespace tegula::kernels::masks
