#pragma once
#include <memory>
#include <optional>
#include <source_location>
#include <vector>

#include "tegula/attention_config.h"
#include "tegula/block_mask.h"
#include "tegula/derivative.h"
#include "tegula/kernels/block_list.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/lambda.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/tile_ops.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Attention with a mask and a score function given as lambdas, computed block by block with an
/// online softmax (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention").
namespace tegula::kernels {

/// Reference that the exponents of a row are relative to while kv blocks are processed.
enum class Rescaling : std::uint8_t {
  /// `never` where the heuristics expect it to be faster, from the call's size, mask, score and
  /// type (docs/attention.md), else `exact`.
  automatic,
  exact,  ///< the largest score so far
  /// A reference that the maximum may exceed by a factor of 2^8: accumulator and row sum are rarely
  /// rescaled, and grow up to 2^8 times as large as with `exact`. Errors are 3 % larger, as with
  /// `never` (Dao et al. 2025, FlashAttention-4). A call with `row_max` uses `exact`.
  lazy,
  /// The largest score of the first kv block that a query tile visits: later iterations compute no
  /// maximum. Rows whose sums leave the range of floats are detected, and a second kernel, which
  /// otherwise exits at once, recomputes their tiles (and some others) with `exact` (Hong et al.
  /// 2023, FlashDecoding++). Errors are 1 to 5 % larger because the largest weight of a row is not
  /// 1, which bf16 represents exactly. Calls with `row_max`, block lists, a given kv range, packed
  /// heads or split-KV use `exact`.
  never,
};

/// How scores are turned into the weights of values.
enum class AttentionNormalization : std::uint8_t {
  softmax,  ///< e^s, divided by the sum of the row
  /// The scores themselves, 0 for masked keys. The score function is then an activation, such as
  /// sigmoid(s - log(length)) (Ramapuram et al. 2024) or the square of max(s, 0).
  none,
  /// Each key takes the share sigmoid(s) of the weight that later keys leave of the row's total 1
  /// (Tan et al. 2024, "Scaling Stick-Breaking Attention"). Near keys come first, without a
  /// positional encoding. The mask defines which keys are later: usually a causal one, with or
  /// without the diagonal. Keys are visited in order, so block lists are not used: under a mask
  /// that needs a list, all blocks between the first and the last visited one are computed.
  stick_breaking,
};

/// Definition of an attention, apart from its tensors. All lambdas are traced: their arguments are
/// integer tiles (batch, head, query position, key/value position) that broadcast against each
/// other.
struct AttentionSpec {
  /// Returns true if the query may attend to the key; an integer is true if it is not 0, a float is
  /// an error. Default: all pairs. Empty kv blocks of a tile are skipped if the kv ranges, the
  /// block list or the mask itself reveal them. A captured tensor that an argument indexes directly
  /// has an entry for each batch entry, head or position (T1664).
  Lambda<Tile(Tile b, Tile h, Tile q, Tile kv)> mask = {};
  /// Returns a new score from the scaled score s = scale * q.k (f32). Default: s. Its float
  /// arithmetic may be reassociated, so results are accurate but not bit-identical to the code as
  /// written. A score `where(condition, x, -INFINITY)`, whose condition does not depend on s, is
  /// treated as x under a mask, unless kv ranges or a block list are given.
  Lambda<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)> score = {};
  /// Range of keys that the loop visits for query rows [first, last]; it must contain all keys that
  /// `mask` keeps. Default: derived from the mask if `full_kv_range` is absent, else all keys.
  Lambda<KvRange(Tile first, Tile last, Tile seqlen_kv)> kv_range = {};
  /// Keys that all query rows [first, last] attend to, for which the mask is not computed. Default:
  /// derived from the mask if `kv_range` is absent, else none if there is a mask.
  Lambda<KvRange(Tile first, Tile last, Tile seqlen_kv)> full_kv_range = {};
  /// The kv blocks to visit, for masks that are known on the device only; `mask` is computed in the
  /// partial blocks. Cannot be combined with kv ranges; heads are not packed.
  std::optional<BlockList> blocks = {};
  /// Factor of the scores, positive and finite; default 1 / sqrt(head dim).
  std::optional<float> scale = {};
  /// Queries are the last positions of their sequence, so mask and score receive position q +
  /// seqlen_kv - seqlen_q: for prefill chunks and for decoding with a cache (causal masks are then
  /// aligned bottom right). No sequence may have more queries than keys.
  bool align_bottom_right = false;
  AttentionNormalization weighting = AttentionNormalization::softmax;  ///< meaning of scores
};

/// Numerical choices, which change the last bits of results.
struct AttentionNumerics {
  /// Rescaling of the online softmax.
  Rescaling rescaling = Rescaling::automatic;
  /// Gives all results of `backward` equal bits in every run. A second launch then computes dQ in a
  /// loop over keys for each tile of queries, instead of adding to memory
  /// (docs/attention-backward.md). Calls for which no such order is implemented throw (T1662).
  bool deterministic = false;
};

/// Scheduling choices. Attention chooses the fields that are left empty for each call.
struct AttentionSchedule {
  /// For measurements. Default: chosen from head dims, lengths, mask and score. 16, 32, 64, 128 or
  /// 192 queries; a multiple of 16 keys, up to 224. Ignored under block lists, also derived ones;
  /// calls with given tiles evaluate no mask for a list. A few rows of packed heads keep their 64.
  std::optional<AttentionTileShape> tiles = {};
  /// Whether a query tile holds all heads of a GQA group, so that their keys are read once.
  /// Default: on for up to 16 queries per head; in `paged` and `varlen`, for one query or up to 64
  /// rows of a group, but in `varlen` up to 32 if a group has one head; in `paged`, also for the
  /// requests with few queries of a mixed step with a work list. Ignored for several queries in
  /// `paged` and `varlen` with large head dims (docs/serving.md), in `varlen` under block lists,
  /// with `tiles` and with other normalizations than softmax, and in dense calls for groups of one
  /// head or rows of a group that are not evenly spaced in memory.
  std::optional<bool> pack_gqa = {};
  /// Whether derived block lists order the query tiles by descending number of visited blocks, over
  /// all heads, which balances uneven work (`tegula mask --order`). Adds one small kernel. Default:
  /// on if an SM has few tiles, and there are so many keys that one tile may take much longer than
  /// the others.
  std::optional<bool> longest_first = {};
  /// Whether tensors that `score` reads at each pair (b, h, q, kv), such as a full bias, are loaded
  /// as tiles by TMA (sm_90), if their last dimension is contiguous and other strides and the
  /// address are multiples of 16 bytes. Otherwise threads load them element by element, in smaller
  /// kv blocks, which changes last bits.
  bool tma_aux_loads = true;
  /// Number of programs, 1 or an even number up to 256, that split the keys of a tile of up to 64
  /// rows (one head's queries, or those of its packed heads). Default: if there are many keys and
  /// few tiles, the number that a cost model predicts to be fastest. The programs form one cluster,
  /// or several of up to 8, and combine their softmaxes. Several are used only if the clusters of
  /// all tiles are co-resident. Ignored with more queries, with `tiles`, under block lists, with
  /// other normalizations than softmax, and for other targets than sm_90a. Calls of packed heads in
  /// `varlen` and `paged` divide keys by a work list instead: 1 turns it off, and any other number
  /// turns it on in `varlen`. Default there: if sequences have many keys on average.
  std::optional<int> split_kv = {};
  /// For measurements: whether `paged` and `varlen` calls of packed heads have the keys of a block
  /// in M of the MMAs and the rows of a request in N. Default: if a request has at most 32 rows,
  /// which M would pad to 64. More rows, `tiles` and other normalizations than softmax have rows in
  /// M.
  std::optional<bool> keys_in_m = {};
};

/// Returns the keys that a causal mask keeps, [0, last + 1): a valid `kv_range` for every mask that
/// implies a causal one.
KvRange causal_range(const Tile& first, const Tile& last, const Tile& seqlen_kv);
/// Returns the keys that all rows attend to under a purely causal mask: [0, first + 1).
KvRange causal_full(const Tile& first, const Tile& last, const Tile& seqlen_kv);

/// The blocks that have a row each in a list that an attention makes.
enum class BlockListRows : std::uint8_t {
  queries,  ///< a row contains the kv blocks of a query block, as AttentionSpec::blocks does
  /// The transposed list: a row contains the query blocks of a kv block, for kernels that loop over
  /// the queries of each kv block. Full and partial blocks, and the meaning of block_q and
  /// block_kv, are the same; a query block that extends beyond seqlen_q is never full.
  keys,
};

/// Optional f32 tensors of a call. Undefined tensors are neither read nor written.
struct AttentionExtras {
  /// Output, [batch, heads, seqlen_q]: natural logarithm of the softmax's denominator, -inf for a
  /// row without keys. With stick breaking: logarithm of the remaining weight, 0 for such a row.
  /// Not available with AttentionNormalization::none.
  Tensor lse = {};
  /// Output, shaped like `lse`: the largest score of each row, excluding sinks; -inf without keys.
  /// Supported for softmax only, as are sinks.
  Tensor row_max = {};
  /// Input, [heads]: the score of one additional key per head, whose value is 0. It only adds to
  /// the denominator (gpt-oss; Xiao et al. 2023, "attention sinks").
  Tensor sinks = {};
};

/// Results of the forward call, whose specification and inputs are those of the backward call.
struct AttentionSaved {
  Tensor O, lse = {};  ///< its results; lse: only with softmax
  Tensor sinks = {};   ///< its sinks, if it had some
  /// The blocks of queries that attend to each block of keys (BlockListRows::keys), of 64 or 128
  /// queries and 128 keys. Required if the specification has `blocks`, of which it is the
  /// transposed list; otherwise optional, for calls that share a list. Rows are tiles of keys.
  std::optional<BlockList> blocks = {};
};

/// Gradients of the loss with respect to the results of the forward call.
struct AttentionGradients {
  Tensor O;         ///< shaped like O, of its type; any strides
  Tensor lse = {};  ///< f32, shaped like lse; undefined: 0. Ignored in rows without keys.
};

/// The gradient of a tensor or Scalar of floats that the score function captures.
struct CapturedGradient {
  /// `of` is the captured tensor or a copy of its handle: same memory, type, shape and strides.
  CapturedGradient(const Tensor& of, const Tensor& gradient) : tensor(of), into(gradient) {}
  /// `of` is the captured Scalar or a copy, which shares its number.
  template <Element T>
  CapturedGradient(const Scalar<T>& of, const Tensor& gradient)
      : scalar(of.cell()), into(gradient) {}

  Tensor tensor;
  std::shared_ptr<tegula::detail::ScalarCell> scalar;  ///< null for a tensor
  /// f32, or bf16 or f16 if the captured value is. Shaped like the tensor, which has at most four
  /// dimensions; one element for a Scalar.
  Tensor into;
};

/// Outputs of a backward call: the gradients of its inputs. Undefined ones are not computed.
struct AttentionInputGradients {
  Tensor Q = {}, K = {}, V = {};  ///< shaped like the inputs, of their type
  Tensor sinks = {};              ///< f32 [heads]
  /// At most 8. A value that the score reads several times has one gradient, the sum.
  std::vector<CapturedGradient> captured = {};
};

/// A callable attention, usually made by `attention`:
///
///     const Attention attn = attention({.mask = masks::causal()});
///     attn(stream, Q, K, V, O, {.lse = lse});
///
/// Copies share compiled kernels. Several threads may call on the same stream: a call that uses the
/// stream's memory, such as for a derived block list (see `explain`), holds a lock of the stream
/// until its launches are queued. Calls throw CompileError for invalid tensors: T1601 to T1611,
/// T1616, T1617, and T1620, T1621 for block lists.
///
/// Tensors (all bf16 or all f16): Q [batch, heads, seqlen_q, head_dim], K [batch, kv_heads,
/// seqlen_kv, head_dim], V [batch, kv_heads, seqlen_kv, head_dim_v], O [batch, heads, seqlen_q,
/// head_dim_v]. Strides are arbitrary, but the last dimension is contiguous. heads is a multiple of
/// kv_heads (GQA); both head dims are multiples of 8 up to 256. A row without keys gives 0. Lengths
/// are arbitrary and may change without recompilation. Results are bitwise reproducible. Masked
/// keys may have any contents, and so may values before and after the keys that the queries of a
/// tile attend to. Other masked values must be finite if the tile visits their block, because they
/// are multiplied by weights of 0 (docs/attention.md, "Hidden values").
class Attention {
 public:
  /// Compiles nothing yet. Throws CompileError (T1612 to T1615, T1618, T1622) for an invalid or
  /// contradictory specification.
  explicit Attention(AttentionSpec spec, AttentionSchedule schedule = {},
                     AttentionNumerics numerics = {}, Loc at = std::source_location::current());

  /// Computes O from Q, K and V, and the tensors of `extras` that are defined.
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, const AttentionExtras& extras,
                  Loc at = std::source_location::current()) const;
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, Loc at = std::source_location::current()) const;
  void operator()(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                  Loc at = std::source_location::current()) const;
  /// Also stores the log-sum-exp to `Lse` (AttentionExtras::lse).
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, const Tensor& Lse,
                  Loc at = std::source_location::current()) const;

  /// Sequences of different lengths: Q [total q, heads, head_dim], K [total kv, kv_heads,
  /// head_dim], V [total kv, kv_heads, head_dim_v], O [total q, heads, head_dim_v]; lse and row_max
  /// [total q, heads]. Mask and score receive the sequence's index as `b`, and positions in it.
  /// `lengths.max_seqlen_q` may be any bound of the sequences' queries, but few queries are found
  /// by it (T1691 on `cpu` and `sim` if a sequence of a call with packed heads has more). Rows of O
  /// after the last sequence are not written, and keys and values after it may have any contents.
  /// Lengths, their number and max_seqlen_q may change without recompiling, and a recorded graph
  /// may be replayed with other lengths. With few queries per sequence, heads of a group share a
  /// tile (pack_gqa), and a list that the call writes on the device divides the keys of long
  /// sequences (split_kv).
  void varlen(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
              const Tensor& O, const CuSeqlens& lengths, const AttentionExtras& extras = {},
              Loc at = std::source_location::current()) const;

  /// Attends to the keys and values of a paged KV cache: Q [rows, heads, head_dim], O [rows, heads,
  /// head_dim_v]; lse and row_max [rows, heads]. Mask and score receive the request's index as `b`,
  /// and positions in the request, as with `align_bottom_right`. Keys at or beyond kv_lengths are
  /// not read. Rows of O after the last request's are not written. A query without keys gives 0.
  /// Launches depend only on extents and on `max_seqlen_q`, so a recorded graph may be replayed
  /// with other lengths, offsets, tables and contents. A step of prompts and decoding requests with
  /// a work list makes two launches, one for either kind. Block lists are not supported (T1688): a
  /// mask that needs one visits all keys of its range. Throws CompileError also for T1680 to T1683;
  /// `cpu` and `sim` report T1687, T1689 to T1691 and T1693 (docs/serving.md).
  void paged(const Stream& stream, const Tensor& Q, const KvCache& cache, const Tensor& O,
             const KvBatch& batch, const AttentionExtras& extras = {},
             Loc at = std::source_location::current()) const;

  /// Writes `schedule`, which distributes the work of requests with few queries over the device,
  /// for all `paged` calls with the same batch, numbers of heads, head dims and rows of a page:
  /// once for all layers of a model. In a step that also has prompts, the list contains the others
  /// only, and calls must have the same offsets. Only shapes, types and the device of Q and the
  /// cache are used. Lengths may change after it; results remain correct, but the work may be less
  /// balanced. Throws CompileError as `paged` does, and T1662.
  void schedule(const Stream& stream, const Tensor& Q, const KvCache& cache, const KvBatch& batch,
                const Tensor& schedule, Loc at = std::source_location::current()) const;

  /// Computes the gradients of the inputs of a dense call, by recomputing its weights (Dao et al.
  /// 2022). `dQ` is summed over blocks of keys in f32, in an order that differs from run to run, so
  /// its last bits may differ unless AttentionNumerics::deterministic is set; dK and dV are bitwise
  /// reproducible. A query without keys gets 0. Gradients follow from the specification: the mask's
  /// analysis, with the roles of queries and keys exchanged, gives the blocks to visit, and the
  /// score function is differentiated (derivative.h; T1022 at its line where that is impossible).
  /// Tensors and Scalars that the score captures get gradients, too (CapturedGradient). Weights are
  /// a softmax, or the scores themselves, which need neither lse nor sinks. Scratch memory, from
  /// the stream: 8 + 4 d bytes for each query of each head, whose number is padded to a multiple of
  /// 64; d is 0 if it is deterministic, else the head dim, rounded up to a sum of one or two powers
  /// of two from 16 on (72 to 80, 100 to 128). Throws CompileError for invalid tensors (as the
  /// forward call), and for tensors and specifications without gradients (T1662).
  ///
  ///     attn(stream, Q, K, V, O, {.lse = lse});
  ///     attn.backward(stream, Q, K, V, {.O = O, .lse = lse}, {.O = dO},
  ///                   {.Q = dQ, .K = dK, .V = dV});
  void backward(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                const AttentionSaved& saved, const AttentionGradients& of,
                const AttentionInputGradients& into,
                Loc at = std::source_location::current()) const;

  /// Does the same for packed sequences (`varlen`): gradients are shaped like the packed tensors,
  /// that of lse is [total q, heads]. Rows that no sequence has are neither read nor written. The
  /// workspace also has copies of Q, K and dO, with up to 64 more queries and 128 more keys for
  /// each sequence.
  void varlen_backward(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                       const CuSeqlens& lengths, const AttentionSaved& saved,
                       const AttentionGradients& of, const AttentionInputGradients& into,
                       Loc at = std::source_location::current()) const;

  /// Returns the list of the blocks in which the mask keeps pairs, made by evaluating the mask for
  /// all pairs of a query of `Q` [batch, heads, seqlen_q, head_dim] and a key of `K` [batch,
  /// kv_heads, seqlen_kv, head_dim], of which only shape, type and device are used. Positions
  /// beyond the sequences make no block partial, except that a block that extends beyond seqlen_kv
  /// is never full, as the format requires. The list fits calls with these extents, of attentions
  /// with the same mask and alignment (`AttentionSpec::blocks`), such as all layers of a model.
  /// Blocks have the tile shape of attention with head_dim_v = head_dim, or that of the spec's own
  /// list; with BlockListRows::keys, 64 queries and 128 keys, as `backward` requires. i32:
  /// kv_indices [batch or 1, heads or 1, blocks of rows, capacity], kv_num_blocks and
  /// full_kv_num_blocks without the capacity; extents are 1 if the mask does not read the batch
  /// entry or the head. Allocates the tensors and launches two kernels on the stream, without
  /// waiting. Throws CompileError for invalid tensors (T1601 to T1605, T1611), with stick breaking
  /// (T1614), and if the spec has kv ranges (T1615).
  BlockList block_list(const Stream& stream, const Tensor& Q, const Tensor& K,
                       BlockListRows rows = BlockListRows::queries,
                       Loc at = std::source_location::current()) const;
  /// Overwrites a list of the same extents, such as one that block_list returned, after tensors
  /// that the mask reads have changed. Allocates no tensors, so a CUDA graph can record it. Also
  /// throws T1620 to T1622 if the list does not fit.
  void write_block_list(const Stream& stream, const Tensor& Q, const Tensor& K,
                        const BlockList& list, BlockListRows rows = BlockListRows::queries,
                        Loc at = std::source_location::current()) const;

  /// Returns a report on the last compiled kernel for `dtype`: plan, remarks, registers; and on
  /// that of the backward pass, if it was called. Throws CompileError (T0705) before the first
  /// call.
  std::string explain(DType dtype = DType::bf16, Loc at = std::source_location::current()) const;
  /// Returns the text of a stage of that kernel's compilation (see Kernel::dump).
  std::string dump(std::string_view verb, DType dtype = DType::bf16,
                   Loc at = std::source_location::current()) const;

 private:
  struct Kernels;
  std::shared_ptr<const Kernels> kernels_;
};

/// Makes an attention from its specification. Keep the result: it owns the compiled kernels.
inline Attention attention(AttentionSpec spec, AttentionSchedule schedule = {},
                           AttentionNumerics numerics = {},
                           Loc at = std::source_location::current()) {
  return Attention(std::move(spec), schedule, numerics, at);
}

}  // namespace tegula::kernels
