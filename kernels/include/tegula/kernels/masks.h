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

/// Composable attention masks: `and_(causal(), document(ids))`. Each is an ordinary mask lambda;
/// empty and full blocks are derived from its trace. Tables are i32 [entries]; tensors of other
/// types or ranks throw CompileError.
namespace tegula::kernels {

/// A number in a mask. An int is a compile-time constant; a Scalar is read at every launch and may
/// change without recompilation. The functions below throw CompileError for a meaningless int, such
/// as a chunk of 0 positions, at the line that passes it.
class MaskScalar {
 public:
  MaskScalar(int constant, std::source_location at = std::source_location::current())
      : constant_(constant), at_(at) {}
  MaskScalar(Scalar<i32> at_launch) : scalar_(std::move(at_launch)), is_scalar_(true) {}
  /// Returns the traced value, inside a mask.
  Tile value() const { return is_scalar_ ? scalar_.value() : Tile(constant_); }
  /// Returns the compile-time constant, or nothing for a Scalar.
  std::optional<int> constant() const {
    return is_scalar_ ? std::nullopt : std::optional(constant_);
  }
  /// Returns the line that passes the constant.
  const Loc& loc() const { return at_; }

 private:
  int constant_ = 0;
  Scalar<i32> scalar_;
  bool is_scalar_ = false;
  Loc at_;
};

/// Extents of an image, in pixels or in other units such as tiles and windows.
struct ImageSize {
  MaskScalar width, height;  ///< columns and rows
};
/// Extents of a video, in the same units.
struct VideoSize {
  MaskScalar width, height, frames;  ///< columns, rows and images
};

/// Pairs of an AttnSlice that the mask keeps.
enum class SliceMaskType : std::uint8_t {
  full,            ///< all pairs
  causal,          ///< q - q_end >= kv - kv_end: the last query attends to all keys
  inverse_causal,  ///< q - q_begin <= kv - kv_begin: the first query attends to all keys
  bi_causal,       ///< both conditions
};
/// A slice: queries [q_begin, q_end) and keys [kv_begin, kv_end).
struct AttnSlice {
  MaskScalar q_begin, q_end, kv_begin, kv_end;  ///< positions
  SliceMaskType kind = SliceMaskType::full;     ///< pairs of the slice that are kept
};

/// Keys [begins[q], ends[q]) for each query q: two i32 tables with one entry per query. The
/// interval is empty if its end does not exceed its begin.
struct RowInterval {
  Tensor begins, ends;  ///< i32 [queries]
};

namespace masks {

/// Keeps pairs that both masks keep.
Mask and_(Mask a, Mask b);
/// Keeps pairs that at least one mask keeps.
Mask or_(Mask a, Mask b);
/// Keeps pairs that the mask excludes.
Mask not_(Mask a);

/// Keeps all pairs.
Mask full();

/// q >= kv: no query attends to later keys.
Mask causal();

/// Causal mask whose last query is aligned with the last key: q + seqlen_kv - seqlen_q >= kv. For
/// chunks of a prefill and for decoding with a cache.
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

/// Sliding window plus the first `sinks` keys (Xiao et al. 2023, StreamingLLM).
Mask sink_window(MaskScalar sinks, MaskScalar window);

/// All queries attend to the first `prefix` keys, and causally to the rest (prefix language
/// models).
Mask prefix_lm(MaskScalar prefix);

/// Causal between blocks, full within a block (autoregressive video).
Mask block_causal(MaskScalar block);

/// Applies `inner` within each group of `length` positions; no pairs between groups. Runs a batch
/// as one long sequence.
Mask batchify(MaskScalar length, Mask inner);

/// Block diffusion over a noised copy of `length` positions followed by the clean copy (Arriola et
/// al. 2025): noised blocks attend to themselves and to earlier clean blocks, clean blocks attend
/// block-causally to clean blocks.
Mask block_diffusion(MaskScalar length, MaskScalar block);

/// Speculative blocks after a prompt: all queries attend to the first `prefix` keys; query block i
/// attends causally to key block i after the prefix.
Mask speculative_blocks(MaskScalar prefix, MaskScalar block);

/// Union of slices (MagiAttention, github.com/SandAI-org/MagiAttention): q_begin <= q < q_end,
/// kv_begin <= kv < kv_end and the kind's condition. Slices may overlap; none keep no pair.
Mask slices(std::vector<AttnSlice> of);

/// Mask of ring attention with balanced shards (Liu et al. 2023, arXiv:2310.01889, zig-zag
/// order): a sequence is divided into 2 * `ranks` chunks of `chunk` positions; rank r stores
/// chunks r and 2 * ranks - 1 - r, consecutively. inner(position of q on rank `q_rank`, position
/// of kv on rank `kv_rank`), where i on rank r has the position i + r * chunk for i < chunk, else
/// i + (2 * ranks - 2 - r) * chunk. If the ranks are Scalars, one kernel serves all steps of the
/// ring.
Mask zigzag(MaskScalar q_rank, MaskScalar kv_rank, MaskScalar ranks, MaskScalar chunk, Mask inner);

/// Frames of a video after a prompt, in frame order: q < prompt, or kv < sinks, or |q - kv| < width
/// (Xi et al. 2025, arXiv:2502.01776, Sparse VideoGen's spatial heads). All queries attend to the
/// `sinks` keys: the prompt, or the prompt and the first frame. `width` is in tokens: a number of
/// frames, which the paper rounds down to whole blocks of its kernel. For temporal heads see
/// `svg_temporal_head`.
Mask svg_spatial_head(MaskScalar prompt, MaskScalar sinks, MaskScalar width);

/// Neighbourhood attention on a `width` x `height` image in row-major order: each pixel attends to
/// the `size` x `size` window around it, shifted inwards at the border (Hassani et al. 2023).
Mask neighbourhood(MaskScalar width, MaskScalar height, MaskScalar size);

/// `neighbourhood` for an image stored tile by tile, with tiles in row-major order: pixel i is in
/// tile i / (tile.width * tile.height), at i % (tile.width * tile.height) in it. Each kernel block
/// then covers a few tiles, and most blocks are empty or full (attention-gym's tiled NATTEN). The
/// image extents are multiples of the tile extents.
Mask tiled_neighbourhood(ImageSize image, ImageSize tile, MaskScalar size);

/// `neighbourhood` on a square image of `side` x `side` pixels in Morton order: the bits of column
/// and row are interleaved in a pixel's position, lowest column bit first, so each aligned block of
/// 4^k positions is a square. Throws CompileError (T1634) unless `side` is a power of two up to
/// 2^15.
Mask morton_neighbourhood(int side, MaskScalar size, Loc at = std::source_location::current());

/// Sliding tile attention (Zhang et al. 2025, arXiv:2502.04507) on an image stored tile by tile as
/// in tiled_neighbourhood, followed by `text` positions. A pixel attends to the text, and to the
/// pixels of the window.width x window.height tiles around its own tile; text attends to all
/// positions. In each direction, a window of n tiles contains tiles c - n / 2 .. c + (n - 1) / 2,
/// where the centre c is the tile's coordinate clamped to [n / 2, tiles - 1 - (n - 1) / 2]. The
/// image extents are multiples of the tile extents. Positions after the text do not attend and are
/// not attended to.
Mask sliding_tiles(ImageSize image, ImageSize tile, ImageSize window, MaskScalar text);
/// The same for a video: tiles of tile.width x tile.height x tile.frames, ordered by column, then
/// row, then frame (fastest first).
Mask sliding_tiles(VideoSize video, VideoSize tile, VideoSize window, MaskScalar text);

/// Pairs within one document: ids[q] == ids[kv], where `ids` (i32) has one entry per position. With
/// ascending ids each document is one interval.
Mask document(Tensor ids, Loc at = std::source_location::current());

/// Packed causal documents: keys from the start of the query's document up to the query. `ids`
/// (i32) has the document of each position, `starts` (i32) the first position of each document.
Mask packed_causal(Tensor ids, Tensor starts, Loc at = std::source_location::current());

/// Applies `inner` within each packed document, on positions relative to the document's start:
/// ids[q] == ids[kv] and inner(q - starts[ids[q]], kv - starts[ids[kv]]). `ids` and `starts` as in
/// packed_causal.
Mask within_documents(Tensor ids, Tensor starts, Mask inner,
                      Loc at = std::source_location::current());

/// A prefix of `length` positions that all documents share, followed by packed causal documents
/// (Juravsky et al. 2024, Hydragen); the prefix itself is causal. `ids` and `starts` as in
/// packed_causal, with the prefix as one of the documents.
Mask shared_prefix(MaskScalar length, Tensor ids, Tensor starts,
                   Loc at = std::source_location::current());

/// Keys below the length of their batch entry: kv < lengths[b] (i32).
Mask key_padding(Tensor lengths, Loc at = std::source_location::current());

/// Keys from the first unpadded one of their batch entry on: kv >= padding[b] (i32).
Mask left_padding(Tensor padding, Loc at = std::source_location::current());

/// |q - kv| <= window; positions marked in `is_global` (i32, nonzero) attend to all positions and
/// are attended to by all (Longformer).
Mask global_window(MaskScalar window, Tensor is_global, Loc at = std::source_location::current());

/// Text and images in one sequence: causal, and full within an image (Zhou et al. 2024,
/// arXiv:2408.11039, Transfusion): kv < span_ends[q]. `span_ends` (i32) has one entry per position:
/// the first position after its image, or i + 1 for a text position i.
Mask transfusion(Tensor span_ends, Loc at = std::source_location::current());

/// Cross attention from text to images of `image_tokens` keys each: query q attends to the keys
/// of image images[q] only, images[q] == kv / image_tokens. `images` (i32) has one entry per
/// query: the latest image before it, or -1 for none (Alayrac et al. 2022, arXiv:2204.14198,
/// Flamingo).
Mask latest_image(Tensor images, MaskScalar image_tokens, Loc at = std::source_location::current());

/// Cross attention from text to images, by the range of queries that attend to an image: starts[i]
/// <= q < ends[i] where i = kv / image_tokens. `starts` and `ends` (i32) have one entry per image;
/// ranges of images may overlap (attention-gym's Flamingo mask).
Mask shown_images(Tensor starts, Tensor ends, MaskScalar image_tokens,
                  Loc at = std::source_location::current());

/// Union of key intervals per query: begins[q] <= kv < ends[q] for any of `intervals`. This is the
/// general mask of HSTU (Zhai et al. 2024, arXiv:2402.17152) and of MagiAttention.
Mask row_intervals(std::vector<RowInterval> intervals, Loc at = std::source_location::current());

/// Two intervals of masked queries for each key (Wang et al. 2024, arXiv:2410.01359, FlashMask):
/// neither lower_starts[kv] <= q < lower_ends[kv] nor upper_starts[kv] <= q < upper_ends[kv]. Four
/// i32 tables with one entry per key; an empty interval masks nothing. Causal variants are
/// and_(causal(), ...).
Mask flash_mask(Tensor lower_starts, Tensor lower_ends, Tensor upper_starts, Tensor upper_ends,
                Loc at = std::source_location::current());

/// Returns the table that `tree` reads, for trees of up to `nodes` nodes, one per batch entry or
/// one for all: parents[t][i] is the parent of node i of tree t, a smaller index, or -1 for a root.
/// Bit j % 32 of entry (t * nodes + i) * ceil(nodes / 32) + j / 32 (i32) is set if j is i or an
/// ancestor of i. Throws CompileError for a parent that does not precede its node (T1632), for a
/// tree of more than `nodes` nodes (T1631), and unless 1 <= nodes <= 1024 (T1630).
Tensor ancestor_bits(const std::vector<std::vector<int>>& parents, int nodes,
                     Device device = Device::best(), Loc at = std::source_location::current());

/// Speculative decoding of several continuations at once (Miao et al. 2023, arXiv:2305.09781; Cai
/// et al. 2024, arXiv:2401.10774, Medusa; Li et al. 2024, arXiv:2401.15077, EAGLE): positions from
/// `prefix` on are the nodes of a tree. A node attends to the prefix, itself and its ancestors: kv
/// < prefix, or bit kv - prefix of node q - prefix is set in `ancestors`, which ancestor_bits
/// builds for `nodes` nodes. If all queries are nodes, AttentionSpec::align_bottom_right gives them
/// their positions. Earlier queries attend to the prefix; and_(causal(), tree(...)) is the mask of
/// a prefill. Throws CompileError (T1633) if the table does not contain trees of `nodes` nodes.
Mask tree(MaskScalar prefix, Tensor ancestors, int nodes, Loc at = std::source_location::current());

/// Applies `inner` to shifted positions: inner(q + q_offset, kv + kv_offset). For the shards of
/// ring attention and for chunked prefills.
Mask shifted(MaskScalar q_offset, MaskScalar kv_offset, Mask inner);

/// Video in frames of `frame` tokens after a prompt: a token attends to the prompt, and to tokens
/// of any frame whose position in it is less than `width` away (Xi et al. 2025, temporal heads).
Mask svg_temporal_head(MaskScalar prompt, MaskScalar frame, MaskScalar width);

}  // namespace masks
}  // namespace tegula::kernels
