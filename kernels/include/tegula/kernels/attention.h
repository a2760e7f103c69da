#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <source_location>

#include "tegula/attention_config.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/block_list.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/tile_ops.h"
#include "tegula/value.h"

/// Attention with a mask and a score function given as lambdas, computed block by block with an
/// online softmax (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention").
namespace tegula {

/// Reference of a row's weights and sum while kv blocks come in.
enum class Rescaling : std::uint8_t {
  /// `never` where that pays, by the call's work, mask, score and type (docs/attention.md); else
  /// `exact`.
  automatic,
  exact,  ///< the largest score so far
  /// A reference that the maximum may exceed by 8 powers of 2: accumulator and row sum are rescaled
  /// seldom, and are as large as 2^8 times those of `exact`. Errors are 3 % larger, as of `never`
  /// (Dao et al. 2025, FlashAttention-4). With `row_max`, which it would change: exact.
  lazy,
  /// The largest score of the first kv block that a query tile visits: no later iteration computes
  /// a maximum. Rows whose sums then leave the range of floats are detected, and their tiles, and
  /// others with them, are recomputed with `exact` by a second kernel, which else has nothing to do
  /// (Hong et al. 2023, FlashDecoding++). Errors are 1 to 5 % larger, as the row's largest weight
  /// is not 1, which bf16 has exactly. With `row_max`, block lists, a given kv range, packed heads
  /// or split-KV: exact.
  never,
};

/// How scores become the weights of values.
enum class AttentionNormalization : std::uint8_t {
  softmax,  ///< e^s over their sum
  /// The scores themselves, 0 for masked keys: the score function is an activation, such as
  /// sigmoid(s - log(length)) (Ramapuram et al. 2024) or the square of max(s, 0).
  none,
  /// A key takes the share sigmoid(s) of the row's weight of 1 that later keys left (Tan et al.
  /// 2024, "Scaling Stick-Breaking Attention"): no positions are encoded, near keys come first.
  /// Masks decide which keys come later: usually causal ones, with or without the diagonal. Keys
  /// are visited in order, so there are no block lists: under a mask that needs one, all blocks
  /// between the first and the last visited one are computed.
  stick_breaking,
};

/// Definition of an attention besides its tensors. All lambdas are traced: their arguments are
/// integer tiles that broadcast against each other (batch, head, query position, key/value
/// position).
struct AttentionSpec {
  /// True where the query may attend to the key. Default: everywhere. Empty kv blocks of a tile are
  /// skipped, as far as they are known from the kv ranges, the block list or the mask itself.
  std::function<Tile(Tile b, Tile h, Tile q, Tile kv)> mask = {};
  /// New score from the scaled score s = scale * q.k (f32). Default: s. Its float arithmetic may be
  /// reassociated: as accurate as sums of the same terms, not bit for bit as written. A score of
  /// `where(condition, x, -INFINITY)`, whose condition does not depend on s, is x under a mask,
  /// unless kv ranges or a block list are given.
  std::function<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)> score = {};
  /// Narrows the loop over keys for query rows [first, last]; must contain all that `mask` lets
  /// through. Default: without `full_kv_range`, what is derived from the mask; else all keys.
  std::function<KvRange(Tile first, Tile last, Tile seqlen_kv)> kv_range = {};
  /// Keys that all query rows [first, last] attend to, so that the mask need not be computed there.
  /// Default: without a given kv range, derived from the mask; else none if there is a mask.
  std::function<KvRange(Tile first, Tile last, Tile seqlen_kv)> full_kv_range = {};
  /// The kv blocks to visit, for masks that only the device knows; `mask` is computed in the
  /// partial ones. Excludes given kv ranges and `varlen`; heads are not packed.
  std::optional<BlockList> blocks = {};
  /// Softmax temperature, positive and finite; default 1 / sqrt(head dim).
  std::optional<float> scale = {};
  /// Queries are the last positions of their sequence, so that mask and score get the query at
  /// position q + seqlen_kv - seqlen_q: chunks of a prefill, decoding with a cache (causal masks
  /// are then aligned bottom right). No sequence may have more queries than keys.
  bool align_bottom_right = false;
  AttentionNormalization weighting = AttentionNormalization::softmax;
};

/// How exactly it computes: choices that change last bits.
struct AttentionNumerics {
  /// Rescaling of the online softmax.
  Rescaling rescaling = Rescaling::automatic;
};

/// By which schedule: what is left out, attention chooses for the call at hand.
struct AttentionSchedule {
  /// For measurements; default: chosen from head dims, lengths, mask and score. 16, 32, 64, 128 or
  /// 192 queries, a multiple of 16 keys up to 224. Without effect under lists of blocks, derived
  /// ones too; few rows of packed heads keep their 64.
  std::optional<AttentionTileShape> tiles = {};
  /// Whether a query tile holds all heads of a GQA group, so that their keys are read once: for few
  /// queries a head. Default: up to 16 of them. Without effect in `varlen`, for groups of one head,
  /// or if rows of a group's heads are not evenly spaced in memory (they are for one query, and in
  /// contiguous [batch, heads, length, dim]).
  std::optional<bool> pack_gqa = {};
  /// Whether derived block lists put the query tiles that visit most blocks first, over all heads,
  /// so that programs share uneven work more evenly (`tegula mask --order`). Takes one small kernel
  /// more. Default: on if an SM has few tiles, and keys are so many that one tile may take long
  /// next to the others.
  std::optional<bool> longest_first = {};
  /// Whether tensors that `score` reads at each pair (b, h, q, kv), such as a full bias, are loaded
  /// as tiles by TMA (sm_90), if they can be: their last dimension contiguous, other strides and
  /// the address multiples of 16 bytes. Else threads load them element by element, in smaller kv
  /// blocks, so that last bits differ.
  bool tma_aux_loads = true;
  /// Programs, 1 or an even number up to 256, that split the keys of a tile of up to 64 rows: a
  /// head's queries, or those of the heads that it packs. Default: if keys are many and tiles few,
  /// as many as an estimate finds fastest. They are a cluster, or several of up to 8, and combine
  /// their softmaxes. Several clusters only if those of all tiles are co-resident, else one;
  /// without effect with more queries, with `tiles`, in `varlen`, under block lists, with other
  /// normalizations than softmax, and for other targets than sm_90a.
  std::optional<int> split_kv = {};
};

/// The keys a causal mask lets through: [0, last + 1); a `kv_range` of every mask that is at least
/// causal.
KvRange causal_range(const Tile& first, const Tile& last, const Tile& seqlen_kv);
/// The keys that all rows attend to under a mask that is causal and nothing else: [0, first + 1).
KvRange causal_full(const Tile& first, const Tile& last, const Tile& seqlen_kv);

/// Further tensors of a call, f32. Tensors left out are neither read nor written.
struct AttentionExtras {
  /// Out, [batch, heads, seqlen_q]: the natural logarithm of the softmax's denominator; -inf for a
  /// row without keys. With stick breaking: that of the remaining weight, 0 for such a row. Not
  /// available if weights are the scores.
  Tensor lse = {};
  /// Out, like `lse`: the largest score of a row, sinks not among them; -inf without keys. Of
  /// softmax only, as sinks are.
  Tensor row_max = {};
  /// In, [heads]: the score of one more key of each head, whose value is 0: it counts in the
  /// denominator only (gpt-oss; Xiao et al. 2023, "attention sinks").
  Tensor sinks = {};
};

/// A callable attention. Copies share compiled kernels. Throws CompileError for tensors that do not
/// fit. Under a mask whose block list is derived (`explain` says so), calls of one stream come from
/// one thread at a time: they share its memory for the list.
///
/// Tensors (bf16 or f16, all alike): Q [batch, heads, seqlen_q, head_dim], K [batch, kv_heads,
/// seqlen_kv, head_dim], V [batch, kv_heads, seqlen_kv, head_dim_v], O [batch, heads, seqlen_q,
/// head_dim_v]; any strides, the last dimension contiguous; heads is a multiple of kv_heads
/// (grouped queries); both head dims are multiples of 8 up to 256. A row without keys gives 0.
/// Lengths of any size; they vary without compiling. The same inputs give the same bits in every
/// run. Masked keys may hold anything; their values must be finite if the row's tile visits their
/// block, which multiplies them by weights of 0.
class Attention {
 public:
  explicit Attention(AttentionSpec spec, AttentionSchedule schedule = {},
                     AttentionNumerics numerics = {}, Loc at = std::source_location::current());

  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, const AttentionExtras& extras,
                  Loc at = std::source_location::current()) const;
  /// With the logarithm `Lse` of AttentionExtras.
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, const Tensor& Lse,
                  Loc at = std::source_location::current()) const;
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, Loc at = std::source_location::current()) const;
  void operator()(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                  Loc at = std::source_location::current()) const;

  /// Sequences of different lengths: Q [total q, heads, head_dim], K [total kv, kv_heads,
  /// head_dim], V [total kv, kv_heads, head_dim_v], O [total q, heads, head_dim_v]; lse and row_max
  /// [total q, heads]. Mask and score get the sequence's number as batch entry and positions within
  /// it. `lengths.max_seqlen_q` may be any bound of the sequences' queries. Rows of O beyond the
  /// last sequence keep their contents. Values must be finite, as those of the next sequence may be
  /// multiplied by weights of 0. Lengths, their number and max_seqlen_q vary without compiling.
  void varlen(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
              const Tensor& O, const CuSeqlens& lengths, const AttentionExtras& extras = {},
              Loc at = std::source_location::current()) const;

  /// Report on the kernel compiled last for `dtype`: plan, remarks, registers.
  std::string explain(DType dtype = DType::bf16, Loc at = std::source_location::current()) const;
  std::string dump(std::string_view verb, DType dtype = DType::bf16,
                   Loc at = std::source_location::current()) const;

 private:
  struct Kernels;
  std::shared_ptr<const Kernels> kernels_;
};

inline Attention attention(AttentionSpec spec, AttentionSchedule schedule = {},
                           AttentionNumerics numerics = {},
                           Loc at = std::source_location::current()) {
  return Attention(std::move(spec), schedule, numerics, at);
}

}  // namespace tegula
