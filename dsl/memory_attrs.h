#pragma once
// Attributes shared by the functions on memory by address.
#include "dsl/tracer.h"
#include "tegula/memory.h"

namespace tegula::dsl {

/// Returns the pointers of an argument. Throws CompileError if it has none.
ir::Value pointers_of(Tracer& t, std::string_view what, const Arg& a);
std::string_view scope_name(MemoryScope scope);

}  // namespace tegula::dsl
