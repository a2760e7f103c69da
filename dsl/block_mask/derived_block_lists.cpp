// Two kernels: one computes bounds of the mask's key values per block, or the coverage of each
// block, the other a row of the list for each tile of queries.
#include "dsl/block_mask/derived_block_lists.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "dsl/block_mask/block_coverage.h"
#include "dsl/block_mask/mask_values.h"
#include "dsl/block_mask/recorded_interval.h"
#include "dsl/block_mask/sequence_lists.h"
#include "dsl/signature.h"
#include "tegula/int_math.h"
#include "tegula/scratch.h"
#include "tegula/tegula.h"

namespace tegula {

/// A mask, and the dependence of its parts on the axes.
struct MaskSides {
  MaskSides(MaskFunction f, bool heads_are_rows)
      : source(std::move(f)), sides(source.expr, source.is_scalar, heads_are_rows) {}
  MaskSides(const MaskSides&) = delete;
  MaskSides& operator=(const MaskSides&) = delete;

  MaskFunction source;
  ir::MaskAxisDependence sides;
};

namespace {

using ir::MaskAxis;
using ir::MaskNodeId;

/// Number of kv blocks that a program classifies at a time.
constexpr int kChunk = 256;
constexpr int kSecond = 1 << 16;
/// Extents are rounded to this divisor, so that other lengths do not compile another kernel.
constexpr int kDivisor = 16;

/// Bounds of the leaves of one axis over the pieces of a block, indexed by leaf * pieces + piece.
using LeafBounds = std::vector<TileBounds>;

/// Positions that the mask receives for the rows or columns of a block.
struct Positions {
  Tile heads, positions;  ///< scalars if all rows or columns have the same
};

/// Folds the leaves over the lanes of a block, whose positions are given by `at`.
LeafBounds fold(const MaskSides& mask, MaskAxis side, const Tile& b, int extent,
                const std::function<Positions(const Tile& lane)>& at) {
  const auto& leaves = mask.sides.leaves(side);
  const int pieces = mask.sides.pieces(side);
  const Tile lane = arange(extent);
  const auto values_at = [&](const Tile& i) {
    const Positions p = at(i);
    return MaskValues(mask.source, b, p.heads, p.positions);
  };
  MaskValues here = values_at(lane);
  std::vector<Tile> values;
  for (const MaskNodeId id : leaves) values.push_back(cast<i32>(here.at(id)));
  Tile cut = full<i32>(extent);
  if (pieces == 2) {
    MaskValues before = values_at(max(0, lane - 1));
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Tile last = cast<i32>(before.at(leaves[i]));
      const Tile jumps = values[i] < last || (values[i] > last && values[i] - 1 > last);
      cut = min(cut, min(where(jumps, lane, extent), axis(0)));
    }
  }
  LeafBounds bounds;
  for (const Tile& v : values)
    for (int piece = 0; piece < pieces; ++piece) {
      // A block that is not divided uses the same piece twice.
      const Tile inside = piece == 0 ? lane < cut : lane >= cut || cut == extent;
      const auto limits = std::numeric_limits<i32>();
      bounds.push_back({min(where(inside, v, limits.max()), axis(0)),
                        max(where(inside, v, limits.min()), axis(0))});
    }
  return bounds;
}

/// Returns bounds over keys [first, first + block) below `length`.
LeafBounds fold_keys(const MaskSides& mask, const Tile& b, const Tile& h, const Tile& first,
                     int block, const Tile& length) {
  return fold(mask, MaskAxis::Key, b, block,
              [&](const Tile& lane) { return Positions{h, min(first + lane, length - 1)}; });
}

void store(const Out<i32, 4>& Bounds, const LeafBounds& bounds, const Subscript& b,
           const Subscript& h, const Subscript& n) {
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    Bounds(2 * i, b, h, n) = bounds[i].lo;
    Bounds(2 * i + 1, b, h, n) = bounds[i].hi;
  }
}

/// Bounds[2 * (leaf * pieces + piece) + {0, 1}, b, h, block] of the key leaves of a mask. With many
/// sequences b is 0, and their blocks are in the columns of their lists.
auto make_bounds_kernel(std::shared_ptr<const MaskSides> mask) {
  return kernel("attention_key_bounds", [mask](Out<i32, 4> Bounds, Scalar<i32> seqlen_kv,
                                               std::optional<In<i32, 1>> cu_q,
                                               std::optional<In<i32, 1>> cu_kv) {
    const int BN = tune("BN", kListKeys, 128);
    Bounds.partial();  // the tensor has room for longer calls
    if (!cu_q) {
      for (auto [b, h, n] : grid({Bounds.dim(1), Bounds.dim(2), cdiv(seqlen_kv, BN)}, 1, 1, 1))
        store(Bounds, fold_keys(*mask, b.first(), h.first(), n.first() * BN, BN, seqlen_kv), b, h,
              n);
      return;
    }
    const Lengths lengths{cu_q, cu_kv};
    lengths.any_number();
    for (auto [b, h, share] :
         grid({cu_q->dim(0) - 1, Bounds.dim(2), full<i32>(kShares)}, 1, 1, 1)) {
      const SequenceLists part = SequenceLists::of(lengths, b.first(), BN);
      const Tile left = max(cdiv(part.seqlen_kv, BN) - share.first(), 0);
      for (auto i : steps(cdiv(left, kShares), 1)) {
        const Tile n = share.first() + i.first() * kShares;
        store(Bounds, fold_keys(*mask, b.first(), h.first(), n * BN, BN, part.seqlen_kv), 0, h,
              part.columns->begin + n);
      }
    }
  });
}

/// Returns bounds of the key leaves over a chunk of blocks.
LeafBounds key_bounds(const MaskSides& mask, const In<i32, 4>& table, const Tile& b, const Tile& h,
                      const Index& n, int block, const SequenceLists& part) {
  if (mask.sides.is_plain_key()) {
    const Tile first = cast<i32>(n.indices() * block);
    return LeafBounds(mask.sides.key_leaves.size(),
                      {first, min(first + block, part.seqlen_kv) - 1});
  }
  const Subscript entry = part.columns ? Subscript(0) : Subscript(b),
                  at = part.columns ? Subscript(n.shifted(part.columns->begin)) : Subscript(n);
  LeafBounds bounds;
  const auto count =
      mask.sides.key_leaves.size() * static_cast<std::size_t>(mask.sides.pieces(MaskAxis::Key));
  for (std::size_t i = 0; i < count; ++i)
    bounds.push_back({fill_absent(table(2 * i, entry, h, at), 0),
                      fill_absent(table(2 * i + 1, entry, h, at), 0)});
  return bounds;
}

/// Returns the values of the leaves that depend on no axis, as their own bounds.
LeafBounds launch_values(const MaskSides& mask, const Tile& b, const Tile& h) {
  MaskValues values(mask.source, b, h, full<i32>(0));
  LeafBounds bounds;
  for (const MaskNodeId id : mask.sides.launch_leaves) {
    const Tile v = cast<i32>(values.at(id));
    bounds.push_back({v, v});
  }
  return bounds;
}

struct BlockBounds {
  const LeafBounds &launch, &queries, &keys;
};

/// Returns the truth value over all pairs of the block.
ThreeValued classify(const MaskSides& mask, const BlockBounds& block) {
  const MaskIntervals intervals(mask.sides);
  std::optional<ThreeValued> all;
  const int query_pieces = mask.sides.pieces(MaskAxis::Query),
            key_pieces = mask.sides.pieces(MaskAxis::Key);
  for (int p = 0; p < query_pieces; ++p)
    for (int r = 0; r < key_pieces; ++r) {
      const auto known = [&](MaskNodeId id, const LeafBounds& bounds, int pieces, int piece) {
        const MaskAxis side = mask.sides.of(id);
        const auto& leaves = mask.sides.leaves(side);
        const auto at = std::ranges::find(leaves, id) - leaves.begin();
        return intervals.known(id, bounds[static_cast<std::size_t>(at * pieces + piece)],
                               side == MaskAxis::Uniform);
      };
      const ThreeValued truth = intervals.run([&](MaskNodeId id) {
        if (mask.sides.of(id) == MaskAxis::Query) return known(id, block.queries, query_pieces, p);
        if (mask.sides.of(id) == MaskAxis::Key) return known(id, block.keys, key_pieces, r);
        return known(id, block.launch, 1, 0);
      });
      all = all ? ThreeValued{all->lo && truth.lo, all->hi || truth.hi} : truth;
    }
  return *all;
}

/// Returns bounds over the rows of a tile, from row `first` on; `group` heads have `part.seqlen_q`
/// queries each.
LeafBounds fold_queries(const MaskSides& mask, const Tile& b, const Tile& h, const Tile& first,
                        int rows, const SequenceLists& part, const QueryTileRows& call) {
  return fold(mask, MaskAxis::Query, b, rows, [&](const Tile& lane) {
    const Tile count = call.group > 1 ? part.seqlen_q * call.group : part.seqlen_q;
    const Tile row = min(first + lane, count - 1);
    Positions p{h, row};
    if (call.group > 1) p = {h * call.group + row / part.seqlen_q, row % part.seqlen_q};
    if (call.align_bottom_right) p.positions = p.positions + (part.seqlen_kv - part.seqlen_q);
    return p;
  });
}

/// Returns what is known about a chunk of blocks of a row of the list.
using TruthOfBlocks = std::function<ThreeValued(const Index& n)>;

/// Writes a row of the list: full blocks from the front, partial ones from the back, or after the
/// full ones if the list is contiguous.
struct BlockListWriter {
  BlockListWriter(const TruthOfBlocks& known, const Out<i32, 4>& to, int keys,
                  const SequenceLists& of_part, const Tile& has_queries, bool is_contiguous)
      : truth_of(known),
        blocks(to),
        block(keys),
        part(of_part),
        end(part.columns ? part.columns->end : blocks.dim(3)),
        count(part.columns ? where(has_queries, cdiv(part.seqlen_kv, block), 0)
                           : cdiv(part.seqlen_kv, block)),
        contiguous(is_contiguous) {}

  const TruthOfBlocks& truth_of;
  const Out<i32, 4>& blocks;
  int block;
  const SequenceLists& part;
  Tile end, count;
  bool contiguous;

  struct Counts {
    Tile whole, masked;
  };
  Counts run(const Tile& b, const Tile& h, const Index& m) const {
    const auto whole_of = [&](const ThreeValued& truth, const Tile& at, const Tile& exists) {
      return exists && truth.lo && (at + 1) * block <= part.seqlen_kv;
    };
    Tile wholes = full<i32>(0);
    if (contiguous)
      for (auto n : steps(count, kChunk)) {
        const Tile at = n.indices();
        wholes = wholes + sum(cast<i32>(whole_of(truth_of(n), at, at < count)), 0);
      }
    Tile whole = full<i32>(0), masked = full<i32>(0);
    for (auto n : steps(count, kChunk).independent()) {
      const ThreeValued truth = truth_of(n);
      const Tile at = n.indices(), exists = at < count;
      const Tile is_whole = whole_of(truth, at, exists);
      const Tile is_masked = exists && truth.hi && !is_whole;
      // One number holds both prefix sums: neither exceeds the chunk.
      const Tile both = cast<i32>(is_whole) + cast<i32>(is_masked) * kSecond,
                 before = cumsum(both, 0, {.exclusive = true}), total = sum(both, 0);
      Tile from_front = whole + (before & (kSecond - 1));
      if (part.columns) from_front = from_front + part.columns->begin;
      const Tile for_masked =
          contiguous ? wholes + masked + (before >> 16) : end - 1 - masked - (before >> 16);
      blocks(part.columns ? Subscript(0) : Subscript(b), h, m,
             where(is_whole, from_front, where(is_masked, for_masked, -1))) = at;
      whole = whole + (total & (kSecond - 1));
      masked = masked + (total >> 16);
    }
    return {whole, masked};
  }
};

/// Returns what evaluating the mask found (make_coverage_kernel).
ThreeValued evaluated(const In<i32, 4>& coverage, const Tile& b, const Tile& h, const Index& m,
                      const Index& n, const SequenceLists& part) {
  const Tile is = part.columns ? fill_absent(coverage(0, h, m, n.shifted(part.columns->begin)), 0)
                               : fill_absent(coverage(b, h, m, n), 0);
  return {is == kFullBlock, is != 0};
}

/// Makes the kernel that writes the lists. `Known` contains the bounds of the key leaves, or,
/// without `mask`, the coverage of each block.
auto make_list_kernel(std::shared_ptr<const MaskSides> mask) {
  return kernel(
      "attention_block_list",
      [mask](In<i32, 4> Known, Out<i32, 4> Blocks, Out<i32, 3> Counts, Out<i32, 3> Full,
             Scalar<i32> seqlen_q, Scalar<i32> seqlen_kv, std::optional<In<i32, 1>> cu_q,
             std::optional<In<i32, 1>> cu_kv, int group, bool align_bottom_right,
             bool is_contiguous) {
        const int BM = tune("BM", kListKeys, 128), BN = tune("BN", kListKeys, 128);
        const Lengths lengths{cu_q, cu_kv};
        // There is room for longer calls, and between the two kinds of blocks.
        Blocks.partial(), Counts.partial(), Full.partial();
        if (cu_q) lengths.any_number(), Counts.do_not_specialize(0), Full.do_not_specialize(0);
        if (is_contiguous)  // a caller's tensors have any extents
          for (const View* v : std::initializer_list<const View*>{&Blocks, &Counts, &Full})
            for (int d = 0; d < 3; ++d) v->do_not_specialize(d), v->do_not_specialize_stride(d);
        const Tile longest = seqlen_q, rows = group > 1 ? longest * group : longest;
        for (auto [b, h, m] : grid({Counts.dim(0), Counts.dim(1), cdiv(rows, BM)}, 1, 1, 1)) {
          const SequenceLists part =
              cu_q ? SequenceLists::of(lengths, b.first(), BN) : SequenceLists{seqlen_q, seqlen_kv};
          const Tile has_queries = m.first() * BM < part.seqlen_q * group;
          LeafBounds queries, launch;
          if (mask) {
            queries = fold_queries(*mask, b.first(), h.first(), m.first() * BM, BM, part,
                                   {group, align_bottom_right});
            launch = launch_values(*mask, b.first(), h.first());
          }
          const TruthOfBlocks truth = [&](const Index& n) {
            if (!mask) return evaluated(Known, b.first(), h.first(), m, n, part);
            const LeafBounds keys = key_bounds(*mask, Known, b.first(), h.first(), n, BN, part);
            return classify(*mask, {launch, queries, keys});
          };
          const BlockListWriter maker{truth, Blocks, BN, part, has_queries, is_contiguous};
          const auto [whole, masked] = maker.run(b.first(), h.first(), m);
          Counts(b, h, m) = whole + masked;
          Full(b, h, m) = whole;
        }
      });
}

/// Lanes of the kernel that orders tiles: the tiles that it ranks, and the tiles that it compares
/// them with.
constexpr int kPlaced = 32, kSeen = 256;

/// Order[b, h, r] = the tile with the r-th most entries; ties keep the order of the tiles.
auto make_order_kernel() {
  return kernel("attention_tile_order", [](In<i32, 3> Counts, Out<i32, 3> Order,
                                           Scalar<i32> tiles) {
    const Tile count = tiles;
    Counts.do_not_specialize(0), Order.do_not_specialize(0);
    Order.partial();  // entries beyond the last tile are unused
    for (auto [b, h, m] : grid({Counts.dim(0), Counts.dim(1), count}, 1, 1, kPlaced)) {
      const Tile tile = cast<i32>(m.indices()), mine = expand(fill_absent(Counts(b, h, m), 0), 1);
      Tile rank = full<i32>(0, kPlaced);
      for (auto n : steps(count, kSeen)) {
        const Tile other = expand(cast<i32>(n.indices()), 0),
                   its = expand(fill_absent(Counts(b, h, n), 0), 0);
        const Tile is_before =
            other < count && (its > mine || (its == mine && other < expand(tile, 1)));
        rank = rank + sum(cast<i32>(is_before), axis(1));
      }
      Order(b, h, where(tile < count, rank, -1)) = tile;
    }
  });
}

/// Allocates lists in the stream's workspace and launches immediately.
struct StreamMemory {
  using Place = Tensor;
  using Lists = BlockListArgs;

  void reserve(std::size_t bytes) { scratch.emplace(stream, device, bytes); }
  Tensor take(const Dims& shape) { return scratch->take(shape, DType::i32); }
  template <class K, class... Args>
  void launch(const K& kernel, const Args&... args) const {
    kernel(stream, args...);
  }
  static Tensor broadcast(const Tensor& t, const Dims& shape) { return t.broadcast_to(shape); }

  const Stream& stream;
  Device device;
  std::optional<Scratch> scratch;
};

/// Adds the allocations and launches to a plan.
struct PlanMemory {
  using Place = PlanSlot;
  using Lists = BlockListSlots;

  static void reserve(std::size_t /*bytes*/) {}  // a plan sums up its memory itself
  PlanSlot take(const Dims& shape) const { return plan.scratch(shape, DType::i32); }
  template <class K, class... Args>
  void launch(const K& kernel, const Args&... args) const {
    plan.launch(kernel, args...);
  }
  PlanSlot broadcast(PlanSlot slot, const Dims& shape) const {
    return plan.broadcast_to(slot, shape);
  }

  PlanBuilder& plan;
};

}  // namespace

KvIndexWindow KvIndexWindow::of_sequence(const Tile& b, const Tile& first, const Tile& length,
                                         int block) {
  const Tile begin = first / block + b;
  return {begin, begin + cdiv(length, block)};
}

struct DerivedBlockLists::Kernels {
  Kernels(const MaskFunction& source, bool heads_are_rows)
      : mask(std::make_shared<const MaskSides>(source, heads_are_rows)),
        on_batch(mask->sides.on_batch()),
        on_head(mask->sides.on_head()),
        bounds(make_bounds_kernel(mask)),
        coverage(make_coverage_kernel({})),
        list(make_list_kernel(mask)),
        order(make_order_kernel()) {}
  explicit Kernels(const EvaluatedMask& source)
      : on_batch(source.dependence.on_batch),
        on_head(source.dependence.on_head),
        bounds(make_bounds_kernel({})),
        coverage(make_coverage_kernel(source)),
        list(make_list_kernel({})),
        order(make_order_kernel()) {}

  struct OfTiles {
    decltype(make_bounds_kernel({})) bounds;
    CoverageKernel coverage;
    decltype(make_list_kernel({})) list;
  };
  const OfTiles& of(BlockShape t) {
    const std::lock_guard lock(mutex);
    const std::pair key{t.block_q, t.block_kv};
    const auto found = made.find(key);
    if (found != made.end()) return found->second;
    const Tuning tiles{{"BM", t.block_q}, {"BN", t.block_kv}};
    const OfTiles k{bounds.with({{"BN", t.block_kv}}), coverage.with(tiles), list.with(tiles)};
    return made.try_emplace(key, k).first->second;
  }

  /// Returns the number of bounds of a block of keys.
  std::int64_t bounds_of_block() const {
    const ir::MaskAxisDependence& sides = mask->sides;
    if (sides.is_plain_key()) return 1;
    return 2 * sides.pieces(MaskAxis::Key) * static_cast<std::int64_t>(sides.key_leaves.size());
  }

  std::string explain() {
    const std::lock_guard lock(mutex);
    std::string text;
    for (const auto& [tiles, k] : made) {
      if (!mask) text += k.coverage.explain();
      if (mask && !mask->sides.is_plain_key()) text += k.bounds.explain();
      text += k.list.explain();
    }
    if (orders) text += order.explain();
    return text;
  }

  std::shared_ptr<const MaskSides> mask;  ///< none: the mask is evaluated
  bool on_batch, on_head;
  decltype(make_bounds_kernel({})) bounds;
  CoverageKernel coverage;
  decltype(make_list_kernel({})) list;
  decltype(make_order_kernel()) order;
  std::atomic<bool> orders = false;  ///< true if it has ordered tiles
  std::mutex mutex;
  std::map<std::pair<int, int>, OfTiles> made;  ///< key: queries and keys of a tile
};

DerivedBlockLists::DerivedBlockLists(const MaskFunction& source)
    : of_head_(std::make_unique<Kernels>(source, false)),
      of_group_(std::make_unique<Kernels>(source, true)) {}
DerivedBlockLists::DerivedBlockLists(const EvaluatedMask& mask)
    : of_head_(std::make_unique<Kernels>(mask)) {}
DerivedBlockLists::~DerivedBlockLists() = default;

bool DerivedBlockLists::holds_in_64_bits() const {
  return !of_head_->mask || MaskIntervals(of_head_->mask->sides).has_no_overflow();
}

template <class Memory>
typename Memory::Lists DerivedBlockLists::made_in(Memory& memory, const Tensor& Q, const Tensor& K,
                                                  BlockShape tiles, const QueryTileRows& call,
                                                  const typename Memory::Place& cu_q,
                                                  const typename Memory::Place& cu_kv,
                                                  bool is_wide) const {
  Kernels& made = call.group > 1 ? *of_group_ : *of_head_;
  const bool is_varlen = call.lengths.q.defined();
  const std::int64_t sequences = is_varlen ? call.lengths.q.size(0) - 1 : Q.size(0),
                     seqlen_q = is_varlen ? call.lengths.max_seqlen_q : Q.size(2) / call.group;
  const std::int64_t batch = is_varlen || made.on_batch ? sequences : 1,
                     heads = made.on_head ? Q.size(1) : 1,
                     rows = round_up(ceil_div(seqlen_q * call.group, tiles.block_q), kDivisor);
  // Each sequence's last block may contain a single key.
  const std::int64_t n = round_up(
      is_varlen ? K.size(2) / tiles.block_kv + sequences : ceil_div(K.size(2), tiles.block_kv),
      kDivisor);
  const std::int64_t entries = is_varlen ? 1 : batch;
  const Dims of_rows{batch, heads, rows}, of_blocks{entries, heads, rows, n};
  Dims of_known = of_blocks;
  if (made.mask) of_known = {made.bounds_of_block(), entries, heads, n};
  const auto bytes = [](const Dims& shape) { return Scratch::bytes_of(shape, DType::i32); };
  memory.reserve(bytes(of_known) + bytes(of_blocks) +
                 (call.longest_first ? 3 : 2) * bytes(of_rows));
  const auto known = memory.take(of_known);
  typename Memory::Lists lists{
      memory.take(of_blocks), memory.take(of_rows), memory.take(of_rows), {}};
  if (call.longest_first) lists.order = memory.take(of_rows);
  const auto seqlen_kv = static_cast<i32>(K.size(2));
  const Kernels::OfTiles& kernels = made.of(tiles);
  if (!made.mask)
    memory.launch(kernels.coverage, known, static_cast<i32>(seqlen_q), seqlen_kv, cu_q, cu_kv,
                  call.align_bottom_right, false, is_wide);
  else if (!made.mask->sides.is_plain_key())
    memory.launch(kernels.bounds, known, seqlen_kv, cu_q, cu_kv);
  memory.launch(kernels.list, known, lists.blocks, lists.counts, lists.full,
                static_cast<i32>(seqlen_q), seqlen_kv, cu_q, cu_kv, call.group,
                call.align_bottom_right, false);
  const Dims all{sequences, Q.size(1), rows};
  if (call.longest_first) {
    made.orders = true;
    memory.launch(made.order, lists.counts, lists.order,
                  static_cast<i32>(ceil_div(seqlen_q * call.group, tiles.block_q)));
    lists.order = memory.broadcast(lists.order, all);
  }
  return {memory.broadcast(lists.blocks, {all[0], all[1], rows, n}),
          memory.broadcast(lists.counts, all), memory.broadcast(lists.full, all), lists.order};
}

BlockListArgs DerivedBlockLists::make(const Stream& stream, const Tensor& Q, const Tensor& K,
                                      BlockShape tiles, const QueryTileRows& rows,
                                      bool is_wide) const {
  StreamMemory memory{stream, Q.device(), {}};
  return made_in(memory, Q, K, tiles, rows, rows.lengths.q, rows.lengths.kv, is_wide);
}
BlockListSlots DerivedBlockLists::make(PlanBuilder& plan, const Tensor& Q, const Tensor& K,
                                       BlockShape tiles, const QueryTileRows& rows, PlanSlot cu_q,
                                       PlanSlot cu_kv, bool is_wide) const {
  PlanMemory memory{plan};
  return made_in(memory, Q, K, tiles, rows, cu_q, cu_kv, is_wide);
}

void DerivedBlockLists::write(PlanBuilder& plan, const Tensor& Q, const Tensor& K,
                              const EvaluatedLists& how, const BlockListSlots& lists) const {
  const std::int64_t rows = Q.size(2), columns = K.size(2);
  const Dims& of_rows = plan.tensor(lists.counts).shape();
  const Kernels::OfTiles& kernels = of_head_->of(how.tiles);
  const PlanSlot coverage =
      plan.scratch({of_rows[0], of_rows[1], round_up(ceil_div(rows, how.tiles.block_q), kDivisor),
                    round_up(ceil_div(columns, how.tiles.block_kv), kDivisor)},
                   DType::i32);
  plan.launch(kernels.coverage, coverage, static_cast<i32>(rows), static_cast<i32>(columns),
              PlanSlot(), PlanSlot(), how.align_bottom_right, how.is_transposed,
              dsl::needs_wide_index(Q) || dsl::needs_wide_index(K));
  plan.launch(kernels.list, coverage, lists.blocks, lists.counts, lists.full,
              static_cast<i32>(rows), static_cast<i32>(columns), PlanSlot(), PlanSlot(), 1,
              how.align_bottom_right, true);
}

std::string DerivedBlockLists::explain() const {
  return of_head_->explain() + (of_group_ ? of_group_->explain() : "");
}

}  // namespace tegula
