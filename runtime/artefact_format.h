#pragma once
// An artefact as the sections of a cache entry: the machine code and its text as they are, the rest
// as JSON.
#include "runtime/artefact.h"
#include "runtime/cache_format.h"

namespace tegula::runtime {

/// The sections cubin and ptx, and the artefact's part of `meta`.
void encode_artefact(const Artefact& artefact, CacheEntry& entry);
/// Everything that a launch relies on is checked: counts, indices and offsets. Throws an exception
/// for an entry that holds no artefact. The text of the key is not stored.
Artefact decode_artefact(const CacheEntry& entry);

}  // namespace tegula::runtime
