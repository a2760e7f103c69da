// Masks of token trees, from bit sets of each node's ancestors.
#include "kernels/attention/cache_arguments.h"
#include "kernels/masks/mask_arguments.h"
#include "tegula/configured_kernel.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/token_trees.h"
#include "tegula/math.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace masks {
namespace {

constexpr int kBits = 32;

std::size_t words_of(int nodes) { return static_cast<std::size_t>((nodes + kBits - 1) / kBits); }

void check_nodes(const char* of, int nodes) {
  // Limits a tree to 2^15 words, so that table indices fit in 32 bits for 65535 batch entries.
  if (nodes < 1 || nodes > 1024) throw_argument_error(ErrorId::tree_nodes, of, nodes);
}

/// Returns whether bit `bit` of a node's words is set; `first_word` is the index of the first one.
Tile has_bit(const Tensor& words, const Tile& first_word, const Tile& bit, bool is_one_word) {
  const Tile word = is_one_word ? Tile(0) : bit / kBits;
  const Tile bits = view<i32, 1>(words)(first_word + word);
  // Shifts the bit into the sign position.
  return (bits << ((word + 1) * kBits - 1 - bit)) < 0;
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
    return kv < p || (is_node && has_bit(ancestors, row * words, where(is_node, of, 0), false));
  };
}

Mask tree(const KvBatch& batch, Tensor ancestors, int nodes, Loc at) {
  const detail::CallPlace here(at);
  check_nodes("tree", nodes);
  check_batch("tree", batch);
  const auto words = static_cast<int>(words_of(nodes));
  if (ancestors.rank() != 1 || ancestors.dtype() != DType::i32 || ancestors.numel() % words != 0)
    throw_argument_error(ErrorId::tree_ancestors, ancestors.str(), words, nodes);
  return [=, q_offsets = batch.q_offsets, kv_lengths = batch.kv_lengths,
          ancestors = std::move(ancestors)](Tile b, Tile, Tile q, Tile kv) {
    const auto offset = [&](const Tile& i) { return view<i32, 1>(q_offsets)(i); };
    const Tile first = offset(b), prefix = view<i32, 1>(kv_lengths)(b) - (offset(b + 1) - first);
    const Tile of = kv - prefix, is_node = of >= 0 && of < nodes;
    const Tile row = first + max(0, q - prefix);
    // The first condition implies the second one, but its end is known without the tables.
    return kv + nodes <= q || kv < prefix ||
           (is_node && has_bit(ancestors, row * words, where(is_node, of, 0), words == 1));
  };
}

}  // namespace masks

namespace {

using AncestorKernel = KernelOf<In<i32, 1>, In<i32, 1>, Out<i32, 2>>;

/// Walks from each node to its root, once for each word of the table.
AncestorKernel ancestor_kernel(int nodes) {
  return kernel(
      "ancestor_bits", [nodes](In<i32, 1> q_offsets, In<i32, 1> parents, Out<i32, 2> bits) {
        q_offsets.do_not_specialize(0), parents.do_not_specialize(0), bits.do_not_specialize(0);
        bits.partial();
        for (auto b : grid(GridSpace(q_offsets.dim(0) - 1), 1)) {
          const Tile first = fill_absent(q_offsets(b), 0),
                     count = fill_absent(q_offsets(b.first() + 1), 0) - first, node = arange(nodes),
                     row = where(node < count, first + node, -1);
          for (auto w : steps(bits.dim(1), 1)) {
            Tile of = where(row >= 0, node, -1), word = zeros<i32>(nodes);
            while_([&] { return max(of, axis(0)) >= 0; },
                   [&] {
                     const Tile bit = of - cast<i32>(w.first()) * masks::kBits,
                                is_here = of >= 0 && bit >= 0 && bit < masks::kBits;
                     word = where(is_here, word | (full<i32>(1) << where(is_here, bit, 0)), word);
                     const Tile parent = parents(where(of >= 0, first + of, -1));
                     of = where(of >= 0 && parent < of, parent, -1);
                   });
            bits(row, w.first()) = word;
          }
        }
      });
}

}  // namespace

void ancestor_bits(const Stream& stream, const Tensor& parents, const KvBatch& batch,
                   const Tensor& bits, int nodes, Loc at) {
  const detail::CallPlace here(at);
  masks::check_nodes("ancestor_bits", nodes);
  check_batch("ancestor_bits", batch);
  require_rank("ancestor_bits", "parents", parents, 1);
  require_tensor("ancestor_bits", "parents", parents, DType::i32, {parents.size(0)});
  const auto words = static_cast<std::int64_t>(masks::words_of(nodes));
  require_tensor("ancestor_bits", "bits", bits, DType::i32, {parents.size(0) * words});
  if (batch.kv_lengths.size(0) == 0 || parents.size(0) == 0) return;
  static auto* const made = new tegula::detail::ConfiguredInstances<int>;  // never destroyed
  const AncestorKernel write(
      made->of(nodes, [&] { return ancestor_kernel(nodes).shared_instance(); }));
  write(stream, batch.q_offsets, parents, bits.reshape({parents.size(0), words}));
}

}  // namespace tegula::kernels
