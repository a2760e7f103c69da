#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "tegula/kernels/block_list.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/tile_ops.h"
#include "tegula/value.h"

/// Attention with a mask and a score function given as lambdas, computed block by block with an
/// online softmax (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention").
namespace tegula {

/// Positions [lo, hi) of keys and values.
struct KvRange {
  Tile lo, hi;
};

/// What attention computes, beside its tensors. All lambdas are traced: their arguments are integer
/// tiles that broadcast against each other (batch, head, query position, key/value position).
struct AttentionSpec {
  /// True where the query may see the key. Default: everywhere. Blocks of keys that no row of a
  /// tile sees are left out, as far as `range`, `full`, `blocks` or what the mask computes tells.
  std::function<Tile(Tile b, Tile h, Tile q, Tile kv)> mask = {};
  /// New score from the scaled score s = scale * q.k (f32). Default: s.
  std::function<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)> score = {};
  /// Narrows the loop over keys for query rows [first, last]; must contain all that `mask` lets
  /// through. Default: without `full`, what is derived from the mask; else all keys.
  std::function<KvRange(Tile first, Tile last, Tile kv_length)> range = {};
  /// Keys that all query rows [first, last] see, so that the mask need not be computed there.
  /// Default: without `range`, what is derived from the mask; else none where there is a mask.
  std::function<KvRange(Tile first, Tile last, Tile kv_length)> full = {};
  /// The blocks of keys to visit, where only the device knows them; `mask` is computed in those
  /// that are not full. Excludes `range` and `full`.
  std::optional<BlockList> blocks = {};
  /// Softmax temperature, positive; default 1 / sqrt(head dim).
  std::optional<float> scale = {};
};

/// The keys a causal mask lets through: [0, last + 1); a `range` of every mask that is at least
/// causal.
KvRange causal_range(const Tile& first, const Tile& last, const Tile& kv_length);
/// The keys that all rows see under a mask that is causal and nothing else: [0, first + 1).
KvRange causal_full(const Tile& first, const Tile& last, const Tile& kv_length);

/// A callable attention. Copies share what was compiled.
///
/// Tensors (bf16 or f16, all alike): Q [batch, heads, q_length, head_dim], K and V [batch,
/// kv_heads, kv_length, head_dim], O like Q; any strides, head_dim contiguous; heads is a multiple
/// of kv_heads (grouped queries). Lse: f32 [batch, heads, q_length], the natural logarithm of the
/// softmax's denominator. A row that sees no key gives 0 and -inf. Lengths of any size; they vary
/// without compiling. Throws CompileError for tensors that do not fit.
class Attention {
 public:
  explicit Attention(AttentionSpec spec);

  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O, const Tensor& Lse) const;
  void operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                  const Tensor& O) const;
  void operator()(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O) const;

  /// Plan, remarks, registers of what was compiled last for `dtype`.
  std::string explain(DType dtype = DType::bf16) const;
  std::string dump(std::string_view verb, DType dtype = DType::bf16) const;

 private:
  struct Kernels;
  std::shared_ptr<const Kernels> kernels_;
};

inline Attention attention(AttentionSpec spec) { return Attention(std::move(spec)); }

}  // namespace tegula
