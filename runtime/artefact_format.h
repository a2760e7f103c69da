#pragma once
// Encoding of an artefact in the sections of a cache entry: the machine code and its text as they
// are, the rest as JSON.
#include "runtime/artefact.h"
#include "runtime/cache_format.h"

namespace tegula::runtime {

/// Writes the sections cubin and ptx, and the artefact's part of `meta`.
void encode_artefact(const Artefact& artefact, CacheEntry& entry);
/// Returns the artefact of an entry, without the text of the key, which is not stored. Checks all
/// counts, indices and offsets that a launch relies on; throws an exception for an entry that does
/// not contain an artefact.
Artefact decode_artefact(const CacheEntry& entry);

}  // namespace tegula::runtime
