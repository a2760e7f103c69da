#pragma once
// Computes which threads of a CTA take a branch whose condition depends only on the thread index.
#include <bitset>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/eval/cell.h"
#include "ir/kernel.h"

namespace tegula::codegen {

inline constexpr std::size_t kMaxThreads = 1024;
using Threads = std::bitset<kMaxThreads>;

/// Returns the result of an op in a thread of the CTA: its index, lane or warp.
using ThreadNumber = int (*)(int thread);
/// Returns null for ops whose result is not one of these numbers.
ThreadNumber thread_number(const ir::OpData& d);

/// Returns the set of threads first .. end - 1.
Threads threads_between(int first, int end);

/// Returns true if only a part of some warp of the CTA's `all` threads is in `threads`.
bool has_part_of_warp(const Threads& threads, int all);

/// Returns a bit set: bit g is set if a thread of warpgroup g is in `threads`.
std::uint32_t warpgroups_of(const Threads& threads);

/// Granularity at which a value differs between threads.
enum class Divergence : std::uint8_t { Uniform, PerWarpgroup, PerThread };

/// Threads for which a condition may hold.
struct BranchThreads {
  Threads threads;             ///< threads for which it may hold
  bool by_thread_id = false;   ///< it depends only on the thread index: `threads` is exact
  bool is_exact = false;       ///< it holds for all of them, for none, or for those of one
                               ///< warpgroup
  bool is_convergent = false;  ///< it distinguishes warpgroups only by their number
  Divergence varies = Divergence::Uniform;
};

class ThreadSets {
 public:
  explicit ThreadSets(const ir::Kernel& simt) : k_(simt), threads_(simt.info.threads) {}

  BranchThreads where(ir::Value condition);
  /// Returns each thread's value if it depends only on the thread index, else null.
  const std::vector<ir::Cell>* by_thread(ir::Value v);
  Divergence varies(ir::Value v);

 private:
  std::unique_ptr<std::vector<ir::Cell>> compute(ir::Value v);
  Divergence find_varies(ir::Value v);
  Divergence most(std::span<const ir::Value> values);

  const ir::Kernel& k_;
  int threads_;
  std::unordered_map<ir::Value, std::unique_ptr<std::vector<ir::Cell>>> known_;
  std::unordered_map<ir::Value, Divergence> varies_;
};

}  // namespace tegula::codegen
