#include "kernels/attention/split_keys.h"

#include "tegula/tegula.h"

namespace tegula {
namespace {

/// What each program of the cluster has of each row, for all of them: [rows, programs].
/// `cluster_sum` gives a program one of as many parts of the rows as there are programs, so that
/// all rows go to each if there are as many copies of them.
Tile of_all_programs(const Tile& own, int rows, int programs) {
  const Tile is_own = expand(expand(arange(programs) == cluster_rank(), 0), 0);  // [1, 1, programs]
  const Tile copies = where(is_own, expand(expand(fill_absent(own, 0), 1), 0),
                            zeros<f32>(programs, rows, programs));
  return cluster_sum(copies.reshape({std::int64_t{programs} * rows, programs}), axis(0));
}

}  // namespace

Visits own_part(const Visits& visits, int programs) {
  return visits.part(cluster_rank(), programs);
}

OnlineSoftmax merged(const OnlineSoftmax& part, const Tile& factor, int programs) {
  const int rows = static_cast<int>(part.top.shape()[0]);
  const Tile top = max(of_all_programs(part.top, rows, programs), axis(1));
  const Tile weight = exp2((part.top - top) * factor);
  // Of the rows' maxima, which all have, one program's are to arrive.
  const Tile is_first = cluster_rank() == 0, is_sum = expand(arange(2) == 0, 0);
  const Tile facts = cluster_sum(
      where(is_sum, expand(part.sum * weight, 1), where(is_first, expand(top, 1), 0.0f)), axis(0));
  OnlineSoftmax all = part;
  all.out = cluster_sum(part.out * expand(weight, 1), axis(0));
  all.sum = sum(where(is_sum, facts, 0.0f), axis(1));
  all.top = sum(where(is_sum, 0.0f, facts), axis(1));
  return all;
}

}  // namespace tegula
