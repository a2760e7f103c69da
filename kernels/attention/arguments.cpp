#include "kernels/attention/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernels/argument_error.h"
#include "kernels/attention/cache_arguments.h"
#include "kernels/attention/query_rows.h"
#include "tegula/attention_tiles.h"

namespace tegula::kernels {
namespace {

/// Largest number of queries per head that are packed by default: tiles would be nearly empty.
constexpr std::int64_t kFewQueries = 16;
/// Rows of the smallest tile, and largest number of tiles (i32).
constexpr std::int64_t kMinRows = 16, kMaxTiles = (std::int64_t{1} << 31) - 1;

struct NamedTensor {
  const char* name;
  const Tensor& tensor;
};

void same(const char* what, NamedTensor a, int a_dim, NamedTensor b, int b_dim) {
  if (a.tensor.size(a_dim) != b.tensor.size(b_dim))
    throw_argument_error(ErrorId::attention_sizes, what, a.name, a.tensor.str(), b.name,
                         b.tensor.str(), what);
}

/// Returns how to proceed with a head dim that is not supported. The columns of V are independent,
/// the scores need those of Q and K together.
std::string head_dim_hint(std::string_view name, std::int64_t n) {
  if (n <= kMaxHeadDim)
    return fmt::format("pad the last dimension with zeros to {}",
                       std::max<std::int64_t>(1, (n + 7) / 8) * 8);
  if (name == "V")
    return fmt::format(
        "split V and O by slice() into parts of at most {} columns, one call for each with the "
        "same Q and K",
        +kMaxHeadDim);
  return "write a kernel that sums the scores over parts of Q and K, like that of docs/triton.md, "
         "06";
}

/// Dimensions of a layout; -1 if it does not have that dimension.
struct Layout {
  int rank, batch, heads, length;
  const char* shape;
};
constexpr Layout kDense{4, 0, 1, 2, "[batch, heads, length, head_dim]"},
    kVarlen{3, -1, 1, 0, "[total length, heads, head_dim]"};

bool is_attended(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Checks that the tensor has Q's type (also applied to Q itself).
void check_type(NamedTensor Q, NamedTensor t) {
  const DType type = Q.tensor.dtype();
  if (!is_attended(type))
    throw_argument_error(ErrorId::attention_type, fmt::format("Q is {}", Q.tensor.str()),
                         "Q, K and V to bf16 by cast(DType::bf16), and allocate O as bf16");
  if (t.tensor.dtype() == type) return;
  const bool is_result = std::string_view(t.name) == "O";
  throw_argument_error(ErrorId::attention_type,
                       fmt::format("Q is {}, {} is {}", Q.tensor.str(), t.name, t.tensor.str()),
                       is_result
                           ? fmt::format("the result afterwards, and allocate O as {}", name(type))
                           : fmt::format("{} by cast(DType::{})", t.name, name(type)));
}

struct NamedDim {
  const char* name;
  std::int64_t extent;
};

void check_heads(NamedDim dim, NamedDim dim_v, std::int64_t heads, std::int64_t kv_heads) {
  for (const auto& [name, n] : {dim, dim_v})
    if (n <= 0 || n % 8 != 0 || n > kMaxHeadDim)
      throw_argument_error(ErrorId::head_dim, name, n, +kMaxHeadDim, head_dim_hint(name, n));
  if (!(kv_heads > 0 && heads % kv_heads == 0))
    throw_argument_error(ErrorId::head_groups, heads, kv_heads);
}

void check_tensors(const Layout& l, NamedTensor Q, NamedTensor K, NamedTensor V, NamedTensor O) {
  for (const NamedTensor& t : {Q, K, V, O}) {
    if (t.tensor.rank() != l.rank)
      throw_argument_error(ErrorId::attention_rank, t.name, t.tensor.str(), l.rank, l.shape);
    check_type(Q, t);
  }
  const int dim = l.rank - 1;
  if (l.batch >= 0)
    for (const NamedTensor& t : {K, V, O}) same("batch sizes", Q, l.batch, t, l.batch);
  same("numbers of heads", K, l.heads, V, l.heads);
  same("numbers of heads", Q, l.heads, O, l.heads);
  same("lengths", K, l.length, V, l.length);
  same("lengths", Q, l.length, O, l.length);
  same("head dims", Q, dim, K, dim);
  same("head dims", V, dim, O, dim);
  check_heads({Q.name, Q.tensor.size(dim)}, {V.name, V.tensor.size(dim)}, Q.tensor.size(l.heads),
              K.tensor.size(l.heads));
}

void check_extra(NamedTensor t, DType dtype, const Dims& shape) {
  if (!t.tensor.defined()) return;
  if (t.tensor.dtype() != dtype || t.tensor.shape() != shape)
    throw_argument_error(ErrorId::attention_extra, t.name, t.tensor.str(), name(dtype),
                         shape.str());
}

/// Lse and row_max have the shape `rows`.
void check_extras(const AttentionExtras& x, const Dims& rows, std::int64_t heads) {
  check_extra({"lse", x.lse}, DType::f32, rows);
  check_extra({"row_max", x.row_max}, DType::f32, rows);
  check_extra({"sinks", x.sinks}, DType::f32, {heads});
}

/// Returns whether the heads of a group are rows of a tile together with up to `longest` queries:
/// by default, if there is one query or if the rows `are_few`.
bool packs_queries(std::int64_t longest, bool are_few, const Tensor& K, const Tensor& V,
                   std::optional<bool> wanted) {
  const bool may_pack = longest <= 1 || can_gather_queries(K.size(3), V.size(3));
  return may_pack && wanted.value_or(longest <= 1 || are_few);
}

/// Returns a view of the elements with other extents and strides, valid during a call: the caller's
/// tensor keeps the memory alive.
Tensor with_strides(const Tensor& t, const Dims& shape, const Dims& strides) {
  return Tensor::borrow(t.data(), shape, t.dtype(), t.device(), strides);
}

}  // namespace

std::int64_t check_sequences(std::int64_t sequences, std::int64_t heads, std::int64_t max_seqlen_q,
                             std::int64_t total) {
  if (sequences > kMaxSequences)
    throw_argument_error(ErrorId::too_many_sequences, sequences, +kMaxSequences);
  if (max_seqlen_q < 0) throw_argument_error(ErrorId::longest_sequence, max_seqlen_q);
  // max_seqlen_q may be a model's limit: no sequence is longer than the total length.
  const std::int64_t longest = std::min(max_seqlen_q, total);
  // Fallback flags are indexed by sequence, head and tile within the longest sequence.
  if (sequences * heads * (longest / kMinRows + 1) > kMaxTiles)
    throw_argument_error(ErrorId::varlen_tiles, +kMinRows);
  return longest;
}

Tensor as_batch(const Tensor& t) {
  if (!t.defined()) return t;
  Dims shape{1, t.size(1), t.size(0)}, strides{t.stride(0), t.stride(1), t.stride(0)};
  if (t.rank() == 3) {
    shape.push_back(t.size(2));
    strides.push_back(t.stride(2));
  }
  return with_strides(t, shape, strides);
}

std::optional<Tensor> grouped(const Tensor& t, std::int64_t kv_heads) {
  if (!t.defined()) return t;
  const std::int64_t length = t.size(2), group = t.size(1) / kv_heads;
  const std::int64_t step = length == 1 ? t.stride(1) : t.stride(2);
  if (t.stride(1) != length * step) return std::nullopt;
  Dims shape{t.size(0), kv_heads, group * length}, strides{t.stride(0), group * t.stride(1), step};
  if (t.rank() == 4) {
    shape.push_back(t.size(3));
    strides.push_back(t.stride(3));
  }
  return with_strides(t, shape, strides);
}

AttentionCall dense_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                         const AttentionExtras& extras) {
  check_tensors(kDense, {"Q", Q}, {"K", K}, {"V", V}, {"O", O});
  check_extras(extras, {Q.size(0), Q.size(1), Q.size(2)}, Q.size(1));
  return {Q, K, V, O, extras, {}};
}

AttentionCall varlen_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                          const CuSeqlens& lengths, const AttentionExtras& extras) {
  check_tensors(kVarlen, {"Q", Q}, {"K", K}, {"V", V}, {"O", O});
  for (const NamedTensor& t :
       {NamedTensor{"cu_seqlens of q", lengths.q}, {"cu_seqlens of kv", lengths.kv}})
    if (!(t.tensor.defined() && t.tensor.dtype() == DType::i32 && t.tensor.rank() == 1 &&
          t.tensor.size(0) > 0 && t.tensor.size(0) == lengths.q.size(0)))
      throw_argument_error(ErrorId::cu_seqlens, t.name,
                           t.tensor.defined() ? t.tensor.str() : "no tensor");
  const std::int64_t longest =
      check_sequences(lengths.q.size(0) - 1, Q.size(1), lengths.max_seqlen_q, Q.size(0));
  check_extras(extras, {Q.size(0), Q.size(1)}, Q.size(1));
  return {as_batch(Q),
          as_batch(K),
          as_batch(V),
          as_batch(O),
          {as_batch(extras.lse), as_batch(extras.row_max), extras.sinks},
          {lengths.q, lengths.kv, longest},
          false,
          static_cast<std::int32_t>(longest)};
}

Tensor as_pages(const Tensor& t) {
  return t.defined() ? with_strides(t, {t.size(0), t.size(2), t.size(1), t.size(3)},
                                    {t.stride(0), t.stride(2), t.stride(1), t.stride(3)})
                     : t;
}

Tensor as_groups(const Tensor& t, std::int64_t kv_heads) {
  if (!t.defined()) return t;
  const std::int64_t group = t.size(1) / kv_heads;
  Dims shape{t.size(0), kv_heads, group}, strides{t.stride(0), group * t.stride(1), t.stride(1)};
  if (t.rank() == 3) shape.push_back(t.size(2)), strides.push_back(t.stride(2));
  return with_strides(t, shape, strides);
}

AttentionCall paged_call(const Tensor& Q, const KvCache& cache, const Tensor& O,
                         const KvBatch& batch, const AttentionExtras& extras,
                         std::optional<bool> pack_gqa) {
  check_cache("attention", cache, batch);
  for (const NamedTensor& t : {NamedTensor{"Q", Q}, {"O", O}}) {
    if (t.tensor.rank() != kVarlen.rank)
      throw_argument_error(ErrorId::attention_rank, t.name, t.tensor.str(), kVarlen.rank,
                           kVarlen.shape);
    check_type({"Q", Q}, t);
  }
  const Tensor K = as_pages(cache.k), V = as_pages(cache.v);
  check_type({"Q", Q}, {"the cache", K});
  same("lengths", {"Q", Q}, 0, {"O", O}, 0);
  same("numbers of heads", {"Q", Q}, 1, {"O", O}, 1);
  if (Q.size(2) != K.size(3))
    throw_argument_error(ErrorId::attention_sizes, "head dims", "Q", Q.str(), "the cache's k",
                         cache.k.str(), "head dims");
  if (O.size(2) != V.size(3))
    throw_argument_error(ErrorId::attention_sizes, "head dims", "O", O.str(), "the cache's v",
                         cache.v.str(), "head dims");
  check_heads({"Q", Q.size(2)}, {"V", V.size(3)}, Q.size(1), K.size(1));
  const std::int64_t kv_heads = K.size(1),
                     longest = check_sequences(batch.kv_lengths.size(0), Q.size(1),
                                               batch.max_seqlen_q, Q.size(0)),
                     room = (cache.table.defined() ? cache.table.size(1) : 1) * K.size(2);
  check_extras(extras, {Q.size(0), Q.size(1)}, Q.size(1));
  const bool packs =
      packs_queries(longest, longest * (Q.size(1) / kv_heads) <= kSmallQBlock, K, V, pack_gqa);
  const auto rows = [&](const Tensor& t) { return packs ? as_groups(t, kv_heads) : as_batch(t); };
  return {rows(Q),
          K,
          V,
          rows(O),
          {rows(extras.lse), rows(extras.row_max), extras.sinks},
          {batch.q_offsets, {}, longest},
          packs,
          static_cast<std::int32_t>(packs ? std::max<std::int64_t>(longest, 1) : longest),
          true,
          room,
          batch.schedule.defined(),
          cache.table.defined()};
}

Tile checked_mask(const Tile& mask) {
  if (is_float(mask.dtype()))
    throw_argument_error(ErrorId::kernel_argument, "attention", "the result of `mask`",
                         name(mask.dtype()),
                         "a comparison, true where the query attends to the key; what is added to "
                         "scores is a `score`");
  return mask;
}

void require_keys_for_queries(const Tensor& Q, const Tensor& K) {
  if (Q.size(2) > K.size(2)) throw_argument_error(ErrorId::align_bottom_right, Q.str(), K.str());
}

AttentionCall with_packed_gqa(AttentionCall call, std::optional<bool> wanted) {
  const std::int64_t kv_heads = call.K.size(1), length = call.Q.size(2);
  if (call.Q.size(1) == kv_heads || length == 0 || !wanted.value_or(length <= kFewQueries))
    return call;
  const auto Q = grouped(call.Q, kv_heads), O = grouped(call.O, kv_heads),
             lse = grouped(call.extras.lse, kv_heads),
             row_max = grouped(call.extras.row_max, kv_heads);
  if (!Q || !O || !lse || !row_max) return call;
  return {*Q,
          call.K,
          call.V,
          *O,
          {*lse, *row_max, call.extras.sinks},
          {},
          true,
          static_cast<std::int32_t>(length)};
}

AttentionCall with_packed_queries(AttentionCall call, std::optional<bool> wanted) {
  const std::int64_t kv_heads = call.K.size(1), group = call.Q.size(1) / kv_heads,
                     longest = call.lengths.max_seqlen_q,
                     most = group > 1 ? kSmallQBlock : kMaxRowsInN;
  // A bound of 0 promises no queries, and costs nothing unpacked.
  if (longest == 0 || !packs_queries(longest, longest * group <= most, call.K, call.V, wanted))
    return call;
  for (Tensor* t : {&call.Q, &call.O, &call.extras.lse, &call.extras.row_max})
    if (t->defined()) *t = as_groups(t->select(0, 0).transpose(0, 1), kv_heads);
  call.pack_gqa = true;
  return call;
}

}  // namespace tegula::kernels
