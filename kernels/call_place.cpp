#include "tegula/kernels/call_place.h"

#include <string>
#include <string_view>

#include "tegula/called_from.h"

namespace tegula::kernels::detail {
namespace {

/// Removes trailing template arguments "<..>".
std::string_view without_template_arguments(std::string_view name) {
  int depth = 0;
  while (name.ends_with('>') || depth > 0) {
    depth += name.ends_with('>') ? 1 : name.ends_with('<') ? -1 : 0;
    name.remove_suffix(1);
  }
  return name;
}

/// Returns the function's name without result, namespaces and parameters; the class for callables.
std::string short_name(std::string_view function) {
  if (const std::size_t call = function.find("::operator()"); call != std::string_view::npos)
    function = without_template_arguments(function.substr(0, call));
  else
    function = function.substr(0, function.find('('));
  return std::string(function.substr(function.find_last_of(" :*&") + 1));
}

}  // namespace

CallPlace::CallPlace(Loc at, std::source_location callable)
    : before_(tegula::detail::called_from()),
      range_(ProfilerRange::is_heard() ? short_name(callable.function_name()).c_str() : "") {
  if (!before_.known()) tegula::detail::set_called_from(at);
}
CallPlace::~CallPlace() { tegula::detail::set_called_from(before_); }
Loc CallPlace::current() { return tegula::detail::called_from(); }

}  // namespace tegula::kernels::detail
