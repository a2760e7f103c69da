#pragma once
// Work of a decoding step whose requests have different numbers of keys. A kernel divides the keys
// of each request into parts of about equal size, each with a program per tile; the last program
// of a request to finish combines its parts in their order. Only the list depends on lengths: the
// grid and the workspace depend on extents and the device.
#include <compare>
#include <cstdint>
#include <optional>

#include "kernels/attention/kv_traversal.h"
#include "tegula/configured_kernel.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Extents of a list and of the workspace of its parts. A request has `tiles` tiles: one for each
/// kv head, or several if a kv head has more rows than a tile.
struct WorkExtents {
  std::int64_t tiles;
  std::int64_t items;    ///< programs per tile
  std::int64_t slots;    ///< partial results per tile
  std::int64_t at_once;  ///< programs per tile that the device runs at once
};
/// Returns the extents for so many requests; `programs`: that the device runs at once.
WorkExtents work_extents(std::int64_t requests, std::int64_t tiles, std::int64_t programs);

/// An entry of a list [items, 4]: part `part` of the `parts` parts of a request's keys. The results
/// of requests with several parts have consecutive slots from `slot` on. Entries without work have
/// part 1 of 1, which has no keys.
struct WorkItem {
  static constexpr int kWords = 4;

  static WorkItem of(const In<i32, 2>& list, const Index& number);

  Tile request, part, parts, slot;
};

/// How a kernel reads the work of requests.
struct WorkListForm {
  int block_kv;           ///< keys per block
  bool has_kv_offsets;    ///< keys are given by offsets, as queries are, instead of their numbers
  bool queries_are_last;  ///< queries are the last positions of their request, else the first ones

  friend auto operator<=>(const WorkListForm&, const WorkListForm&) = default;
};

/// The most keys of a request, and the most queries of one that has parts in the list.
struct RequestBounds {
  std::int64_t keys;
  int queries;
};

/// Kernels that write work lists, one for each form.
class WorkLists {
 public:
  explicit WorkLists(const KvTraversal& traversal) : traversal_(traversal) {}

  /// Writes `list` from offsets of queries and numbers of keys or offsets of them. `at_once` as in
  /// WorkExtents.
  void write(PlanBuilder& plan, const WorkListForm& form, PlanSlot q_offsets, PlanSlot kv,
             const RequestBounds& most, std::int64_t at_once, PlanSlot list) const;

 private:
  using Kernel = KernelOf<In<i32, 1>, In<i32, 1>, Scalar<i32>, Scalar<i32>, Scalar<i32>,
                          Scalar<i32>, Out<i32, 2>>;

  Kernel kernel_of(const WorkListForm& form) const;

  const KvTraversal& traversal_;
  mutable tegula::detail::ConfiguredInstances<WorkListForm> made_;
};

}  // namespace tegula::kernels
