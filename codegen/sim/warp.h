#pragma once
// A warp: register file, active lanes, position, and asynchronous work in flight. It runs until it
// must wait and resumes at the same instruction.
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/sim/clock.h"
#include "codegen/sim/program.h"
#include "codegen/sim/wgmma.h"

namespace tegula::sim {

using ir::AttrName;
using ir::Cell;
using ir::Opcode;

class Cta;

inline constexpr int kLanes = 32;
using LaneMask = std::uint32_t;

/// Calls `f(lane)` for every set bit.
template <class F>
void for_lanes(LaneMask mask, const F& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

/// One level of divergence: the lanes to return to, and the lanes of an `if` that must still run
/// its second region.
struct Frame {
  LaneMask saved = 0;
  LaneMask other = 0;
  // State of a while loop:
  std::int64_t iterations = 0;
  int repeats = 0;            ///< consecutive iterations that began in the same state and changed
                              ///< nothing
  std::uint64_t state = 0;    ///< hash of the state at the start of the latest iteration
  std::uint64_t effects = 0;  ///< effects of the CTA at that start
  std::uint64_t began = 0;    ///< time of that start
};

/// Poison of a register: lanes whose lower and whose upper 16 bits are undefined.
using PoisonedHalves = std::array<LaneMask, 2>;

class Warp;

/// Reason why a warp is blocked. The text is formatted on demand.
struct Waiting {
  std::string (*text)(Warp&) = nullptr;  ///< null while it runs
  ir::OpId op;
  std::int64_t subject = 0;  ///< barrier number, address or amount
  std::int64_t detail = 0;
};

/// A loop whose iterations change nothing, and the warp's latest read of global memory.
struct Spin {
  ir::OpId loop;  ///< none while the warp makes progress
  ir::OpId read;
  std::uint64_t address = 0;
  std::int64_t value = 0;
  std::uint64_t effects = 0;  ///< effects of the CTA at the start of the latest iteration
  std::uint64_t since = 0;    ///< time of the start of the previous iteration
};

/// Commit groups of copies, which a thread waits for in order.
struct CopyGroups {
  Tick open = 1;                        ///< number of the group being filled
  std::vector<int> in_flight = {0, 0};  ///< copies that have not landed, by group number
  Tick newest = 0, waited = 0;          ///< newest group that contains a copy; newest group waited
                                        ///< for
  ir::OpId last;                        ///< latest copy, for messages

  void issue(ir::OpId op) {
    ++in_flight[open];
    newest = open;
    last = op;
  }
  void commit() {
    ++open;
    in_flight.push_back(0);
  }
  /// Returns the newest group that `wait_group count` retires.
  Tick retired(std::int64_t count) const {
    const std::int64_t g = std::int64_t{open} - 1 - count;
    return g > 0 ? static_cast<Tick>(g) : 0;
  }
  bool landed(Tick group) {
    while (landed_ < group && in_flight[landed_ + 1] == 0) ++landed_;
    return landed_ >= group;
  }

 private:
  Tick landed_ = 0;  ///< all groups up to this one have landed
};

class Warp {
 public:
  Warp(Cta& cta, const DecodedKernel& program, int index, LaneMask alive);

  // ---- registers --------------------------------------------------------------------------------
  const SlotInfo& info(Slot s) const { return program_.slot(s); }
  /// First register of the value; a register is 32 cells, and registers are contiguous.
  ir::Cell* cells(Slot s) { return cells_.get() + std::size_t{info(s).first} * kLanes; }
  ir::Cell& cell(Slot s, std::uint32_t reg, int lane) {
    return cells(s)[reg * kLanes + static_cast<std::uint32_t>(lane)];
  }
  /// Lane mask of each register: lanes whose value is undefined.
  LaneMask* poison(Slot s) { return poison_.data() + info(s).first; }
  bool has_poison(Slot s) const { return state_[s].has_poison; }
  /// Lanes in which any register of the value is poisoned.
  LaneMask poisoned_lanes(Slot s) const;
  ir::OpId poison_origin(Slot s) const { return state_[s].origin; }
  /// Lanes of a 32-bit register whose lower (0) or upper (1) 16 bits are undefined: a register that
  /// ldmatrix fills may be half defined.
  LaneMask poisoned_half(Slot s, std::uint32_t reg, std::size_t half) {
    const auto& halves = state_[s].halves;
    return halves.empty() ? poison(s)[reg] : halves[reg][half];
  }
  /// Call after writing a result: clears or keeps its poison.
  void wrote_clean(Slot s);
  void wrote_poison(Slot s, ir::OpId origin);
  /// The same if poison is known per half.
  void wrote_halves(Slot s, std::vector<PoisonedHalves> halves, ir::OpId origin);
  void copy(Slot to, Slot from, LaneMask lanes);
  /// Copies simultaneously in the active lanes; a source may also be a destination.
  void copy_together(std::span<const Slot> from, std::span<const Slot> to);

  // ---- wgmma order ------------------------------------------------------------------------------
  /// Time at which an ordinary instruction last wrote the value; compared with the last
  /// wgmma_fence.
  std::uint64_t written(Slot s) const { return state_[s].written; }
  void set_written(Slot s, std::uint64_t when) { state_[s].written = when; }
  /// Sequence number of the wgmma that reads the registers of this value as A; 0: none.
  std::uint32_t a_fragment_of(Slot s) const { return state_[s].a_fragment; }
  void set_a_fragment(Slot s, std::uint32_t sequence) { state_[s].a_fragment = sequence; }

  /// Records a read in a loop that changes nothing, for deadlock reports.
  void has_read(ir::OpId op, std::uint64_t address, ir::Cell value) {
    spin.read = op;
    spin.address = address;
    spin.value = value.i;
  }
  LaneMask bits(Slot s, std::uint32_t reg = 0);  ///< lanes whose i1 is set

  Cta& cta;
  const int index;
  const LaneMask alive;  ///< lanes that exist
  LaneMask mask;         ///< active lanes
  std::uint32_t pc = 0;
  std::vector<Frame> frames;
  bool done = false;
  Waiting waiting;
  Spin spin;
  std::uint32_t turn = 0;   ///< loop iterations completed so far
  std::uint64_t steps = 0;  ///< instructions executed
  std::uint64_t moved = 0;  ///< time after the latest instruction

  // Synchronizations that order the memory accesses of a warp's lanes: bar.warp.sync, and barriers
  // of several warps. Other convergent instructions, including shuffles, do not (PTX ISA,
  // "shfl.sync").
  std::uint32_t warp_syncs = 1;  ///< number so far, plus 1
  Tick last_sync_tick = 0;       ///< the warp's tick at the latest one

  std::int64_t barrier_generation = -1;  ///< generation of the named barrier it waits in; -1: none
  /// Phase of the cluster barrier at which the warp has arrived but not yet waited; -1: none.
  std::int64_t cluster_phase = -1;

  VisibleClocks known;
  CopyGroups cp_async, bulk,
      bulk_writes;  ///< bulk: sources not yet read; bulk_writes: destinations
  WgmmaQueue wgmma;

 private:
  struct SlotState {
    bool has_poison = false;
    ir::OpId origin;
    std::vector<PoisonedHalves> halves;  ///< per register; empty: poisoned registers are poisoned
                                         ///< as a whole
    std::uint64_t written = 0;
    std::uint32_t a_fragment = 0;
  };

  void load_constants();
  void copy_state(SlotState& to, LaneMask* to_poison, const SlotState& from,
                  const LaneMask* from_poison, std::uint32_t regs, LaneMask lanes);

  const DecodedKernel& program_;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<ir::Cell[], Free>
      cells_;  // from calloc: pages of roles that this warp never runs stay unmapped
  std::vector<LaneMask> poison_;
  std::vector<SlotState> state_;
};

}  // namespace tegula::sim
