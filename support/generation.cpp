#include "support/generation.h"

#include <atomic>

namespace tegula {
namespace {

std::atomic<std::uint64_t> g_generation{1};

}  // namespace

std::uint64_t generation() { return g_generation.load(std::memory_order_relaxed); }
void begin_generation() { g_generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace tegula
