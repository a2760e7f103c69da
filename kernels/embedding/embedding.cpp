// Embedding lookup, and scatter-add into the table.
#include "tegula/kernels/embedding.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/float_types.h"
#include "kernels/row_tiles.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr std::int64_t kMaxTileColumns = 4096;
/// Rows of the table that a program owns, and ids that it scans per iteration.
constexpr int kOwnedRows = 64, kIdsPerStep = 1024;

template <class T>
auto gather_kernel() {
  return kernel("embedding", [](In<T, 2> table, In<i32, 1> ids, Out<T, 2> y, int columns) {
    for (auto [t, c] : grid(y, 1, columns)) y(t, c) = fill_absent(table(ids(t), c), 0);
  });
}

template <class T>
auto scatter_kernel() {
  return kernel("embedding_backward",
                [](In<T, 2> dy, In<i32, 1> ids, InOut<f32, 2> dtable, int columns) {
                  for (auto [t, c] : grid(dy, 1, columns))
                    atomic_add(dtable(ids(t), c), cast<f32>(dy(t, c)));
                });
}

/// Iterates over the tokens of a block of ids whose rows the program owns.
class OwnedTokens {
 public:
  OwnedTokens(const In<i32, 1>& ids, const Index& step, const Index& rows)
      : at_(cast<i32>(step.indices())), next_(full<i32>(kNone)) {
    const Tile id = fill_absent(ids(step), -1), row = id - cast<i32>(rows.first());
    is_owned_ = row >= 0 && row < kOwnedRows;
    next_ = min(where(is_owned_, at_, kNone));
  }
  Tile has_next() const { return next_ < kNone; }
  const Tile& token() const { return next_; }
  void advance() { next_ = min(where(is_owned_ && at_ > next_, at_, kNone)); }

 private:
  static constexpr int kNone = std::numeric_limits<std::int32_t>::max();
  Tile at_, is_owned_, next_;
};

template <class T>
auto scatter_in_order() {
  return kernel("embedding_backward_in_order",
                [](In<T, 2> dy, In<i32, 1> ids, InOut<f32, 2> dtable, int columns) {
                  for (auto [rows, c] : grid(dtable, kOwnedRows, columns))
                    for (auto step : steps(ids.dim(0), kIdsPerStep)) {
                      OwnedTokens tokens(ids, step, rows);
                      while_([&] { return tokens.has_next(); },
                             [&] {
                               const Tile t = tokens.token(), row = ids(t);
                               dtable(row, c) = dtable(row, c) + cast<f32>(dy(t, c));
                               tokens.advance();
                             });
                    }
                });
}

template <class T>
struct EmbeddingKernels {
  decltype(gather_kernel<T>()) gather = gather_kernel<T>();
  decltype(scatter_kernel<T>()) scatter = scatter_kernel<T>();
  decltype(scatter_in_order<T>()) in_order = scatter_in_order<T>();
};
template <class T>
const EmbeddingKernels<T>& embedding_kernels() {
  static const auto* const all = new EmbeddingKernels<T>;  // leaked: static destructors may call
  return *all;
}

int tile_columns(const Tensor& t) {
  return static_cast<int>(std::bit_ceil(
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(t.size(1), 2, kMaxTileColumns))));
}

/// Checks `rows` [tokens, columns] and `table`, which has one row per id.
void check_embedding(const char* name, const char* rows_name, const Tensor& rows, const Tensor& ids,
                     const char* table_name, const Tensor& table, DType table_type) {
  require_rank(name, rows_name, rows, 2);
  require_tensor(name, "ids", ids, DType::i32, {rows.size(0)});
  require_rank(name, table_name, table, 2);
  require_tensor(name, table_name, table, table_type, {table.size(0), rows.size(1)});
}

}  // namespace

void embedding(const Stream& stream, const Tensor& table, const Tensor& ids, const Tensor& y,
               Loc at) {
  const detail::CallPlace here(at);
  check_embedding("embedding", "y", y, ids, "table", table, y.dtype());
  for_float("embedding", y.dtype(), [&]<class T>(T) {
    embedding_kernels<T>().gather(stream, table, ids, y, tile_columns(y));
  });
}

void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& ids,
                        const Tensor& dtable, ScatterOrder order, Loc at) {
  const detail::CallPlace here(at);
  check_embedding("embedding_backward", "dy", dy, ids, "dtable", dtable, DType::f32);
  for_float("embedding_backward", dy.dtype(), [&]<class T>(T) {
    const auto& k = embedding_kernels<T>();
    if (order == ScatterOrder::any)
      k.scatter(stream, dy, ids, dtable, tile_columns(dy));
    else
      k.in_order(stream, dy, ids, dtable, tile_columns(dy));
  });
}

}  // namespace tegula::kernels
