#include "tegula/kernels/call_place.h"

#include <string>
#include <string_view>

namespace tegula::detail {
namespace {

thread_local Loc here;

/// The function's name without result, namespaces and parameters.
std::string short_name(std::string_view function) {
  function = function.substr(0, function.find('('));
  return std::string(function.substr(function.find_last_of(" :*&") + 1));
}

}  // namespace

CallPlace::CallPlace(Loc at, std::source_location callable)
    : before_(here),
      range_(ProfilerRange::is_heard() ? short_name(callable.function_name()).c_str() : "") {
  if (!here.known()) here = at;
}
CallPlace::~CallPlace() { here = before_; }
Loc CallPlace::current() { return here; }

}  // namespace tegula::detail
