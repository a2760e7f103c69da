#pragma once
// The target table: one row per GPU architecture that code is compiled for (ir/targets.def).
// Passes, plans and emitters ask a row for features and limits; they compare no names. Rates that
// were measured on a GPU belong to its device profile (tegula/device_profile.h).
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
/// Rows of an accumulator that one warp holds, of mma.m16n8 and of wgmma, and columns of mma.m16n8.
inline constexpr int kWarpRows = 16, kMmaColumns = 8;
/// Rows of one wgmma, and the most columns of its accumulator.
inline constexpr int kWgmmaRows = kWarpgroupWarps * kWarpRows, kMaxWgmmaColumns = 256;
/// Bytes of a row of A that one mma or wgmma takes along k.
inline constexpr int kMmaStepBytes = 32;
/// Barriers of a CTA, barrier 0 included.
inline constexpr int kNamedBarriers = 16;
/// Rows that a swizzle of shared memory repeats after.
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

  std::int64_t shared_bytes_per_cta = 0;  ///< the most dynamic shared memory of a CTA
  std::int64_t shared_bytes_per_sm = 0;
  std::int64_t shared_bytes_reserved = 1024;  ///< that the system takes of each CTA
  int registers_per_sm = 65536;
  int sub_partitions = 4;   ///< of an SM, each with its share of registers and of a CTA's warps
  int max_registers = 255;  ///< of a thread, as ptxas allocates them
  int register_unit = 8;    ///< registers of a thread are allocated in multiples of this
  /// Registers that setmaxnreg can leave to a thread, at least and at most.
  int least_setmaxnreg = 24, most_setmaxnreg = 240;
  int max_threads_per_cta = 1024;
  int max_threads_per_sm = 2048;
  int max_ctas_per_sm = 32;

  /// Registers that a thread can have where a CTA of so many warps fills the SM alone and every
  /// warp has as many: a sub-partition holds its share of the warps, rounded up.
  constexpr int registers_at_entry(int warps) const {
    const int in_partition = (warps + sub_partitions - 1) / sub_partitions;
    const int fair = registers_per_sm / sub_partitions / (32 * in_partition);
    return std::min(max_registers, fair / register_unit * register_unit);
  }
  /// Registers that setmaxnreg can give a consumer thread where a CTA has so many consumer and
  /// producer warps and a producer thread keeps `kept`.
  constexpr int setmaxnreg_beside(int consumer_warps, int producer_warps, int kept) const {
    const int warps = consumer_warps + producer_warps, all = registers_at_entry(warps) * warps;
    const int left = all - std::max(kept, least_setmaxnreg) * producer_warps;
    return std::min(most_setmaxnreg, left / consumer_warps / register_unit * register_unit);
  }
  /// Shared memory of a CTA for the rings of a mainloop: all but what mbarriers and alignment take.
  constexpr std::int64_t ring_bytes() const { return shared_bytes_per_cta - 2 * 1024; }
};

namespace detail {
inline constexpr TargetRow kTargets[] = {
#define TARGET(id, ...) {.name = #id, __VA_ARGS__},
#include "ir/targets.def"
#undef TARGET
};
}  // namespace detail

/// A row of the target table. Copies are cheap; two are equal if they are of one row.
class Target {
 public:
  /// The newest target, which the simulator runs.
  constexpr Target() : row_(std::end(detail::kTargets) - 1) {}
  /// The target of this name; another name does not compile.
  explicit consteval Target(const char* name) : row_(find(name).value().row_) {}

  /// The target that a text names; nothing if there is none.
  static constexpr std::optional<Target> find(std::string_view name) {
    for (const TargetRow& row : detail::kTargets)
      if (row.name == name) return Target(row);
    return std::nullopt;
  }
  /// All of them, oldest first.
  static std::span<const Target> all();
  /// "sm_80 and sm_90a", for messages.
  static std::string all_names();
  /// The newest target whose code a GPU of this compute capability runs; the oldest one where there
  /// is none.
  static Target of_capability(int capability);

  constexpr const TargetRow* operator->() const { return row_; }
  constexpr const TargetRow& operator*() const { return *row_; }
  constexpr std::string_view name() const { return row_->name; }
  friend constexpr bool operator==(Target, Target) = default;

  /// Architecture to assemble for where a GPU of this capability is to run the code: the GPU's
  /// own architecture where some row knows it, so that its own machine code runs.
  std::string assembled_for(int capability) const;

 private:
  explicit constexpr Target(const TargetRow& row) : row_(&row) {}
  const TargetRow* row_;
};

/// Resources that one CTA takes of an SM.
struct CtaNeeds {
  int threads = 0;
  int registers = 0;  ///< of a thread; 0: not known, and not counted
  std::int64_t shared_bytes = 0;
};
/// CTAs that one SM holds at once (occupancy).
int ctas_per_sm(const TargetRow& target, const CtaNeeds& needs);

}  // namespace tegula::ir
