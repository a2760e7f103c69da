// Two kernels: bounds of what the mask computes of keys, block by block; and a row of the list for
// each tile of queries.
#include "kernels/attention/derived_lists.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "kernels/attention/mask_values.h"
#include "kernels/scratch.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

using ir::MaskNodeId;

/// Key blocks that a program looks at together.
constexpr int kChunk = 256;
constexpr int kSecond = 1 << 16;

/// Smallest and largest value of the leaves of one axis over the pieces of a block.
using LeafBounds = std::vector<std::pair<Tile, Tile>>;  // by leaf * pieces + piece

/// Folds the leaves over positions [first, first + extent) below `length`.
LeafBounds fold(const MaskSides& sides, MaskSide side, const Tile& b, const Tile& h,
                const Tile& first, int extent, const Tile& length) {
  const auto& leaves = sides.leaves(side);
  const int pieces = sides.pieces(side);
  const Tile lane = arange(extent);
  const auto position = [&](const Tile& i) { return min(first + i, length - 1); };
  MaskValues here(sides.source, b, h, position(lane));
  std::vector<Tile> values;
  for (const MaskNodeId id : leaves) values.push_back(cast<i32>(here.at(id)));
  Tile cut = full<i32>(extent);
  if (pieces == 2) {
    MaskValues before(sides.source, b, h, position(max(0, lane - 1)));
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Tile last = cast<i32>(before.at(leaves[i]));
      const Tile jumps = values[i] < last || (values[i] > last && values[i] - 1 > last);
      cut = min(cut, min(where(jumps, lane, extent), axis(0)));
    }
  }
  LeafBounds bounds;
  for (const Tile& v : values)
    for (int piece = 0; piece < pieces; ++piece) {
      // A block without a cut has one piece twice.
      const Tile inside = piece == 0 ? lane < cut : lane >= cut || cut == extent;
      const auto limits = std::numeric_limits<i32>();
      bounds.emplace_back(min(where(inside, v, limits.max()), axis(0)),
                          max(where(inside, v, limits.min()), axis(0)));
    }
  return bounds;
}

struct Sides {
  explicit Sides(MaskSource s) : source(std::move(s)), sides(source) {}
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;
  MaskSource source;
  MaskSides sides;
};

/// Bounds[2 * (leaf * pieces + piece) + {0, 1}, b, h, block], of what the mask computes of keys.
auto make_bounds_kernel(std::shared_ptr<const Sides> mask) {
  return kernel("attention_key_bounds", [mask](Out<i32, 4> Bounds, Scalar<i32> kv_length) {
    const int BN = tune("BN", {16, 32, 48, 64, 80, 96, 112, 128, 176}, 128);
    for (auto [b, h, n] : grid({Bounds.dim(1), Bounds.dim(2), cdiv(kv_length, BN)}, 1, 1, 1)) {
      const LeafBounds bounds =
          fold(mask->sides, MaskSide::Key, b.first(), h.first(), n.first() * BN, BN, kv_length);
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        Bounds(2 * i, b, h, n) = bounds[i].first;
        Bounds(2 * i + 1, b, h, n) = bounds[i].second;
      }
    }
  });
}

/// Bounds of the keys' leaves over a chunk of blocks.
LeafBounds key_bounds(const MaskSides& sides, const In<i32, 4>& table, const Tile& b, const Tile& h,
                      const Index& n, int block, const Tile& length) {
  if (sides.is_plain_key()) {
    const Tile first = cast<i32>(n.idx() * block);
    return LeafBounds(sides.key_leaves.size(), {first, min(first + block, length) - 1});
  }
  LeafBounds bounds;
  const auto count =
      sides.key_leaves.size() * static_cast<std::size_t>(sides.pieces(MaskSide::Key));
  for (std::size_t i = 0; i < count; ++i)
    bounds.emplace_back(fill_absent(table(2 * i, b, h, n), 0),
                        fill_absent(table(2 * i + 1, b, h, n), 0));
  return bounds;
}

/// Values of the leaves that no axis changes, each its own bounds.
LeafBounds launch_values(const MaskSides& sides, const Tile& b, const Tile& h) {
  MaskValues values(sides.source, b, h, full<i32>(0));
  LeafBounds bounds;
  for (const MaskNodeId id : sides.launch_leaves) {
    const Tile v = cast<i32>(values.at(id));
    bounds.emplace_back(v, v);
  }
  return bounds;
}

struct BlockBounds {
  const LeafBounds &launch, &queries, &keys;
};

/// What holds of every pair of pieces.
Truth classify(const MaskSides& sides, const BlockBounds& block) {
  MaskIntervals intervals(sides);
  std::optional<Truth> all;
  const int query_pieces = sides.pieces(MaskSide::Query), key_pieces = sides.pieces(MaskSide::Key);
  for (int p = 0; p < query_pieces; ++p)
    for (int r = 0; r < key_pieces; ++r) {
      const auto known = [&](MaskNodeId id, const LeafBounds& bounds, int pieces, int piece) {
        const MaskSide side = sides.of(id);
        const auto& leaves = sides.leaves(side);
        const auto at = std::ranges::find(leaves, id) - leaves.begin();
        const auto& [lo, hi] = bounds[static_cast<std::size_t>(at * pieces + piece)];
        return intervals.known(id, lo, hi, side == MaskSide::Launch);
      };
      const Truth truth = intervals.run([&](MaskNodeId id) {
        if (sides.of(id) == MaskSide::Query) return known(id, block.queries, query_pieces, p);
        if (sides.of(id) == MaskSide::Key) return known(id, block.keys, key_pieces, r);
        return known(id, block.launch, 1, 0);
      });
      all = all ? Truth{all->every && truth.every, all->some || truth.some} : truth;
    }
  return *all;
}

/// A row: blocks without a mask from its front, those with one from its back.
auto make_list_kernel(std::shared_ptr<const Sides> mask) {
  return kernel("attention_block_list", [mask](In<i32, 4> KeyBounds, Out<i32, 4> Blocks,
                                               Out<i32, 3> Counts, Out<i32, 3> Full,
                                               Scalar<i32> q_length, Scalar<i32> kv_length) {
    const int BM = tune("BM", {16, 32, 64, 128}, 128),
              BN = tune("BN", {16, 32, 48, 64, 80, 96, 112, 128, 176}, 128);
    for (auto [b, h, m] : grid({Counts.dim(0), Counts.dim(1), cdiv(q_length, BM)}, 1, 1, 1)) {
      const MaskSides& sides = mask->sides;
      const Tile end = Blocks.dim(3), blocks = cdiv(kv_length, BN);
      const LeafBounds queries =
          fold(sides, MaskSide::Query, b.first(), h.first(), m.first() * BM, BM, q_length);
      const LeafBounds launch = launch_values(sides, b.first(), h.first());
      Tile whole = full<i32>(0), masked = full<i32>(0);
      for (auto n : steps(blocks, kChunk)) {
        const LeafBounds keys =
            key_bounds(sides, KeyBounds, b.first(), h.first(), n, BN, kv_length);
        const Truth truth = classify(sides, {launch, queries, keys});
        const Tile block = n.idx(), exists = block < blocks;
        const Tile is_whole = exists && truth.every && (block + 1) * BN <= kv_length;
        const Tile is_masked = exists && truth.some && !is_whole;
        // Both prefix sums in one: neither exceeds the chunk.
        const Tile both = cast<i32>(is_whole) + cast<i32>(is_masked) * kSecond,
                   before = cumsum(both, 0, {.exclusive = true}), total = sum(both, 0);
        const Tile from_front = whole + (before & (kSecond - 1)),
                   from_back = end - 1 - masked - (before >> 16);
        Blocks(b, h, m, where(is_whole, from_front, where(is_masked, from_back, -1))) = block;
        whole = whole + (total & (kSecond - 1));
        masked = masked + (total >> 16);
      }
      Counts(b, h, m) = whole + masked;
      Full(b, h, m) = whole;
    }
  });
}

}  // namespace

struct DerivedLists::Kernels {
  explicit Kernels(const MaskSource& source)
      : mask(std::make_shared<const Sides>(source)),
        bounds(make_bounds_kernel(mask)),
        list(make_list_kernel(mask)) {}

  struct OfTiles {
    decltype(make_bounds_kernel({})) bounds;
    decltype(make_list_kernel({})) list;
  };
  const OfTiles& of(AttentionTiles t) {
    const std::lock_guard lock(mutex);
    const auto found = made.find(t.keys);
    if (found != made.end()) return found->second;
    const OfTiles k{bounds.with({{"BN", t.keys}}), list.with({{"BM", t.queries}, {"BN", t.keys}})};
    return made.try_emplace(t.keys, k).first->second;
  }

  std::shared_ptr<const Sides> mask;
  decltype(make_bounds_kernel({})) bounds;
  decltype(make_list_kernel({})) list;
  std::mutex mutex;
  std::map<int, OfTiles> made;  ///< by keys of a tile; all have as many queries
};

DerivedLists::DerivedLists(const MaskSource& source)
    : kernels_(std::make_unique<Kernels>(source)) {}
DerivedLists::~DerivedLists() = default;

bool DerivedLists::holds_in_64_bits() const {
  return MaskIntervals(kernels_->mask->sides).never_wraps();
}

ListArgs DerivedLists::make(const Stream& stream, const Tensor& Q, const Tensor& K,
                            AttentionTiles tiles) const {
  const MaskSides& sides = kernels_->mask->sides;
  // Extents of one divisor, so that other lengths are not another kernel.
  const auto blocks = [](std::int64_t n, int block) {
    return ((n + block - 1) / block + 15) / 16 * 16;
  };
  const std::int64_t batch = sides.on_batch() ? Q.size(0) : 1,
                     heads = sides.on_head() ? Q.size(1) : 1,
                     rows = blocks(Q.size(2), tiles.queries), n = blocks(K.size(2), tiles.keys);
  const std::int64_t bounds =
      sides.is_plain_key()
          ? 1
          : 2 * sides.pieces(MaskSide::Key) * static_cast<std::int64_t>(sides.key_leaves.size());
  const Dims of_rows{batch, heads, rows};
  const Dims of_bounds{bounds, batch, heads, n}, of_blocks{batch, heads, rows, n};
  const auto bytes = [](const Dims& shape) { return Scratch::bytes_of(shape, DType::i32); };
  Scratch scratch(stream, Q.device(), bytes(of_bounds) + bytes(of_blocks) + 2 * bytes(of_rows));
  const Tensor key_bounds = scratch.take(of_bounds, DType::i32);
  const ListArgs made{scratch.take(of_blocks, DType::i32), scratch.take(of_rows, DType::i32),
                      scratch.take(of_rows, DType::i32)};
  const auto q_length = static_cast<i32>(Q.size(2)), kv_length = static_cast<i32>(K.size(2));
  const Kernels::OfTiles& kernels = kernels_->of(tiles);
  if (!sides.is_plain_key()) kernels.bounds(stream, key_bounds, kv_length);
  kernels.list(stream, key_bounds, made.blocks, made.counts, made.full, q_length, kv_length);
  const Dims all{Q.size(0), Q.size(1), rows};
  return {made.blocks.broadcast_to({all[0], all[1], rows, n}), made.counts.broadcast_to(all),
          made.full.broadcast_to(all)};
}

std::string DerivedLists::explain() const {
  const std::lock_guard lock(kernels_->mutex);
  std::string text;
  for (const auto& [keys, k] : kernels_->made) {
    if (!kernels_->mask->sides.is_plain_key()) text += k.bounds.explain();
    text += k.list.explain();
  }
  return text;
}

}  // namespace tegula
