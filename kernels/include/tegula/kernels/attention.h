#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <source_location>

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

/// What the sums of a row are relative to while blocks of keys come in.
enum class Rescaling : std::uint8_t {
  /// `never` where that pays, by the call's work, mask, score and type (docs/attention.md); else
  /// `exact`.
  automatic,
  exact,  ///< the largest score so far
  /// One that the largest may exceed by 8 powers of 2: outputs and sums are rescaled seldom, and
  /// are as large as 2^8 times those of `exact`. Errors are 3 % larger, as of `never` (Dao et al.
  /// 2025, FlashAttention-4). With `row_max`, which it would change: exact.
  lazy,
  /// The largest score of the first block of keys that a tile visits: no later step looks for a
  /// maximum. Rows whose sums then leave the range of floats are found, and their tiles, and others
  /// with them, computed again, as with `exact`, by a second kernel, which else has nothing to do
  /// (Hong et al. 2023, FlashDecoding++). Errors are 1 to 5 % larger, as the row's largest weight
  /// is not 1, which bf16 has exactly.
  /// With `row_max`, lists of blocks, a given `range`, packed heads or keys that programs share:
  /// exact.
  never,
};

/// How scores become the weights of values.
enum class Weighting : std::uint8_t {
  softmax,  ///< e^s over their sum
  /// The scores themselves, 0 for keys that a row does not see: the score function is an
  /// activation, such as sigmoid(s - log(length)) (Ramapuram et al. 2024) or the square of max(s,
  /// 0).
  scores,
  /// A key takes the share sigmoid(s) of what the keys behind it left of the row's weight of 1 (Tan
  /// et al. 2024, "Scaling Stick-Breaking Attention"): no positions are encoded, near keys come
  /// first. Masks decide what is behind: usually causal ones, with or without the diagonal. Keys
  /// are visited in order, so that there are no lists of blocks: a mask that needs one has all
  /// blocks between its first and its last visited.
  stick_breaking,
};

/// What attention computes, beside its tensors. All lambdas are traced: their arguments are integer
/// tiles that broadcast against each other (batch, head, query position, key/value position).
struct AttentionSpec {
  /// True where the query may see the key. Default: everywhere. Blocks of keys that no row of a
  /// tile sees are left out, as far as `range`, `full`, `blocks` or what the mask computes tells.
  std::function<Tile(Tile b, Tile h, Tile q, Tile kv)> mask = {};
  /// New score from the scaled score s = scale * q.k (f32). Default: s. Its sums are `relaxed`: as
  /// accurate as sums of the same terms, not bit for bit as they are written. A score of
  /// `where(condition, x, -INFINITY)`, whose condition does not look at s, is x under a mask,
  /// unless `range`, `full` or `blocks` is given.
  std::function<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)> score = {};
  /// Narrows the loop over keys for query rows [first, last]; must contain all that `mask` lets
  /// through. Default: without `full`, what is derived from the mask; else all keys.
  std::function<KvRange(Tile first, Tile last, Tile kv_length)> range = {};
  /// Keys that all query rows [first, last] see, so that the mask need not be computed there.
  /// Default: without `range`, what is derived from the mask; else none where there is a mask.
  std::function<KvRange(Tile first, Tile last, Tile kv_length)> full = {};
  /// The blocks of keys to visit, where only the device knows them; `mask` is computed in those
  /// that are not full. Excludes `range`, `full` and `varlen`; heads are not packed.
  std::optional<BlockList> blocks = {};
  /// Softmax temperature, positive; default 1 / sqrt(head dim).
  std::optional<float> scale = {};
  /// Queries are the last positions of their sequence, so that mask and score see the query at
  /// position q + kv_length - q_length: chunks of a prefill, decoding with a cache (causal masks
  /// are then aligned at the lower right). No sequence may have more queries than keys.
  bool queries_at_end = false;
  Weighting weighting = Weighting::softmax;
};

/// How exactly it computes: choices that change last bits.
struct AttentionNumerics {
  /// Of softmax.
  Rescaling rescaling = Rescaling::automatic;
};

/// Queries and keys that a program works on at a time.
struct AttentionTiles {
  int queries = 128, keys = 128;
};

/// By which schedule: what is left out, attention chooses for the call at hand.
struct AttentionSchedule {
  /// For measurements; default: chosen from head dims, lengths, mask and score. 16, 32, 64, 128 or
  /// 192 queries, a multiple of 16 keys up to 224. Without effect under lists of blocks, derived
  /// ones too; few rows of packed heads keep their 64.
  std::optional<AttentionTiles> tiles = {};
  /// Whether a tile of queries holds all heads of a group that share keys, so that these are read
  /// once: for few queries a head. Default: up to 16 of them. Without effect in `varlen`, where a
  /// group has one head, or where rows of its heads are not evenly spaced in memory (they are for
  /// one query, and where [batch, heads, length, dim] is contiguous).
  std::optional<bool> pack_heads = {};
  /// Where lists of blocks are derived from the mask: whether tiles of queries that visit most
  /// blocks come first, those of all heads, so that programs share uneven work more evenly (`tegula
  /// mask --order`). One small kernel more. Default: where an SM has few tiles, and keys are
  /// many enough that one may take long beside the others.
  std::optional<bool> longest_first = {};
  /// Whether tensors that `score` reads at each pair (b, h, q, kv), such as a full bias, are
  /// brought as tiles by TMA (sm_90), where they can be: their last dimension contiguous, other
  /// strides and the address multiples of 16 bytes. Else threads load them element by element, in
  /// steps of fewer keys, so that last bits differ.
  bool tma_loads = true;
  /// Programs, 1 or an even number up to 256, that share the keys of a tile of up to 64 rows: a
  /// head's queries, or those of the heads that it packs. Default: where keys are many and tiles
  /// few, as many as an estimate finds fastest. They are a cluster, or several of up to 8 whose
  /// parts meet in memory, and merge their softmaxes. Several only where all tiles' run at
  /// once, else one cluster; without effect with more queries, with `tiles`, in `varlen`, under
  /// lists of blocks, with other weights than softmax's, and for other targets than sm_90a.
  std::optional<int> key_splits = {};
};

/// The keys a causal mask lets through: [0, last + 1); a `range` of every mask that is at least
/// causal.
KvRange causal_range(const Tile& first, const Tile& last, const Tile& kv_length);
/// The keys that all rows see under a mask that is causal and nothing else: [0, first + 1).
KvRange causal_full(const Tile& first, const Tile& last, const Tile& kv_length);

/// Further tensors of a call, f32. Those left out are neither read nor written.
struct AttentionExtras {
  /// Out, [batch, heads, q_length]: the natural logarithm of the softmax's denominator; -inf for a
  /// row that sees no key. Of stick breaking: that of the weight that is left, 0 for such a row.
  /// Not with weights that are scores.
  Tensor lse = {};
  /// Out, like `lse`: the largest score of a row, sinks not among them; -inf without keys. Of
  /// softmax only, as sinks are.
  Tensor row_max = {};
  /// In, [heads]: the score of one more key of each head, whose value is 0: it counts in the
  /// denominator only (gpt-oss; Xiao et al. 2023, "attention sinks").
  Tensor sinks = {};
};

/// A callable attention. Copies share what was compiled. Throws CompileError for tensors that do
/// not fit. Under a mask whose block list is derived (`explain` says so), calls of one stream come
/// from one thread at a time: they share its memory for the list.
///
/// Tensors (bf16 or f16, all alike): Q [batch, heads, q_length, head_dim], K [batch, kv_heads,
/// kv_length, head_dim], V [batch, kv_heads, kv_length, value_dim], O [batch, heads, q_length,
/// value_dim]; any strides, the last dimension contiguous; heads is a multiple of kv_heads (grouped
/// queries); both head dims are multiples of 8 up to 256. A row that sees no key gives 0. Lengths
/// of any size; they vary without compiling. The same inputs give the same bits in every run.
/// Keys that a row does not see may hold anything; their values must be finite where the row's tile
/// visits their block, which multiplies them by weights of 0.
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
  /// head_dim], V [total kv, kv_heads, value_dim], O [total q, heads, value_dim]; lse and row_max
  /// [total q, heads]. Mask and score see the sequence's number as batch entry and positions within
  /// it. Rows of O behind the last sequence keep what they hold. Values must be finite, as those of
  /// the next sequence may be multiplied by weights of 0. Lengths, their number and max_q
  /// vary without compiling.
  void varlen(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
              const Tensor& O, const CuSeqlens& lengths, const AttentionExtras& extras = {},
              Loc at = std::source_location::current()) const;

  /// Plan, remarks, registers of what was compiled last for `dtype`.
  std::string explain(DType dtype = DType::bf16) const;
  std::string dump(std::string_view verb, DType dtype = DType::bf16) const;

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
