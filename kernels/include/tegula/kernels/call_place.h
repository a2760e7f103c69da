#pragma once
#include "tegula/location.h"

namespace tegula::detail {

/// The line that calls the library, while it runs on this thread: what the library refuses is said
/// of it. Where a function of the library calls another, the outermost line counts.
class CallPlace {
 public:
  explicit CallPlace(Loc at);
  ~CallPlace();
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  /// Unknown outside of a call.
  static Loc current();

 private:
  Loc before_;
};

}  // namespace tegula::detail
