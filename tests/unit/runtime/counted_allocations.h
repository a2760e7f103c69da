#pragma once
// Counts allocations of this thread, so that a test can show that a call makes none. The header
// replaces the global operator new, so one source of a test program includes it.
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
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
