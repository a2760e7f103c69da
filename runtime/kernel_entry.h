#pragma once
// A compiled kernel as an entry of the disk cache or of a bundle, and back into a traced kernel.
#include "runtime/cache_format.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// Version of an artefact's recipe, argument block and plan. It rises with every change after which
/// this library would misread a kernel of an older one.
inline constexpr int kArtefactVersion = 2;

/// True where the kernel's result names lines of the source: the simulator's reports do, and line
/// tables. Other machine code is the same wherever the source lies.
bool keeps_lines(const Compilation& k, const CompileRequest& request);

/// Key of a traced kernel by what it means: its IR, target, plan and options. Tools are no part of
/// it, so that a bundle serves a machine that has none.
CacheKey kernel_key(const Compilation& k, const CompileRequest& request);

/// The kernel with its remarks and the text of its SIMT form.
CacheEntry kernel_entry(const Compilation& k, const Artefact& artefact, bool with_lines);

/// Completes a traced kernel up to the verb `assemble`. Throws an exception where the entry is of
/// another kernel, or of another back end than `only`; `k` is as before then.
Artefact restore_kernel(const CacheEntry& entry, Compilation& k, bool with_lines,
                        std::optional<Backend> only = {});

}  // namespace tegula::runtime
