#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/memory.h"

/// Programs that wait for one another. A program may wait only for programs that are sure to run:
/// those that have started, such as programs with smaller tickets, or all of them if the kernel has
/// a grid_barrier. On the devices `cpu` and `sim` programs run alternately, and a wait that cannot
/// end throws ProgramError with the line of the wait.
namespace tegula {

/// Condition that ends a wait.
enum class Until : std::uint8_t {
  equal,     ///< the integer is the value
  at_least,  ///< the integer is the value or larger
};
/// Waits until the integer at an address, of 32 or 64 bits, is `value`, or at least that. Later
/// accesses of the program observe the writes released there. Throws CompileError for other types.
void wait_until(const Arg& pointer, const Arg& value, Until until = Until::at_least,
                MemoryScope scope = MemoryScope::gpu);

/// Returns the SM that runs this program (u32); 0 on `cpu`.
Tile sm_id(std::source_location at = std::source_location::current());
/// Returns the cycle count of that SM (u64), for differences of two reads in one program; the
/// devices `cpu` and `sim` count steps. All threads of the program wait for the read.
Tile sm_clock(std::source_location at = std::source_location::current());
/// Returns nanoseconds (u64) on a clock that all SMs share, in steps of up to a microsecond; on
/// `cpu` and `sim`, steps of the program.
Tile global_timer(std::source_location at = std::source_location::current());

/// Returns a number from 0 to count - 1 (i32) to each program that calls it, in the order of the
/// calls; the last call resets the counter, a u32 that is initially 0. A program with a smaller
/// number has started, so that waiting for it ends.
Tile ticket(const Arg& counter, const Arg& count);

/// Counts completed work on which other programs wait, in an i32 or u32 that is initially 0.
class Semaphore {
 public:
  explicit Semaphore(const Arg& counter) : counter_(counter) {}
  /// Publishes the earlier effects of this program, and adds `n` to the count.
  void signal(const Arg& n = 1) const { atomic_add(counter_, n, {}, MemoryOrder::release); }
  /// Waits until the count is at least `n`, and observes the effects published before.
  void wait(const Arg& n) const { wait_until(counter_, n); }

 private:
  Arg counter_;
};

/// Admits programs one after another, in the order of their turns 0, 1, .., so that sums of floats
/// have the same bits in every run. The counter is a u32 that is initially 0.
class Turnstile {
 public:
  explicit Turnstile(const Arg& counter) : counter_(counter) {}
  /// Waits for the program of turn - 1 to leave, and observes the effects of all earlier ones.
  void enter(const Arg& turn) const { wait_until(counter_, turn, Until::equal); }
  /// Admits the next program.
  void leave(const Arg& turn) const { atomic_store(counter_, turn + 1); }
  /// Does the same for `count` turns; after the last one the counter is 0 again.
  void leave(const Arg& turn, const Arg& count) const;

 private:
  Arg counter_;
};

}  // namespace tegula
