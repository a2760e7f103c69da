#include "tegula/kernels/call_place.h"

namespace tegula::detail {
namespace {

thread_local Loc here;

}  // namespace

CallPlace::CallPlace(Loc at) : before_(here) {
  if (!here.known()) here = at;
}
CallPlace::~CallPlace() { here = before_; }
Loc CallPlace::current() { return here; }

}  // namespace tegula::detail
