#pragma once
// Counts allocations of this thread by any library, through glibc's own entry points, so that a
// test can show that a call of libtegula.so makes none. The header replaces malloc, so one source
// of a test program includes it; a sanitizer has its own malloc, and then nothing is counted.
#include <cstddef>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TEGULA_COUNTS_MALLOCS 1

namespace {
constinit thread_local int g_mallocs = 0;
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
  ++g_mallocs;
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  ++g_mallocs;
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  ++g_mallocs;
  return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  ++g_mallocs;
  return __libc_memalign(alignment, n);
}
}
#endif
