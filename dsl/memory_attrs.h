#pragma once
// The attributes that functions on memory by address share.
#include "dsl/tracer.h"
#include "tegula/memory.h"

namespace tegula::dsl {

/// The pointers of an argument. Throws CompileError where it has none.
ir::Value pointers_of(Tracer& t, std::string_view what, const Arg& a);
std::string_view scope_name(MemoryScope scope);

}  // namespace tegula::dsl
