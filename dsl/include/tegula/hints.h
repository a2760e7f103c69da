#pragma once
#include <cstdint>

/// Cache hints of loads and stores. They change only the speed (PTX ISA, "Cache Operators", "Cache
/// Eviction Priority Hints").
namespace tegula {

/// Cache operator: where the line stays. `cv` and `volatile` reads are never cached.
enum class Cache : std::uint8_t { normal, ca, cg, cs, cv, wb, wt };
/// Eviction priority in the second-level cache.
enum class Evict : std::uint8_t { normal, first, last, no_allocate };
struct Hints {
  Cache cache = Cache::normal;
  Evict evict = Evict::normal;
};

}  // namespace tegula
