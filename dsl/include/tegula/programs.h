#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/memory.h"

/// Programs that wait for one another. A program may wait only for programs that are sure to run:
/// those that have started, which programs with smaller tickets have, or all if they meet in a
/// grid_barrier. On the devices `cpu` and `sim` programs take turns, and a wait that nothing can
/// end throws ProgramError with the line of the wait.
namespace tegula {

enum class Until : std::uint8_t { equal, at_least };
/// Waits until the integer at an address, of 32 or 64 bits, is `value`, or at least that. All that
/// the program does afterwards sees the writes released there. Throws CompileError for other types.
void wait_until(const Arg& pointer, const Arg& value, Until until = Until::at_least,
                MemoryScope scope = MemoryScope::gpu);

/// The SM that runs this program (u32); 0 on `cpu`.
Tile sm_id(std::source_location at = std::source_location::current());
/// Cycles of that SM (u64), for differences of two reads in one program; the devices `cpu` and
/// `sim` count steps. All threads of the program wait for the read.
Tile sm_clock(std::source_location at = std::source_location::current());
/// Nanoseconds (u64) on a clock that all SMs share, in steps of up to a microsecond; steps of the
/// program on `cpu` and `sim`.
Tile global_timer(std::source_location at = std::source_location::current());

/// A number from 0 to count - 1 for each program that asks, in the order in which they ask; the
/// last one sets the counter, a u32 that is 0 at first, back to 0. A program with a smaller number
/// has started, so that waiting for it ends. Gives i32.
Tile ticket(const Arg& counter, const Arg& count);

/// Counts what some programs have done for others, in an i32 or u32 that is 0 at first.
class Semaphore {
 public:
  explicit Semaphore(const Arg& counter) : counter_(counter) {}
  /// Publishes what this program has done, and counts it.
  void signal(const Arg& n = 1) const { atomic_add(counter_, n, {}, MemoryOrder::release); }
  /// Waits until `n` were counted, and sees what was done before.
  void wait(const Arg& n) const { wait_until(counter_, n); }

 private:
  Arg counter_;
};

/// Lets programs pass one after another, in the order of their turns 0, 1, ..: sums of floats have
/// the same bits in every run. In a u32 that is 0 at first.
class Turnstile {
 public:
  explicit Turnstile(const Arg& counter) : counter_(counter) {}
  /// Waits for the program of turn - 1 to leave, and sees what all before have done.
  void enter(const Arg& turn) const { wait_until(counter_, turn, Until::equal); }
  /// Lets the next one in.
  void leave(const Arg& turn) const { atomic_store(counter_, turn + 1); }
  /// The same of `count` turns, after the last of which the counter is 0 again.
  void leave(const Arg& turn, const Arg& count) const;

 private:
  Arg counter_;
};

}  // namespace tegula
