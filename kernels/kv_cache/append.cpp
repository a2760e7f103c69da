// Stores the keys and values of a step into the pages of its requests.
#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/cache_arguments.h"
#include "kernels/attention/query_rows.h"
#include "kernels/float_types.h"
#include "kernels/rope/rotation.h"
#include "tegula/attention_tiles.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// A program copies rows of one head or, if each request has one query at most, one row of heads.
constexpr int kAppendedRows = 16, kAppendedHeads = 16;

struct StepRows {
  In<i32, 1> q_offsets, kv_lengths;
  std::optional<In<i32, 2>> table;
  std::optional<In<i64, 1>> slots;
};

/// Tables of a rotation, and the queries that are rotated too, from `Q` or in place.
template <class T>
struct Rotation {
  std::optional<In<f32, 2>> cos, sin;
  std::optional<In<i32, 1>> positions;
  std::optional<In<T, 3>> Q;
  std::optional<InOut<T, 3>> Q_out;
  RopePairs pairs;
};

/// The rows of a tile of the step's tokens, which are consecutive rows of one request.
struct TokenRows {
  Index rows, positions;
  Tile request, length;
};

TokenRows rows_of(const SequenceRange& request, const Index& m, const Tile& b) {
  const Index rows = request.queries(m).until(*request.q_end);
  return {rows, rows.shifted(request.seqlen_kv - *request.q_end), b, request.seqlen_kv};
}
/// Returns the only row of a request; an out-of-bounds row if it has none.
TokenRows row_of(const SequenceRange& request, const Tile& b) {
  tegula::detail::report_unless(*request.q_end - *request.q_first <= 1, "request",
                                "a request has more queries than max_seqlen_q", {});
  const Tile has_row = *request.q_first < *request.q_end, length = request.seqlen_kv;
  return {slice(where(has_row, *request.q_first, -1), 1), slice(where(has_row, length - 1, -1), 1),
          b, length};
}

Index all_columns(const View& of) { return slice(0, padded_head_dim(of.static_dim(2))); }

/// Returns a function that stores the rows of one head in a cache.
template <class T>
auto cache_rows(const InOut<T, 4>& into, const StepRows& step, const TokenRows& at,
                const Index& h) {
  into.static_dim(3);
  std::optional<PagedView<T, 3, InOut<T, 4>>> pages;
  Tile page, row;
  if (step.slots) {
    const Tile slot = fill_absent((*step.slots)(at.rows), -1);
    const i64 rows = into.static_dim(1);
    const Tile is_row = slot < cast<i64>(into.dim(0)) * rows;
    tegula::detail::report_unless(is_row, "page entry", "a slot is not a row of the cache", {});
    page = cast<i32>(where(slot >= 0 && is_row, slot / rows, -1));
    row = cast<i32>(slot % rows);
  } else {
    pages.emplace(paged(into, step.table, at.request, at.length));
  }
  return [=](const Index& columns, const Tile& values) {
    pages ? (*pages)(at.positions, h, columns) = values : into(page, row, h, columns) = values;
  };
}

/// Stores keys, values and queries of heads; those that a tensor lacks are absent there.
template <class T>
void append_heads(const In<T, 3>& K, const In<T, 3>& V, const StepRows& step,
                  const Rotation<T>& rotation, const InOut<T, 4>& k, const InOut<T, 4>& v,
                  const TokenRows& at, const Index& h) {
  const auto load = [&](const auto& from) {
    return [&](const Index& columns) -> Tile { return from(at.rows, h, columns); };
  };
  const auto store_k = cache_rows(k, step, at, h), store_v = cache_rows(v, step, at, h);
  store_v(all_columns(V), load(V)(all_columns(V)));
  if (!rotation.cos) return store_k(all_columns(K), load(K)(all_columns(K)));
  const int half = rotation.cos->static_dim(1), dim = K.static_dim(2);
  std::optional<Tile> given;
  if (rotation.positions) given = fill_absent((*rotation.positions)(at.rows), -1);
  const Angles angles =
      RopeTableViews{*rotation.cos, *rotation.sin}.of(at.positions, given, slice(0, half), false);
  const auto rotate = [&](const auto& from, const auto& store) {
    rotate_columns(rotation.pairs, half, dim, angles, load(from), store);
  };
  rotate(K, store_k);
  if (!rotation.Q_out) return;
  const auto store_q = [&](const Index& columns, const Tile& q) {
    (*rotation.Q_out)(at.rows, h, columns) = q;
  };
  rotation.Q ? rotate(*rotation.Q, store_q) : rotate(*rotation.Q_out, store_q);
}

template <class T>
auto append_kernel() {
  return kernel(
      "kv_append", [](In<T, 3> K, In<T, 3> V, const StepRows& step, const Rotation<T>& rotation,
                      InOut<T, 4> k, InOut<T, 4> v, bool is_decoding) {
        step.q_offsets.do_not_specialize(0), step.kv_lengths.do_not_specialize(0);
        K.do_not_specialize(0), V.do_not_specialize(0);
        if (step.slots) step.slots->do_not_specialize(0);
        if (rotation.positions) rotation.positions->do_not_specialize(0);
        if (rotation.Q) rotation.Q->do_not_specialize(0);
        if (rotation.Q_out) rotation.Q_out->do_not_specialize(0);
        const Tile heads = rotation.Q_out ? max(K.dim(1), rotation.Q_out->dim(1)) : K.dim(1);
        const auto append_rows = [&](const Tile& b, const std::optional<Index>& m, const Index& h) {
          const Tile length = fill_absent(step.kv_lengths(b), 0);
          const SequenceRange request = SequenceRange::request(step.q_offsets, length, b);
          const TokenRows at = m ? rows_of(request, *m, b) : row_of(request, b);
          append_heads(K, V, step, rotation, k, v, at, h);
        };
        if (is_decoding) {
          for (auto [b, h] : grid({step.kv_lengths.dim(0), heads}, 1, kAppendedHeads))
            append_rows(b, {}, h);
          return;
        }
        const VarlenTileScheduler tiles(step.q_offsets, kAppendedRows);
        for (auto [h, i] : grid({heads, tiles.count(K.dim(0))}, 1, 1)) {
          const auto [b, m] = tiles.at(i.first());
          append_rows(b, m, h);
        }
      });
}

void check_rows(const char* name, const Tensor& rows, const Tensor& cache, std::int64_t count) {
  require_tensor("append", name, rows, cache.dtype(), {count, cache.size(2), cache.size(3)});
}

void check_rotation(const KvAppend& how, const Tensor& K) {
  if (how.Q_out.defined() && !how.Q.defined())
    throw_argument_error(ErrorId::kernel_argument, "append", "Q_out", how.Q_out.str(),
                         "Q, whose rotation it receives");
  if (how.rope.cos.defined() || how.rope.sin.defined() || how.rope.positions.defined() ||
      how.Q.defined())
    check_rope_tables("append", how.rope, K.size(0), K.size(2), true);
  if (!how.Q.defined()) return;
  require_rank("append", "Q", how.Q, 3);
  require_tensor("append", "Q", how.Q, K.dtype(), {K.size(0), how.Q.size(1), K.size(2)});
  require_optional("append", "Q_out", how.Q_out, K.dtype(), how.Q.shape());
}

}  // namespace

void append(const Stream& stream, const Tensor& K, const Tensor& V, const KvCache& into,
            const KvBatch& batch, const KvAppend& how, Loc at) {
  const detail::CallPlace here(at);
  check_cache("append", into, batch, how.slots.defined());
  require_rank("append", "K", K, 3);
  check_rows("K", K, into.k, K.size(0));
  check_rows("V", V, into.v, K.size(0));
  const std::int64_t longest =
      check_sequences(batch.kv_lengths.size(0), K.size(1), batch.max_seqlen_q, K.size(0));
  check_rotation(how, K);
  require_optional("append", "slots", how.slots, DType::i64, {K.size(0)});
  if (K.size(0) == 0 || batch.kv_lengths.size(0) == 0) return;
  const Tensor none, &from_q = how.Q_out.defined() ? how.Q : none,
                     &to_q = how.Q_out.defined() ? how.Q_out : how.Q;
  for_float("append", K.dtype(), [&]<class T>(T) {
    static const auto* const kernel = new auto(append_kernel<T>());  // never destroyed
    (*kernel)(stream, K, V, batch.q_offsets, batch.kv_lengths, into.table, how.slots, how.rope.cos,
              how.rope.sin, how.rope.positions, from_q, to_q, how.pairs, into.k, into.v,
              longest == 1);
  });
}

}  // namespace tegula::kernels
