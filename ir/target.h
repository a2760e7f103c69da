#pragma once
// The target table: one row per GPU architecture that code is compiled for (ir/targets.def).
// Passes, plans and emitters read features and limits from a row; they do not compare names. Rates
// that were measured on a GPU belong to its device profile (tegula/device_profile.h).
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tegula::ir {

// Shapes of instructions, which are the same on every target that has them (PTX ISA).

/// Warps and threads that issue one wgmma or setmaxnreg together.
inline constexpr int kWarpgroupWarps = 4, kWarpgroupThreads = 128;
/// Rows of an accumulator per warp, for mma.m16n8 and wgmma, and columns of mma.m16n8.
inline constexpr int kWarpRows = 16, kMmaColumns = 8;
/// Rows of one wgmma, and the maximum columns of its accumulator.
inline constexpr int kWgmmaRows = kWarpgroupWarps * kWarpRows, kMaxWgmmaColumns = 256;
/// Bytes of a row of A that one mma or wgmma takes along k.
inline constexpr int kMmaStepBytes = 32;
/// Barriers of a CTA, barrier 0 included.
inline constexpr int kNamedBarriers = 16;
/// Number of rows after which a swizzle of shared memory repeats.
inline constexpr int kSwizzleRows = 8;

/// Features and limits of one target.
struct TargetRow {
  std::string_view name;  ///< as ptxas and the text form spell it
  int capability = 0;     ///< compute capability, 90 for 9.0
  /// The code runs on GPUs of exactly this capability, not on newer ones.
  bool is_specific = false;

  bool has_tma = false;
  bool has_wgmma = false;     ///< and setmaxnreg
  bool has_clusters = false;  ///< and multicast, distributed shared memory
  bool has_stmatrix = false;
  bool has_dependent_launch = false;  ///< griddepcontrol
  bool has_f8 = false;                ///< conversions and tensor core products of 8-bit floats
  bool has_bf16_arithmetic = false;   ///< atom.add and conversions from integers in bf16

  std::int64_t shared_bytes_per_cta = 0;  ///< maximum dynamic shared memory of a CTA
  std::int64_t shared_bytes_per_sm = 0;
  std::int64_t shared_bytes_reserved = 1024;  ///< bytes that the system reserves in each CTA
  int registers_per_sm = 65536;
  int sub_partitions = 4;   ///< per SM, each with its share of registers and of a CTA's warps
  int max_registers = 255;  ///< registers of a thread, as ptxas allocates them
  int register_unit = 8;    ///< registers of a thread are allocated in multiples of this
  /// Minimum and maximum registers per thread that setmaxnreg supports.
  int least_setmaxnreg = 24, most_setmaxnreg = 240;
  int max_threads_per_cta = 1024;
  int max_threads_per_sm = 2048;
  int max_ctas_per_sm = 32;

  /// Returns the registers available to a thread if one CTA with this many warps fills the SM and
  /// all warps have the same number. A sub-partition holds its share of the warps, rounded up.
  constexpr int registers_at_entry(int warps) const {
    const int in_partition = (warps + sub_partitions - 1) / sub_partitions;
    const int fair = registers_per_sm / sub_partitions / (32 * in_partition);
    return std::min(max_registers, fair / register_unit * register_unit);
  }
  /// Returns the registers that setmaxnreg can give a consumer thread if a CTA has this many
  /// consumer and producer warps and a producer thread keeps `kept`.
  constexpr int max_consumer_registers(int consumer_warps, int producer_warps, int kept) const {
    const int warps = consumer_warps + producer_warps, all = registers_at_entry(warps) * warps;
    const int available = all - std::max(kept, least_setmaxnreg) * producer_warps;
    return std::min(most_setmaxnreg, available / consumer_warps / register_unit * register_unit);
  }
  /// Returns the shared memory of a CTA for the rings of a mainloop: all except the space for
  /// mbarriers and alignment.
  constexpr std::int64_t ring_bytes() const { return shared_bytes_per_cta - 2 * 1024; }
};

namespace detail {
inline constexpr TargetRow kTargets[] = {
#define TARGET(id, ...) {.name = #id, __VA_ARGS__},
#include "ir/targets.def"
#undef TARGET
};
}  // namespace detail

/// A row of the target table. Copies are cheap; two are equal if they refer to one row.
class Target {
 public:
  /// The newest target, which the simulator runs.
  constexpr Target() : row_(std::end(detail::kTargets) - 1) {}
  /// The target of this name; an unknown name does not compile.
  explicit consteval Target(const char* name) : row_(find(name).value().row_) {}

  /// Returns the target of this name; nothing if there is none.
  static constexpr std::optional<Target> find(std::string_view name) {
    for (const TargetRow& row : detail::kTargets)
      if (row.name == name) return Target(row);
    return std::nullopt;
  }
  /// Returns all targets, oldest first.
  static std::span<const Target> all();
  /// Returns "sm_80 and sm_90a", for messages.
  static std::string all_names();
  /// Returns the newest target whose code a GPU of this compute capability runs; the oldest target
  /// if there is none.
  static Target of_capability(int capability);

  constexpr const TargetRow* operator->() const { return row_; }
  constexpr const TargetRow& operator*() const { return *row_; }
  constexpr std::string_view name() const { return row_->name; }
  friend constexpr bool operator==(Target, Target) = default;

  /// Returns the architecture to assemble for if a GPU of this capability runs the code: the GPU's
  /// own architecture if some row has it, so that the GPU runs its native machine code.
  std::string assembled_for(int capability) const;

 private:
  explicit constexpr Target(const TargetRow& row) : row_(&row) {}
  const TargetRow* row_;
};

/// Resources that one CTA uses on an SM.
struct CtaNeeds {
  int threads = 0;
  int registers = 0;  ///< registers of a thread; 0: not known, and not counted
  std::int64_t shared_bytes = 0;
};
/// Returns the number of CTAs that are resident on one SM (occupancy).
int ctas_per_sm(const TargetRow& target, const CtaNeeds& needs);

}  // namespace tegula::ir
