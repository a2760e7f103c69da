#pragma once
#include "tegula/called_from.h"
#include "tegula/location.h"

namespace tegula::runtime {

/// Scope of a call of the runtime on this thread: errors without a place of the user are reported
/// at the line `at`, or at that of the enclosing call of the library.
class PlaceOfCall {
 public:
  explicit PlaceOfCall(const Loc& at) : before_(tegula::detail::called_from()) {
    if (!before_.known()) tegula::detail::set_called_from(at);
  }
  ~PlaceOfCall() { tegula::detail::set_called_from(before_); }
  PlaceOfCall(const PlaceOfCall&) = delete;
  PlaceOfCall& operator=(const PlaceOfCall&) = delete;

 private:
  Loc before_;
};

}  // namespace tegula::runtime
