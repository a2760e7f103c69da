// Attributes errors inside the kernel library to the user's line that called it.
#include "tegula/called_from.h"

#include <array>
#include <source_location>
#include <string_view>
#include <utility>

namespace tegula::detail {
namespace {

thread_local Loc here;

/// Returns the folder that the library was compiled in, with a trailing slash; "" if source paths
/// are relative to it.
constexpr std::string_view source_root() {
  constexpr std::string_view kOwn = "support/called_from.cpp";
  std::string_view file = std::source_location::current().file_name();
  return file.ends_with(kOwn) ? file.substr(0, file.size() - kOwn.size()) : file;
}

/// Returns true if `file` is a source or header of the library, wherever it is installed.
bool is_source_of_library(std::string_view file) {
  static constexpr std::array<std::string_view, 7> kLayers{
      "support/", "ir/", "codegen/", "runtime/", "dsl/", "autotune/", "kernels/"};
  if (file.find("/include/tegula/") != file.npos) return true;
  if (!file.starts_with(source_root())) return false;
  file.remove_prefix(source_root().size());
  for (const std::string_view layer : kLayers)
    if (file.starts_with(layer)) return true;
  return false;
}

}  // namespace

Loc called_from() { return here; }
Loc set_called_from(Loc loc) { return std::exchange(here, loc); }

bool is_source_of_language(std::string_view file) {
  if (file.find("/include/tegula/kernels/") != file.npos) return false;
  return file.find("/include/tegula/") != file.npos ||
         (file.starts_with(source_root()) && file.substr(source_root().size()).starts_with("dsl/"));
}

bool is_of_call(const Loc& loc) {
  return here.known() && (!loc.known() || is_source_of_library(loc.file));
}

std::vector<Diagnostic> at_caller(std::vector<Diagnostic> all) {
  for (Diagnostic& d : all) {
    if (!is_of_call(d.loc)) continue;
    if (d.loc.known()) d.notes.push_back({d.loc, "the library detected the error here"});
    d.loc = here;
  }
  return all;
}

}  // namespace tegula::detail
