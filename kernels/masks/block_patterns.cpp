// Block lists of host-defined patterns, and of a router's choices on the device.
#include "tegula/kernels/block_patterns.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "kernels/argument_error.h"
#include "kernels/attention/list_args.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Entries of a row that a program reads at a time.
constexpr int kChunk = 128;

void check(const BlockMaskShape& g) {
  check_blocks({{}, {}, {}, g.block_q, g.block_kv});
  if (std::min({g.seqlen_q, g.seqlen_kv, g.batch, g.heads}) < 1)
    throw_argument_error(ErrorId::block_grid, g.seqlen_q, g.seqlen_kv, g.batch, g.heads);
}

struct BlockRow {
  std::vector<i32> whole, masked;
};

/// Returns the list of the rows, each padded to the longest.
BlockList list_of(const BlockMaskShape& g, const std::vector<BlockRow>& rows, Device device) {
  std::size_t capacity = 1;
  for (const BlockRow& r : rows) capacity = std::max(capacity, r.whole.size() + r.masked.size());
  std::vector<i32> blocks, counts, full;
  for (const BlockRow& r : rows) {
    blocks.insert(blocks.end(), r.whole.begin(), r.whole.end());
    blocks.insert(blocks.end(), r.masked.begin(), r.masked.end());
    counts.push_back(static_cast<i32>(r.whole.size() + r.masked.size()));
    full.push_back(static_cast<i32>(r.whole.size()));
    blocks.resize(counts.size() * capacity);
  }
  const Dims of_rows{g.batch, g.heads, g.q_blocks()};
  Dims of_blocks = of_rows;
  of_blocks.push_back(static_cast<std::int64_t>(capacity));
  return {Tensor::from(blocks, of_blocks, device), Tensor::from(counts, of_rows, device),
          Tensor::from(full, of_rows, device), g.block_q, g.block_kv};
}

/// Draws `count` distinct elements of `from` uniformly, or all of them if there are fewer.
std::vector<std::int64_t> drawn(std::vector<std::int64_t> from, int count, std::mt19937& random) {
  const auto n = std::min(from.size(), static_cast<std::size_t>(std::max(count, 0)));
  // std::shuffle differs between libraries; this gives the same blocks for a seed everywhere.
  for (std::size_t i = 0; i < n; ++i) std::swap(from[i], from[i + random() % (from.size() - i)]);
  from.resize(n);
  return from;
}

/// Returns which block columns row m of a BigBird pattern visits.
std::vector<bool> big_bird_row(const BlockMaskShape& g, const BigBird& p, std::int64_t m,
                               std::mt19937& random) {
  const std::int64_t end = p.is_causal ? std::min(g.kv_blocks(), m + 1) : g.kv_blocks();
  std::vector<bool> seen(static_cast<std::size_t>(g.kv_blocks()));
  std::vector<std::int64_t> others;
  for (std::int64_t n = 0; n < end; ++n) {
    const bool is_near = n - m <= p.window && m - n <= p.window;
    seen[static_cast<std::size_t>(n)] = m < p.global || n < p.global || is_near;
    if (!seen[static_cast<std::size_t>(n)]) others.push_back(n);
  }
  for (const std::int64_t n : drawn(std::move(others), p.random, random))
    seen[static_cast<std::size_t>(n)] = true;
  return seen;
}

/// Compacts a row of indices: full blocks first, then partial ones.
auto make_select_kernel() {
  return kernel("attention_select_blocks",
                [](In<i32, 4> Indices, Out<i32, 4> Blocks, Out<i32, 3> Counts, Out<i32, 3> Full,
                   Scalar<i32> BM, Scalar<i32> BN, Scalar<i32> keys, Scalar<i32> within) {
                  Blocks.partial();  // entries beyond the counts are never read
                  for (auto [b, h, m] : grid(Counts, 1, 1, 1)) {
                    const Tile first_row = m.first() * BM;
                    const Tile is_causal = within == static_cast<int>(BlockInterior::causal),
                               has_mask = within == static_cast<int>(BlockInterior::partial);
                    struct Choice {
                      Tile block, is_whole, is_masked;
                    };
                    const auto choose = [&](const Index& i) {
                      const Tile block = fill_absent(Indices(b, h, m, i), -1);
                      const Tile is_there = block >= 0 && block < cdiv(keys, BN),
                                 at = where(is_there, block, 0), end = (at + 1) * BN;
                      const Tile is_seen = is_there && (!is_causal || at * BN < first_row + BM);
                      const Tile is_whole = is_seen && end <= keys && !has_mask &&
                                            (!is_causal || end <= first_row + 1);
                      return Choice{at, is_whole, is_seen && !is_whole};
                    };
                    Tile wholes = full<i32>(0);
                    for (auto i : steps(Indices.dim(3), kChunk))
                      wholes = wholes + sum(cast<i32>(choose(i).is_whole), 0);
                    Tile whole = full<i32>(0), masked = wholes;
                    for (auto i : steps(Indices.dim(3), kChunk)) {
                      const Choice c = choose(i);
                      const Tile a = cast<i32>(c.is_whole), z = cast<i32>(c.is_masked);
                      const Tile at =
                          where(c.is_whole, whole + cumsum(a, 0, {.exclusive = true}),
                                where(c.is_masked, masked + cumsum(z, 0, {.exclusive = true}), -1));
                      Blocks(b, h, m, at) = c.block;
                      whole = whole + sum(a, 0);
                      masked = masked + sum(z, 0);
                    }
                    Counts(b, h, m) = masked;
                    Full(b, h, m) = wholes;
                  }
                });
}

}  // namespace

BlockList list_blocks(const BlockMaskShape& grid,
                      const Lambda<BlockCoverage(std::int64_t b, std::int64_t h, std::int64_t m,
                                                 std::int64_t n)>& use,
                      Device device, Loc at) {
  const detail::CallPlace here(at);
  check(grid);
  std::vector<BlockRow> rows;
  for (std::int64_t b = 0; b < grid.batch; ++b)
    for (std::int64_t h = 0; h < grid.heads; ++h)
      for (std::int64_t m = 0; m < grid.q_blocks(); ++m) {
        BlockRow& row = rows.emplace_back();
        for (std::int64_t n = 0; n < grid.kv_blocks(); ++n) {
          const BlockCoverage is = use(b, h, m, n);
          if (is == BlockCoverage::empty) continue;
          const bool is_whole =
              is == BlockCoverage::full && (n + 1) * grid.block_kv <= grid.seqlen_kv;
          (is_whole ? row.whole : row.masked).push_back(static_cast<i32>(n));
        }
      }
  return list_of(grid, rows, device);
}

BlockList big_bird(const BlockMaskShape& grid, const BigBird& pattern, Device device, Loc at) {
  const detail::CallPlace here(at);
  if (grid.block_q != grid.block_kv)
    throw_argument_error(ErrorId::big_bird_blocks, grid.block_q, grid.block_kv);
  std::mt19937 random(pattern.seed);
  std::vector<bool> row;
  // Relies on list_blocks visiting tiles in order, each from its first block on.
  return list_blocks(
      grid,
      [&](std::int64_t, std::int64_t, std::int64_t m, std::int64_t n) {
        if (n == 0) row = big_bird_row(grid, pattern, m, random);
        if (!row[static_cast<std::size_t>(n)]) return BlockCoverage::empty;
        return pattern.is_causal && n == m ? BlockCoverage::partial : BlockCoverage::full;
      },
      device);
}

BlockList empty_block_list(const BlockMaskShape& grid, std::int64_t k, Device device, Loc at) {
  const detail::CallPlace here(at);
  check(grid);
  if (k < 1) throw_argument_error(ErrorId::empty_list, k);
  const Dims of_rows{grid.batch, grid.heads, grid.q_blocks()};
  const auto zeros = [&](const Dims& shape) { return Tensor::zeros(shape, DType::i32, device); };
  return {zeros({grid.batch, grid.heads, grid.q_blocks(), k}), zeros(of_rows), zeros(of_rows),
          grid.block_q, grid.block_kv};
}

void select_blocks(const Stream& stream, const Tensor& indices, std::int64_t keys,
                   BlockInterior within, const BlockList& list, Loc at) {
  const detail::CallPlace here(at);
  check_blocks(list);
  const Tensor &blocks = list.kv_indices, &counts = list.kv_num_blocks,
               &full = list.full_kv_num_blocks;
  const bool fits = indices.dtype() == DType::i32 && indices.rank() == 4 && blocks.rank() == 4 &&
                    indices.device() == blocks.device() && indices.size(0) == blocks.size(0) &&
                    indices.size(1) == blocks.size(1) && indices.size(2) == blocks.size(2) &&
                    indices.size(3) <= blocks.size(3);
  if (!fits) throw_argument_error(ErrorId::selected_indices, indices.str(), blocks.str());
  const Dims rows{blocks.size(0), blocks.size(1), blocks.size(2)};
  if (!full.defined() || counts.shape() != rows || full.shape() != rows)
    throw_argument_error(ErrorId::selected_counts);
  if (keys < 1) throw_argument_error(ErrorId::selected_keys, keys);
  static const auto select = make_select_kernel();
  select(stream, indices, blocks, counts, full, list.block_q, list.block_kv, static_cast<i32>(keys),
         static_cast<i32>(within));
}

}  // namespace tegula::kernels
