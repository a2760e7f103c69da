#pragma once
#include <cstdint>

/// Cache hints of loads and stores. They change only the speed (PTX ISA, "Cache Operators", "Cache
/// Eviction Priority Hints").
namespace tegula {

/// Cache operator: the caches that keep the line. With one, threads load paged rows: TMA has none.
enum class Cache : std::uint8_t {
  normal,  ///< the instruction's default
  ca,      ///< loads: all levels
  cg,      ///< L2, not L1
  cs,      ///< all levels, first to be evicted: data that is used once
  cv,      ///< loads: none; each load reads memory again
  wb,      ///< stores: all levels, written back later
  wt,      ///< stores: written through L2 to memory
};
/// Eviction priority in the second-level cache.
enum class Evict : std::uint8_t {
  normal,       ///< the instruction's default
  first,        ///< evicted before other lines
  last,         ///< evicted after other lines
  no_allocate,  ///< not kept in L2
};
/// Hints of one access, or of all accesses of a view (`x.with({.evict = Evict::first})`).
struct Hints {
  Cache cache = Cache::normal;  ///< cache operator
  Evict evict = Evict::normal;  ///< eviction priority
};

}  // namespace tegula
