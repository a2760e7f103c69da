#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/profiler_range.h"
#include "tegula/stream.h"

namespace tegula::detail {

/// The line that calls the library, while it runs on this thread: what the library refuses is said
/// of it. If a function of the library calls another, the outermost line counts. The callable,
/// in whose function it is made, is a range for profilers.
class CallPlace {
 public:
  explicit CallPlace(Loc at, std::source_location callable = std::source_location::current());
  ~CallPlace();
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  /// Unknown outside of a call.
  static Loc current();

 private:
  Loc before_;
  ProfilerRange range_;
};

/// The stream that a call is given, with the line of the call: for calls that end with arguments of
/// any number, behind which no line can stand.
struct StreamAt {
  const Stream& stream;
  Loc at;
  StreamAt(const Stream& s, std::source_location where = std::source_location::current())
      : stream(s), at(where) {}
};

}  // namespace tegula::detail
