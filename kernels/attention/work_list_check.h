#pragma once
// Checks on `cpu` and `sim` that a call can use a work list. On a GPU lists are not checked.
#include "kernels/attention/work_list.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

class WorkListCheck {
 public:
  WorkListCheck();

  /// Adds a launch that reports T1687 unless the list [items, 4] has the parts of each request of
  /// at most `max_queries` queries once, in their order, and separate slots below `extents.slots`
  /// for the parts of divided requests. Such a list gives right results, whatever lengths it was
  /// written for. It may have the parts of other requests, which have no rows.
  void add(PlanBuilder& plan, PlanSlot list, PlanSlot q_offsets, int max_queries,
           const WorkExtents& extents) const;

 private:
  KernelOf<In<i32, 2>, In<i32, 1>, Scalar<i32>, Scalar<i32>> kernel_;
};

}  // namespace tegula::kernels
