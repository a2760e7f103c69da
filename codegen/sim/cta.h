#pragma once
// One CTA: its warps, shared memory, barriers and asynchronous work, run in a seeded random order
// until every warp has exited. Ops access all of it through their warp.
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "codegen/sim/findings.h"
#include "codegen/sim/memory.h"
#include "codegen/sim/warp.h"
#include "codegen/sim/wgmma.h"

namespace tegula::sim {

struct Mbarrier {
  int number = 0;  ///< number by which its agent is identified
  std::uint32_t address = 0;
  std::int64_t count = 1;    ///< arrivals that a phase needs
  std::int64_t pending = 1;  ///< missing arrivals
  std::int64_t tx = 0;  ///< missing bytes; may be negative while a copy is ahead of its expect_tx
  std::int64_t expected = 0, delivered = 0;  ///< bytes of this phase
  int copies = 0;                            ///< TMA loads of this phase that have not landed
  std::uint32_t phase = 0;                   ///< completed phases
  std::uint32_t copy_phase = 0,
                waited_phase =
                    0;  ///< 1 + phase of the latest copy; completed phases at the latest wait
  VisibleClocks arriving, done;  ///< clocks of this phase's arrivals; clocks of all completed
                                 ///< phases
  bool async_visible = false;    ///< the initialization passed fence_mbar_init or fence_proxy_async
  int init_warp = 0;
  Tick init_tick = 0;
  ir::OpId init_op, expect_op, copy_op;
};

/// A warp's latest wait on an mbarrier.
struct LastWait {
  std::uint32_t phase = 0;  ///< completed phases when the wait passed
  bool stale = false;  ///< it passed on a phase that was already waited for, or before the barrier
                       ///< completed any phase
};

struct NamedBarrier {
  std::int64_t threads = 0;  ///< count attribute of the first arrival
  std::int64_t arrived = 0;
  std::uint32_t generation = 0;
  VisibleClocks arriving, done;
  ir::OpId first_op;
};

/// Asynchronous work that completes at a given time.
struct Event {
  std::uint64_t due = 0;
  std::uint64_t order = 0;
  std::function<void()> run;
};

/// Counters and coordinates shared by the CTAs that one host thread runs.
struct Launch {
  const DecodedKernel& program;
  const SimOptions& options;
  Grid grid;
  std::span<const SimArg> args;
  GlobalMemory& global;
  Counters counters;
  std::vector<AccessCounter> accesses;  ///< by instruction index
};

/// Counts the passes over the banks that one warp-wide access needs.
void count_wavefronts(Warp& w, const Instr& i, std::span<const std::uint32_t> addresses, int bytes);
/// Writes bytes of one lane to shared memory, with all checks except bounds.
void store_shared(Warp& w, const Instr& i, std::uint32_t address, const std::uint8_t* bytes,
                  std::uint32_t count, bool valid, int lane);

class Cluster;

/// Status of a CTA after it has run for a while.
enum class CtaStatus : std::uint8_t {
  Runnable,  ///< it can continue
  Blocked,  ///< every warp waits and nothing is in flight: only another CTA of the cluster can help
  Spinning,  ///< every warp waits or repeats a loop that changes nothing
  Finished,  ///< for any reason
};

class Cta {
 public:
  Cta(Launch& launch, Cluster& cluster, int rank, std::array<int, 3> id);
  Cta(const Cta&) = delete;

  /// Runs for about `instructions` instructions.
  CtaStatus run(std::int64_t instructions);
  bool is_over() const { return over_; }
  bool is_complete() const { return complete_; }  ///< every warp exited normally
  std::uint64_t executed() const { return executed_; }
  void report_deadlock();
  /// Reports a deadlock in which warps repeat loops that change nothing.
  void report_spin();
  /// Returns the findings. Call once, after run() has returned Finished.
  std::vector<Finding> finish();
  bool trapped = false;

  // ---- for ops ----------------------------------------------------------------------------------
  Launch& launch;
  Cluster& cluster;
  const int rank;  ///< within the cluster
  const std::array<int, 3> id;
  const Agents agents;
  SharedMemory shared;
  Findings findings;
  std::uint64_t now = 0;      ///< instructions executed by all warps
  std::uint64_t effects = 0;  ///< changes by this CTA of memory and of anything that warps wait for
  std::map<std::uint32_t, Mbarrier> mbarriers;  ///< by address
  std::array<NamedBarrier, 16> named;
  std::vector<Warpgroup> warpgroups;
  std::int64_t free_registers = 0;
  std::vector<std::int64_t> warp_registers;  ///< per thread, by warp

  Warp& warp(int n) { return warps_[static_cast<std::size_t>(n)]; }
  const ir::Kernel& kernel() const { return launch.program.kernel(); }
  bool wants(Detector d) const { return findings.wants(d); }
  GlobalMemory& global() { return launch.global; }
  std::int64_t cta_number() const;
  std::uint64_t random(std::uint64_t below) { return rng_() % below; }

  /// Runs `f` after a random delay.
  void post_event(std::function<void()> f);
  void report(Warp& w, const Instr& i, Detector d, std::string text, int lane = -1,
              std::uint64_t address = 0, ir::OpId other = {});

  /// Reports a use of poison that op `origin` produced; `use` completes the message, e.g. "is
  /// stored to global memory". A quotient by zero is reported at its division.
  void report_poison(Warp& w, const Instr& i, ir::OpId origin, std::string_view use, int lane,
                     std::uint64_t address = 0);
  /// Reports poison in the active lanes (of `in`) of an operand that determines addresses or
  /// control.
  void must_be_defined(Warp& w, const Instr& i, Slot s, std::string_view what,
                       LaneMask in = ~LaneMask{0});
  /// Returns the value of an operand, which must be equal in all active lanes; reports a
  /// difference.
  std::int64_t uniform(Warp& w, const Instr& i, Slot s);

  /// Checks bounds and alignment of a shared access; returns false if it must be skipped.
  bool shared_access(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes, int lane,
                     std::uint32_t align = 0);
  bool global_access(Warp& w, const Instr& i, std::uint64_t address, std::uint64_t bytes, int lane,
                     std::uint32_t align = 0);
  /// Reports a write into a live mbarrier.
  void overwrites_barrier(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes,
                          int lane);
  /// Returns the mbarrier at an address if this warp may use it; otherwise reports and returns
  /// null.
  Mbarrier* mbarrier(Warp& w, const Instr& i, std::uint32_t address, int lane);

  /// Race checks. `tick` is the engine agent's; generic accesses use the warp's tick.
  void generic_read(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes, int lane);
  void generic_write(Warp& w, const Instr& i, std::uint32_t address, std::uint32_t bytes, int lane,
                     bool same_value);
  void engine_access(Warp& w, const Instr& i, Agent agent, Tick tick, bool async_proxy,
                     std::uint32_t address, std::uint32_t bytes, bool writes);

  /// Reports a repeating loop whose latest read of global memory is a plain load.
  void check_wait(Warp& w, const Instr& i);

  /// Race checks of global memory, under a lock that an op takes at its first access to memory that
  /// the kernel writes.
  using GlobalLock = std::unique_lock<std::mutex>;
  GlobalLock global_lock() { return GlobalLock(global().shadow().mutex(), std::defer_lock); }
  void touch_global(Warp& w, const Instr& i, GlobalLock& lock, std::uint64_t address,
                    std::uint64_t bytes, int lane, GlobalUse use);
  /// Reports a read of released memory.
  void check_released(Warp& w, const Instr& i, std::uint64_t address, std::uint64_t bytes,
                      int lane = -1);
  /// Returns true if the op stores what it computes from the elements it overwrites.
  bool updates(const Instr& i) const;
  /// Reports an element whose value is about to change, or is updated, if this op of the program
  /// has stored it already in this iteration.
  void check_repeat(Warp& w, const Instr& i, GlobalLock& lock, std::uint64_t address, int lane);
  /// The same for an access by an asynchronous engine.
  void touch_global(Warp& w, const Instr& i, Agent agent, Tick tick, std::uint64_t address,
                    std::uint64_t bytes, GlobalUse use);
  /// Apply the memory order of an atomic: release before its access, acquire after it.
  void release_global(Warp& w, LaneMask lanes, std::uint64_t address, std::string_view scope);
  void acquire_global(Warp& w, std::uint64_t address, std::string_view scope);

  /// Returns the CTA to whose memory an address of map_shared points, and sets `address` to the
  /// address in that CTA. Reports an access to a missing or finished CTA and returns null. Records
  /// the access, which must be ordered before that CTA's exit.
  Cta* map_cluster_address(Warp& w, const Instr& i, std::uint32_t& address, int lane);
  /// Returns the same for a read, after checking the read; null if it must be skipped.
  Cta* cluster_read(Warp& w, const Instr& i, std::uint32_t& address, std::uint32_t bytes, int lane);

  /// Starts a new tick for the warp: later accesses are not covered by earlier releases.
  void tick(Warp& w);
  /// Records that an op has synchronized the lanes of a warp and ordered their memory accesses.
  void sync_lanes(Warp& w);
  /// Adds the clocks that an arrival by `lanes` releases: the warp's accesses before its latest
  /// lane synchronization, and the accesses of `lanes` if they are all lanes or include lane 0.
  void release(Warp& w, LaneMask lanes, VisibleClocks& to);
  /// Reports an access to the memory of CTA `owner` that may follow its exit.
  void report_exit_race(ir::OpId op, int owner, int warp);
  /// Returns the warp's record of an mbarrier, and whether it is new.
  std::pair<LastWait*, bool> first_wait(int warp, int mbarrier) {
    const auto [it, is_new] = last_waits_.try_emplace({warp, mbarrier});
    return {&it->second, is_new};
  }
  /// Completes the phase if possible; called when arrivals or bytes of an mbarrier change.
  void complete_phase(Mbarrier& b);

 private:
  /// Latest access to this CTA's memory by a warp of another CTA.
  struct RemoteAccess {
    Tick tick = 0;
    ir::OpId op;
    Warp* by = nullptr;
  };

  bool run_warp(Warp& w);
  CtaStatus run_warps(std::int64_t instructions);
  bool stop_early();
  bool is_spinning() const;
  void check_remote_accesses();
  bool fire_due_events();
  bool advance_to_next_event();
  void report_exit_state();
  std::string describe_wait(Warp& w);
  void conflict(const Conflict& c);
  Detector classify(const Conflict& c) const;
  std::string side(const AccessRecord& r, bool writes) const;
  void global_conflict(const GlobalConflict& c);
  std::string global_side(const GlobalRecord& r, GlobalUse use) const;
  std::string last_change(std::uint64_t address);
  std::uint32_t home() const;
  /// Returns the clocks that a release by these lanes publishes at this scope.
  Foreign given_away(Warp& w, LaneMask lanes, std::string_view scope);
  void learn(Warp& w, const Foreign& what, std::string_view scope);
  void bind_arguments();

  std::mt19937_64 rng_;
  Shadow shadow_;
  GlobalShadow::OnConflict on_global_conflict_;
  std::deque<Warp> warps_;
  std::vector<Warp*> ready_, blocked_;
  bool complete_ = false, over_ = false;
  std::uint64_t executed_ = 0;  ///< instructions
  std::map<Agent, RemoteAccess> remote_accesses_;
  std::vector<Event> events_;  // heap, earliest first
  std::uint64_t event_order_ = 0;
  std::map<std::pair<int, int>, LastWait> last_waits_;
  // The access being checked, for conflict().
  Warp* accessing_ = nullptr;
  bool same_value_ = false;
};

}  // namespace tegula::sim
