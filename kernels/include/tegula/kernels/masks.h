#pragma once
#include <functional>

#include "tegula/tensor.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Masks of attention as functions to be composed: `and_(causal(), document(ids))`. Each is an
/// ordinary mask lambda; which blocks it leaves empty or full is derived from what it computes.
namespace tegula {

/// True where the query at position q sees the key at position kv. Arguments are traced integers:
/// batch entry, head, positions.
using Mask = std::function<Tile(Tile b, Tile h, Tile q, Tile kv)>;

/// A number in a mask. An int is compiled in; a Scalar is read at every launch, so that it changes
/// without compiling.
class MaskNumber {
 public:
  MaskNumber(int constant) : constant_(constant) {}
  MaskNumber(Scalar<i32> at_launch) : scalar_(std::move(at_launch)), is_scalar_(true) {}
  /// The traced value, inside a mask.
  Tile value() const { return is_scalar_ ? scalar_.value() : Tile(constant_); }

 private:
  int constant_ = 0;
  Scalar<i32> scalar_;
  bool is_scalar_ = false;
};

namespace masks {

/// Both masks let the pair through.
Mask and_(Mask a, Mask b);
/// One of the masks lets the pair through.
Mask or_(Mask a, Mask b);
/// The mask does not let the pair through.
Mask not_(Mask a);

/// Every query sees every key.
Mask full();

/// q >= kv: no query sees what comes after it.
Mask causal();

/// Causal where the last query stands at the last key: q + kv_length - q_length >= kv. For chunks
/// of a prefill and for decoding with a cache.
Mask causal_bottom_right(MaskNumber q_length, MaskNumber kv_length);

/// Causal, and at most `window` positions back: 0 <= q - kv <= window (Beltagy et al. 2020;
/// Mistral).
Mask sliding_window(MaskNumber window);

/// From `left` positions back to `right` positions ahead: -right <= q - kv <= left.
Mask window(MaskNumber left, MaskNumber right);

/// Causal within chunks of `size` positions, no chunk sees another (Llama 4).
Mask chunked(MaskNumber size);

/// |q - kv| <= window in steps of `dilation` (Longformer's dilated window).
Mask dilated_window(MaskNumber window, MaskNumber dilation);

/// Sliding window that always keeps the first `sinks` keys (Xiao et al. 2023, StreamingLLM).
Mask sink_window(MaskNumber sinks, MaskNumber window);

/// The first `prefix` keys are seen by all, the rest causally (prefix language models).
Mask prefix_lm(MaskNumber prefix);

/// Causal from block to block, all of a block sees all of itself (autoregressive video).
Mask block_causal(MaskNumber block);

/// The same mask for each group of `length` positions; no group sees another. Runs a batch as one
/// long sequence.
Mask batchify(MaskNumber length, Mask inner);

/// Block diffusion over a noised copy of `length` positions followed by the clean one (Arriola et
/// al. 2025): noised blocks see themselves and the clean blocks before them, clean ones are
/// causal by block.
Mask block_diffusion(MaskNumber length, MaskNumber block);

/// Speculative blocks after a prompt: all see the first `prefix` keys; query block i sees key block
/// i after the prefix, causally within it.
Mask speculative_blocks(MaskNumber prefix, MaskNumber block);

/// Neighbourhood attention on an image of `width` x `height` in row-major order: each pixel sees
/// the `size` x `size` window around it, moved inwards at the border (Hassani et al. 2023).
Mask neighbourhood(MaskNumber width, MaskNumber height, MaskNumber size);

/// Pairs of one document: ids[q] == ids[kv], where `ids` (i32) has an entry for each position.
/// Ascending ids make every document one interval.
Mask document(Tensor ids);

/// Packed causal documents: kv from the start of q's document up to q. `ids` (i32) numbers the
/// document of each position, `starts` (i32) its first position.
Mask packed_causal(Tensor ids, Tensor starts);

/// A prefix of `length` positions that all documents share, followed by packed causal documents
/// (Juravsky et al. 2024, Hydragen); the prefix is itself causal. `ids` and `starts` as in
/// packed_causal, the prefix being a document.
Mask shared_prefix(MaskNumber length, Tensor ids, Tensor starts);

/// Keys below the length of their batch entry: kv < lengths[b] (i32).
Mask key_padding(Tensor lengths);

/// Keys from the first real one of their batch entry on: kv >= padding[b] (i32).
Mask left_padding(Tensor padding);

/// |q - kv| <= window, and positions marked in `is_global` (i32, not 0) see and are seen by all
/// (Longformer).
Mask global_window(MaskNumber window, Tensor is_global);

/// The mask of positions that lie further on: inner(q + q_offset, kv + kv_offset). For the parts of
/// ring attention and of prefills in chunks.
Mask shifted(MaskNumber q_offset, MaskNumber kv_offset, Mask inner);

/// Video in frames of `frame` tokens after a prompt: a token sees the prompt, and tokens less than
/// `width` from its own place in any frame (Xi et al. 2025, Sparse VideoGen's temporal heads).
Mask same_place(MaskNumber prompt, MaskNumber frame, MaskNumber width);

}  // namespace masks
}  // namespace tegula
