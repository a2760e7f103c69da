#pragma once
// Memory that an access of a program requests from the second-level cache.
#include "ir/analysis/call_numbers.h"

namespace tegula::ir {

/// One execution of an access, without elements outside the view.
struct MemoryRequests {
  double bytes = 0;             ///< requested from memory, at least a sector for each run
  double lines = 0;             ///< 128-byte lines; parts of lines cost more than their share
  double elements_at_once = 1;  ///< elements that one access of a thread covers
  GridDims::Set depends = 0;    ///< dimensions of the grid that select the elements
};

/// Returns the requests of a load_view, store_view or atomic_view.
MemoryRequests requests_of_box(const Kernel& k, const OpData& box, const CallNumbers& numbers,
                               GridDims& grid);
/// Returns the requests of an access by address. Elements are in separate sectors unless the access
/// states that they are adjacent.
MemoryRequests requests_by_address(const Kernel& k, const OpData& access, GridDims& grid);

}  // namespace tegula::ir
