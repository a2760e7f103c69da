#include "tests/unit/runtime/counted_allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local int g_allocations = 0;
}
[[gnu::noinline]] void* operator new(std::size_t n) {
  ++g_allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(n);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tegula::test {

int allocations() { return g_allocations; }

}  // namespace tegula::test
