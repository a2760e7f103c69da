#pragma once
// Computes which threads of a CTA take a branch whose condition depends on the thread index alone.
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

/// What an op gives in thread `thread` of its CTA: its index, lane or warp, or whether it is the
/// elected lane of its warp; null for ops that do not tell threads apart.
using ThreadNumber = int (*)(int thread);
ThreadNumber thread_number(const ir::OpData& d);

/// Threads first .. end - 1.
Threads threads_between(int first, int end);

/// Whether some warp of the CTA's `all` threads is among them only in part.
bool has_part_of_warp(const Threads& threads, int all);

/// Bit g: some of the warpgroup's threads are among them.
std::uint32_t warpgroups_of(const Threads& threads);

/// Among which threads a value differs.
enum class Divergence : std::uint8_t { Uniform, PerWarpgroup, PerThread };

/// Threads for which a condition may hold.
struct BranchThreads {
  Threads threads;             ///< threads for which it may hold
  bool by_thread_id = false;   ///< for all of them, and for no other, by their number alone
  bool is_exact = false;       ///< for all of them or for none, or for those of one warpgroup
  bool is_convergent = false;  ///< it does not tell warpgroups apart but by their number
  Divergence varies = Divergence::Uniform;
};

class ThreadSets {
 public:
  explicit ThreadSets(const ir::Kernel& simt) : k_(simt), threads_(simt.info.threads) {}

  BranchThreads where(ir::Value condition);
  /// The number that each thread has, where it is a function of the thread alone; else null.
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
