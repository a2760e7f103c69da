#pragma once
#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

#include "tegula/functions.h"
#include "tegula/location.h"
#include "tegula/tensor.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Masks of attention as functions to be composed: `and_(causal(), document(ids))`. Each is an
/// ordinary mask lambda; which blocks it leaves empty or full is derived from what it computes.
/// Tables are i32 [entries]; others throw CompileError.
namespace tegula {

/// A number in a mask. An int is compiled in; a Scalar is read at every launch, so that it changes
/// without compiling. Functions below throw CompileError for an int with which they mean nothing,
/// such as a chunk of no positions, at the line that gives it.
class MaskScalar {
 public:
  MaskScalar(int constant, std::source_location at = std::source_location::current())
      : constant_(constant), at_(at) {}
  MaskScalar(Scalar<i32> at_launch) : scalar_(std::move(at_launch)), is_scalar_(true) {}
  /// The traced value, inside a mask.
  Tile value() const { return is_scalar_ ? scalar_.value() : Tile(constant_); }
  /// The number that is compiled in; none of a Scalar.
  std::optional<int> constant() const {
    return is_scalar_ ? std::nullopt : std::optional(constant_);
  }
  /// The line that gives the constant.
  const Loc& loc() const { return at_; }

 private:
  int constant_ = 0;
  Scalar<i32> scalar_;
  bool is_scalar_ = false;
  Loc at_;
};

/// Extents of an image, or of what is counted in it, as tiles and windows are.
struct ImageSize {
  MaskScalar width, height;
};
/// The same of a video.
struct VideoSize {
  MaskScalar width, height, frames;
};

/// Pairs that an AttnSlice keeps.
enum class SliceMaskType : std::uint8_t {
  full,            ///< all
  causal,          ///< q - q_end >= kv - kv_end: the last query attends to all keys
  inverse_causal,  ///< q - q_begin <= kv - kv_begin: the first query attends to all keys
  bi_causal,       ///< both of them
};
/// Queries [q_begin, q_end) against keys [kv_begin, kv_end).
struct AttnSlice {
  MaskScalar q_begin, q_end, kv_begin, kv_end;
  SliceMaskType kind = SliceMaskType::full;
};

/// Keys [begins[q], ends[q]) for each query q: two i32 tables with an entry for each query. None
/// where an end is not above its begin.
struct RowInterval {
  Tensor begins, ends;
};

namespace masks {

/// Both masks let the pair through.
Mask and_(Mask a, Mask b);
/// One of the masks lets the pair through.
Mask or_(Mask a, Mask b);
/// The mask does not let the pair through.
Mask not_(Mask a);

/// Every query attends to every key.
Mask full();

/// q >= kv: no query attends to later keys.
Mask causal();

/// Causal where the last query stands at the last key: q + seqlen_kv - seqlen_q >= kv. For chunks
/// of a prefill and for decoding with a cache.
Mask causal_bottom_right(MaskScalar seqlen_q, MaskScalar seqlen_kv);

/// Causal, and at most `window` positions back: 0 <= q - kv <= window (Beltagy et al. 2020;
/// Mistral).
Mask sliding_window(MaskScalar window);

/// From `left` positions back to `right` positions ahead: -right <= q - kv <= left.
Mask window(MaskScalar left, MaskScalar right);

/// Causal within chunks of `size` positions (Llama 4).
Mask chunked(MaskScalar size);

/// |q - kv| <= window in steps of `dilation` (Longformer's dilated window).
Mask dilated_window(MaskScalar window, MaskScalar dilation);

/// Sliding window that always keeps the first `sinks` keys (Xiao et al. 2023, StreamingLLM).
Mask sink_window(MaskScalar sinks, MaskScalar window);

/// All queries attend to the first `prefix` keys, and causally to the rest (prefix language
/// models).
Mask prefix_lm(MaskScalar prefix);

/// Causal from block to block, full within a block (autoregressive video).
Mask block_causal(MaskScalar block);

/// The same mask for each group of `length` positions, nothing between groups. Runs a batch as one
/// long sequence.
Mask batchify(MaskScalar length, Mask inner);

/// Block diffusion over a noised copy of `length` positions followed by the clean one (Arriola et
/// al. 2025): noised blocks attend to themselves and to earlier clean blocks, clean ones are causal
/// by block.
Mask block_diffusion(MaskScalar length, MaskScalar block);

/// Speculative blocks after a prompt: all queries attend to the first `prefix` keys; query block i
/// attends to key block i after the prefix, causally within it.
Mask speculative_blocks(MaskScalar prefix, MaskScalar block);

/// The union of slices (MagiAttention, github.com/SandAI-org/MagiAttention): q_begin <= q < q_end,
/// kv_begin <= kv < kv_end and what the slice's kind asks. Slices may overlap; no slice, no pair.
Mask slices(std::vector<AttnSlice> of);

/// The mask of ring attention with balanced shards (Liu et al. 2023, arXiv:2310.01889, in zig-zag
/// order): a sequence is divided into 2 * `ranks` chunks of `chunk` positions, and rank r holds the
/// chunks r and 2 * ranks - 1 - r, consecutively. inner(position of q on rank `q_rank`, position of
/// kv on rank `kv_rank`), where the position of i on rank r is i + r * chunk for i < chunk, else i
/// + (2 * ranks - 2 - r) * chunk. Ranks that are Scalars serve all steps of the ring with one
/// kernel.
Mask zigzag(MaskScalar q_rank, MaskScalar kv_rank, MaskScalar ranks, MaskScalar chunk, Mask inner);

/// Video in frames after a prompt, frame by frame: q < prompt, or kv < sinks, or |q - kv| < width
/// (Xi et al. 2025, arXiv:2502.01776, Sparse VideoGen's spatial heads). `sinks` are the keys that
/// all see: the prompt, or the prompt and the first frame. `width` counts tokens: that of some
/// frames, which the paper rounds down to whole blocks of its kernel. Its temporal heads are
/// `svg_temporal_head`.
Mask svg_spatial_head(MaskScalar prompt, MaskScalar sinks, MaskScalar width);

/// Neighbourhood attention on an image of `width` x `height` in row-major order: each pixel sees
/// the `size` x `size` window around it, moved inwards at the border (Hassani et al. 2023).
Mask neighbourhood(MaskScalar width, MaskScalar height, MaskScalar size);

/// `neighbourhood` where the pixels of a tile follow each other, and tiles are in row-major order:
/// pixel i is in tile i / (tile.width * tile.height), at i % (tile.width * tile.height) in it. So a
/// block of the kernel is a few tiles, and most blocks are empty or full (attention-gym's tiled
/// NATTEN). The image is a multiple of the tile in both directions.
Mask tiled_neighbourhood(ImageSize image, ImageSize tile, MaskScalar size);

/// `neighbourhood` on a square image of `side` x `side` pixels in Morton order: the bits of column
/// and row alternate in a pixel's position, the column's lowest first, so that every aligned block
/// of 4^k positions is a square. Throws CompileError unless `side` is a power of two up to 2^15.
Mask morton_neighbourhood(int side, MaskScalar size, Loc at = std::source_location::current());

/// Sliding tile attention (Zhang et al. 2025, arXiv:2502.04507) on an image in tiles, laid out as
/// in tiled_neighbourhood, followed by `text` positions. A pixel attends to all pixels of the tiles
/// in a window of window.width x window.height tiles around its own tile, and to the text; text
/// attends to all. For a window of n tiles in a direction, centre c is the tile's coordinate
/// clamped to [n / 2, tiles - 1 - (n - 1) / 2] and tiles c - n / 2 .. c + (n - 1) / 2 are in it.
/// The image is a multiple of the tile. Positions beyond the text neither attend nor are attended
/// to.
Mask sliding_tiles(ImageSize image, ImageSize tile, ImageSize window, MaskScalar text);
/// The same in a video: tiles of tile.width x tile.height x tile.frames, the tiles of a row first,
/// then rows, then frames.
Mask sliding_tiles(VideoSize video, VideoSize tile, VideoSize window, MaskScalar text);

/// Pairs of one document: ids[q] == ids[kv], where `ids` (i32) has an entry for each position.
/// Ascending ids make every document one interval.
Mask document(Tensor ids, Loc at = std::source_location::current());

/// Packed causal documents: kv from the start of q's document up to q. `ids` (i32) numbers the
/// document of each position, `starts` (i32) its first position.
Mask packed_causal(Tensor ids, Tensor starts, Loc at = std::source_location::current());

/// Another mask within each of packed documents, on positions that count from the document's start:
/// ids[q] == ids[kv] and inner(q - starts[ids[q]], kv - starts[ids[kv]]). `ids` and `starts` as in
/// packed_causal.
Mask within_documents(Tensor ids, Tensor starts, Mask inner,
                      Loc at = std::source_location::current());

/// A prefix of `length` positions that all documents share, followed by packed causal documents
/// (Juravsky et al. 2024, Hydragen); the prefix is itself causal. `ids` and `starts` as in
/// packed_causal, the prefix being a document.
Mask shared_prefix(MaskScalar length, Tensor ids, Tensor starts,
                   Loc at = std::source_location::current());

/// Keys below the length of their batch entry: kv < lengths[b] (i32).
Mask key_padding(Tensor lengths, Loc at = std::source_location::current());

/// Keys from the first real one of their batch entry on: kv >= padding[b] (i32).
Mask left_padding(Tensor padding, Loc at = std::source_location::current());

/// |q - kv| <= window, and positions marked in `is_global` (i32, not 0) attend to and are attended
/// to by all (Longformer).
Mask global_window(MaskScalar window, Tensor is_global, Loc at = std::source_location::current());

/// Text and images in one sequence: causal, and full within an image (Zhou et al. 2024,
/// arXiv:2408.11039, Transfusion): kv < span_ends[q]. `span_ends` (i32) has an entry for each
/// position: the first position after its image; for text at i, which is a span of its own, i + 1.
Mask transfusion(Tensor span_ends, Loc at = std::source_location::current());

/// Cross attention of text to images, each of which is `image_tokens` keys: query q attends to the
/// keys of image images[q] only, images[q] == kv / image_tokens. `images` (i32) has an entry for
/// each query: the latest image before it, or -1 for none (Alayrac et al. 2022, arXiv:2204.14198,
/// Flamingo).
Mask latest_image(Tensor images, MaskScalar image_tokens, Loc at = std::source_location::current());

/// Cross attention of text to images by what text an image is shown to: starts[i] <= q < ends[i]
/// where i = kv / image_tokens. `starts` and `ends` (i32) have an entry for each image; several
/// images may be shown to one text (attention-gym's Flamingo mask).
Mask shown_images(Tensor starts, Tensor ends, MaskScalar image_tokens,
                  Loc at = std::source_location::current());

/// Keys of given intervals for each query: begins[q] <= kv < ends[q] for some of `intervals`. The
/// general mask function of HSTU (Zhai et al. 2024, arXiv:2402.17152) and of MagiAttention.
Mask row_intervals(std::vector<RowInterval> intervals, Loc at = std::source_location::current());

/// Rows that each key is hidden from, as two intervals of a column (Wang et al. 2024,
/// arXiv:2410.01359, FlashMask): neither lower_starts[kv] <= q < lower_ends[kv] nor
/// upper_starts[kv] <= q < upper_ends[kv]. Four i32 tables with an entry for each key; an empty
/// interval hides nothing. Causal forms are and_(causal(), ...).
Mask flash_mask(Tensor lower_starts, Tensor lower_ends, Tensor upper_starts, Tensor upper_ends,
                Loc at = std::source_location::current());

/// A table for `tree` of trees of up to `nodes` nodes, one for each batch entry or one for all:
/// parents[t][i] is the parent of node i of tree t, a node before it, or -1 for a root. Bit j % 32
/// of entry (t * nodes + i) * ceil(nodes / 32) + j / 32 (i32) is set where j is i or an ancestor of
/// it. Throws CompileError for a parent that is not before its node, for a tree of more than
/// `nodes`, and unless `nodes` is 1 to 1024.
Tensor ancestor_bits(const std::vector<std::vector<int>>& parents, int nodes,
                     Device device = Device::best(), Loc at = std::source_location::current());

/// Speculative decoding of several continuations at once (Miao et al. 2023, arXiv:2305.09781; Cai
/// et al. 2024, arXiv:2401.10774, Medusa; Li et al. 2024, arXiv:2401.15077, EAGLE): positions from
/// `prefix` on are the nodes of a tree. A node attends to the prefix, itself and its ancestors: kv
/// < prefix, or kv - prefix is a bit of node q - prefix in `ancestors`, which ancestor_bits makes
/// for `nodes` nodes. For queries that are nodes only, AttentionSpec::align_bottom_right gives them
/// their positions. Earlier queries attend to the prefix; and_(causal(), tree(...)) is the mask of
/// a prefill. Throws CompileError for a table that holds no tree of `nodes` nodes.
Mask tree(MaskScalar prefix, Tensor ancestors, int nodes, Loc at = std::source_location::current());

/// The mask of shifted positions: inner(q + q_offset, kv + kv_offset). For the shards of ring
/// attention and for chunked prefills.
Mask shifted(MaskScalar q_offset, MaskScalar kv_offset, Mask inner);

/// Video in frames of `frame` tokens after a prompt: a token sees the prompt, and tokens less than
/// `width` from its own place in any frame (Xi et al. 2025, Sparse VideoGen's temporal heads).
Mask svg_temporal_head(MaskScalar prompt, MaskScalar frame, MaskScalar width);

}  // namespace masks
}  // namespace tegula
