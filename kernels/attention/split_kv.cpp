#include "kernels/attention/split_kv.h"

namespace tegula::kernels {
namespace {

/// Returns the number of clusters whose partials are read at a time, to overlap their memory
/// latencies: fewer for many rows and columns, which registers have no room for.
int read_at_once(const Index& rows, const Index& columns) {
  return static_cast<int>((columns.block() > 128 ? 32 : 64) / rows.block());
}

/// Returns the values of all CTAs of the cluster for each row: [rows, programs].
/// `cluster_reduce_scatter` scatters one slice of the rows to each CTA, so each CTA receives all
/// rows if they are replicated once per CTA.
Tile of_all_programs(const Tile& own, int rows, int programs) {
  const Tile is_own = expand(expand(arange(programs) == cluster_rank(), 0), 0);  // [1, 1, programs]
  const Tile copies = where(is_own, expand(expand(fill_absent(own, 0), 1), 0),
                            zeros<f32>(programs, rows, programs));
  return cluster_reduce_scatter(copies.reshape({std::int64_t{programs} * rows, programs}), axis(0));
}

}  // namespace

OnlineSoftmax combine_in_cluster(const OnlineSoftmax& part, const Tile& factor, int programs) {
  const int rows = static_cast<int>(part.row_max.shape()[0]);
  const Tile row_max = max(of_all_programs(part.row_max, rows, programs), axis(1));
  const Tile weight = exp2((part.row_max - row_max) * factor);
  // All CTAs have the row maxima; only those of one CTA are added.
  const Tile is_first = cluster_rank() == 0, is_sum = expand(arange(2) == 0, 0);
  const Tile row_stats = cluster_reduce_scatter(
      where(is_sum, expand(part.row_sum * weight, 1), where(is_first, expand(row_max, 1), 0.0f)),
      axis(0));
  OnlineSoftmax all = part;
  all.acc = cluster_reduce_scatter(part.acc * expand(weight, 1), axis(0));
  all.row_sum = sum(where(is_sum, row_stats, 0.0f), axis(1));
  all.row_max = sum(where(is_sum, 0.0f, row_stats), axis(1));
  return all;
}

Tile SplitKvPartials::publish(const OnlineSoftmax& s, const Tile& tile, const Tile& cluster,
                              const Index& rows, const Index& columns, const Tile& arrival,
                              const Tile& clusters) const {
  const Index t = slice(tile, 1), c = slice(cluster, 1);
  acc_partials(t, c, rows, columns) = s.acc;
  row_stats(t, c, slice(0, 1), rows) = s.row_max;
  row_stats(t, c, slice(1, 1), rows) = s.row_sum;
  return arrive_and_test_last(arrivals + arrival, clusters);
}

OnlineSoftmax SplitKvPartials::combine_all(const Tile& tile, const Tile& first, const Tile& end,
                                           const Index& rows, const Index& columns,
                                           const Tile& factor) const {
  const Index t = slice(tile, 1);
  OnlineSoftmax s(static_cast<int>(rows.block()), static_cast<int>(columns.block()),
                  Rescaling::exact, DType::f32);
  for (auto c : steps(first, end, read_at_once(rows, columns)).bounded()) {
    const Tile row_maxes =
                   fill_absent(row_stats(t, c, slice(0, 1), rows), OnlineSoftmax::kMinFiniteMax),
               row_sums = fill_absent(row_stats(t, c, slice(1, 1), rows), 0),
               parts = fill_absent(acc_partials(t, c, rows, columns), 0);
    const Tile row_max = max(s.row_max, max(row_maxes, axis(0)));
    const Tile weights = exp2((row_maxes - expand(row_max, 0)) * factor),
               weight = exp2((s.row_max - row_max) * factor);
    s.row_sum = s.row_sum * weight + sum(row_sums * weights, axis(0));
    s.acc = s.acc * expand(weight, 1) + sum(parts * expand(weights, 2), axis(0));
    s.row_max = row_max;
  }
  return s;
}

}  // namespace tegula::kernels
