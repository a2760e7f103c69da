// Stores the keys and values of a step into the pages of its requests.
#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/cache_arguments.h"
#include "kernels/attention/query_rows.h"
#include "kernels/float_types.h"
#include "tegula/attention_tiles.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Rows of one head that a program copies.
constexpr int kAppendedRows = 16;

struct StepRows {
  In<i32, 1> q_offsets, kv_lengths;
  std::optional<In<i32, 2>> table;
};

template <class T>
auto append_kernel() {
  return kernel("kv_append",
                [](In<T, 3> K, In<T, 3> V, const StepRows& step, InOut<T, 4> k, InOut<T, 4> v) {
                  step.q_offsets.do_not_specialize(0), step.kv_lengths.do_not_specialize(0);
                  K.do_not_specialize(0), V.do_not_specialize(0);
                  const VarlenTileScheduler tiles(step.q_offsets, kAppendedRows);
                  for (auto [h, i] : grid({K.dim(1), tiles.count(K.dim(0))}, 1, 1)) {
                    const auto [b, m] = tiles.at(i.first());
                    const Tile length = fill_absent(step.kv_lengths(b), 0);
                    const SequenceRange request = SequenceRange::request(step.q_offsets, length, b);
                    const Tile end = *request.q_end;
                    const Index rows = request.queries(m).until(end);
                    const auto copy = [&](const In<T, 3>& from, const InOut<T, 4>& into) {
                      const Index columns = slice(0, padded_head_dim(from.static_dim(2)));
                      into.static_dim(3);
                      paged(into, step.table, b, length)(rows.shifted(length - end), h, columns) =
                          from(rows, h, columns);
                    };
                    copy(K, k), copy(V, v);
                  }
                });
}

void check_rows(const char* name, const Tensor& rows, const Tensor& cache, std::int64_t count) {
  require_tensor("append", name, rows, cache.dtype(), {count, cache.size(2), cache.size(3)});
}

}  // namespace

void append(const Stream& stream, const Tensor& K, const Tensor& V, const KvCache& into,
            const KvBatch& batch, Loc at) {
  const detail::CallPlace here(at);
  check_cache("append", into, batch);
  require_rank("append", "K", K, 3);
  check_rows("K", K, into.k, K.size(0));
  check_rows("V", V, into.v, K.size(0));
  check_sequences(batch.kv_lengths.size(0), K.size(1), batch.max_seqlen_q, K.size(0));
  if (K.size(0) == 0 || batch.kv_lengths.size(0) == 0) return;
  for_float("append", K.dtype(), [&]<class T>(T) {
    static const auto* const kernel = new auto(append_kernel<T>());  // never destroyed
    (*kernel)(stream, K, V, batch.q_offsets, batch.kv_lengths, into.table, into.k, into.v);
  });
}

}  // namespace tegula::kernels
