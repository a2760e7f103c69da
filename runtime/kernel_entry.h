#pragma once
// Converts a compiled kernel to an entry of the disk cache or of a bundle, and back.
#include "runtime/cache_format.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// Version of an artefact's recipe, argument block and plan. Increment it with every change that
/// makes this library misread kernels of older ones.
inline constexpr int kArtefactVersion = 2;

/// Returns true if the kernel's result contains lines of the source, as the simulator's reports and
/// line tables do. Other machine code does not depend on the location of the source.
bool keeps_lines(const Compilation& k, const CompileRequest& request);

/// Returns the key of a traced kernel by its meaning: its IR, target, plan and options. Tools are
/// not part of it, so that a bundle serves a machine without them.
CacheKey kernel_key(const Compilation& k, const CompileRequest& request);

/// Returns the entry of a kernel, with its remarks and the text of its simt form.
CacheEntry kernel_entry(const Compilation& k, const Artefact& artefact, bool with_lines);

/// Completes a traced kernel up to the verb `assemble`. Throws an exception if the entry is that of
/// another kernel, or of another back end than `only`; `k` is unchanged then.
Artefact restore_kernel(const CacheEntry& entry, Compilation& k, bool with_lines,
                        std::optional<Backend> only = {});

}  // namespace tegula::runtime
