#pragma once
// Exported callables, for the functions of the C interface.
#include <string_view>
#include <vector>

#include "tegula/export.h"

namespace tegula::c {

/// Returns each name once, in the order in which libraries were loaded.
std::vector<const char*> exported_names();
/// Returns null if there is none.
const detail::Exported* find_exported(std::string_view name);
/// Throws CompileError for null.
const detail::Exported& checked(const TegulaCallable* callable);
TegulaKind kind_of(const ExportParam& param);

}  // namespace tegula::c
