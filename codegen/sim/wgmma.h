#pragma once
// State of the wgmmas of a warpgroup. A wgmma is one instruction of four warps: it is complete, and
// so are the groups waited for, only when all four have issued it.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "codegen/sim/program.h"

namespace tegula::sim {

/// One issued wgmma (all its k steps).
struct WgmmaIssue {
  int warps = 0;  ///< number of the four warps that have issued it
  ir::OpId op;
  std::uint64_t a = 0, b = 0;  ///< descriptors of the first warp
};

/// Accumulator of one warp between its first wgmma and the wait that returns it. Work is either
/// queued until its values are needed or computed at once, at random: both orders are valid for a
/// correct kernel.
struct Accumulator {
  std::vector<ir::Cell> value;        ///< register-major, 32 lanes each
  std::vector<std::uint32_t> poison;  ///< lane mask by register
  ir::OpId poison_origin;
  std::deque<std::pair<std::uint32_t, std::function<void()>>> queued;  ///< by sequence number
  std::uint32_t last = 0;   ///< sequence number of its latest wgmma
  std::uint32_t group = 0;  ///< commit group of that wgmma
  ir::OpId op;
};

/// The wgmmas of one warp, in order.
struct WgmmaQueue {
  std::uint32_t issued = 0;  ///< sequence number of the latest wgmma
  std::uint32_t open_group = 1;
  std::vector<std::uint32_t> group_end = {
      0};                       ///< sequence number of the last wgmma of each committed group
  std::uint32_t retired = 0;    ///< sequence number up to which wgmmas are known to be complete
  std::uint64_t fenced_at = 0;  ///< step of the warp's latest wgmma_fence
  bool needs_fence = true;      ///< accumulator registers were used since the latest fence
  std::deque<std::pair<std::uint32_t, ir::OpId>> a_reads;  ///< wgmmas in flight with A in registers
  std::vector<std::unique_ptr<Accumulator>> accumulators;  ///< by number in the pending register
  std::vector<std::uint32_t> in_flight;                    ///< numbers of the accumulators in
                                                           ///< flight
};

struct Warpgroup {
  std::vector<WgmmaIssue> issues = {{}};  ///< by sequence number
};

}  // namespace tegula::sim
