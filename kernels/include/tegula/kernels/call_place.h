#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/profiler_range.h"
#include "tegula/stream.h"

namespace tegula::kernels::detail {

/// RAII scope of a library call on this thread: errors of the library are reported at the caller's
/// line. If one function of the library calls another, the outermost line is used. `callable`, the
/// function that creates the scope, also becomes a profiler range.
class CallPlace {
 public:
  explicit CallPlace(Loc at, std::source_location callable = std::source_location::current());
  ~CallPlace();
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  /// Returns the line of the current call, or an unknown location outside of a call.
  static Loc current();

 private:
  Loc before_;
  ProfilerRange range_;
};

/// The stream of a call and the line of the call, for calls whose variadic arguments leave no room
/// for a location parameter after them.
struct StreamAt {
  const Stream& stream;
  Loc at;
  StreamAt(const Stream& s, std::source_location where = std::source_location::current())
      : stream(s), at(where) {}
};

}  // namespace tegula::kernels::detail
