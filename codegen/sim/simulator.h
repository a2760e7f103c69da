#pragma once
// Device `sim`: executes a kernel in simt form on the host, exactly and instrumented. Global memory
// is host memory; shared memory, barriers, TMA and wgmma are modeled with their asynchrony, so
// that races, deadlocks and missing fences are found without a GPU. `docs/simulator.md` documents
// the model's assumptions.
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/tensor_map.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::sim {

enum class Detector : std::uint8_t {
#define DETECTOR(Name, text, code, doc) Name,
#define SHARED_DETECTOR(Name, text, kind) Name,
#include "codegen/sim/detectors.def"
#undef DETECTOR
#undef SHARED_DETECTOR
};
#define DETECTOR(Name, text, code, doc) +1
#define SHARED_DETECTOR(Name, text, kind) +1
inline constexpr int kDetectorCount = 0
#include "codegen/sim/detectors.def"
    ;
#undef DETECTOR
#undef SHARED_DETECTOR

std::string_view name(Detector d);
/// Stable code, such as "T1301".
std::string_view code(Detector d);
std::string_view doc(Detector d);

/// Returns the detector of the same faults as the interpreter's finding.
Detector detector_of(ir::FindingKind kind);

class DetectorSet {
 public:
  static DetectorSet all() { return DetectorSet(); }
  static DetectorSet none() { return DetectorSet().clear(); }
  DetectorSet without(Detector d) const {
    auto s = *this;
    s.bits_.reset(index(d));
    return s;
  }
  DetectorSet with(Detector d) const {
    auto s = *this;
    s.bits_.set(index(d));
    return s;
  }
  bool has(Detector d) const { return bits_.test(index(d)); }

 private:
  static std::size_t index(Detector d) { return static_cast<std::size_t>(d); }
  DetectorSet clear() const {
    auto s = *this;
    s.bits_.reset();
    return s;
  }
  std::bitset<kDetectorCount> bits_ = std::bitset<kDetectorCount>().set();
};

/// One fault, where it was first seen; repetitions are only counted.
struct Finding {
  Detector kind{};
  std::string text;
  Loc loc;    ///< the op at fault
  Loc other;  ///< the other access, the op waited for, or the origin of a poison value
  std::array<int, 3> cta{};  ///< grid coordinates
  int warp = -1;
  int lane = -1;              ///< -1: the whole warp
  std::uint64_t address = 0;  ///< shared window address or global address
  std::int64_t count = 1;

  /// `kind: text (cta x,y,z warp w lane l)`
  std::string what() const;
  /// `file:line:column: kind: text (cta x,y,z warp w lane l)`
  std::string str() const;
};

/// Memory system utilization of the accesses of one op; only for ops that touched shared or global
/// memory.
struct AccessCounter {
  Loc loc;
  std::string_view op;
  std::int64_t requests = 0;          ///< warp-wide accesses
  std::int64_t wavefronts = 0;        ///< shared: passes over the banks
  std::int64_t ideal_wavefronts = 0;  ///< shared: passes without bank conflicts
  std::int64_t sectors = 0;           ///< global: 32-byte sectors
  std::int64_t ideal_sectors = 0;     ///< global: sectors if the bytes were contiguous

  std::int64_t bank_conflicts() const { return wavefronts - ideal_wavefronts; }
  std::int64_t excess_sectors() const { return sectors - ideal_sectors; }
};

struct Counters {
  std::int64_t instructions = 0;  ///< executed by warps; a fragment op counts once
  std::int64_t ctas = 0;
  std::int64_t wgmma_steps = 0;  ///< wgmma k steps of one warp
  std::int64_t tma_bytes = 0;
  std::vector<AccessCounter> accesses;  ///< in program order

  std::int64_t bank_conflicts() const;
  std::int64_t excess_sectors() const;
};

struct Report {
  std::vector<Finding> findings;
  Counters counters;

  bool clean() const { return findings.empty(); }
  const Finding* find(Detector d) const;
  /// One line per finding.
  std::string str() const;
};

/// Value of one parameter of a simt kernel: an integer or address, a float, or a tensor map (kept
/// alive by the caller).
using SimArg = std::variant<std::int64_t, double, const codegen::TensorMap*>;
inline SimArg arg_pointer(const void* p) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(p));
}

/// A store to an argument, as written in the source.
struct StoreSource {
  Loc loc;
  /// Says why the store left out an element; may be empty.
  std::function<std::string(std::span<const std::int64_t>)> left_out = {};
};

/// Addresses [begin, end) that a kernel may touch.
struct GlobalRange {
  const void* begin = nullptr;
  const void* end = nullptr;
  std::string name = {};                     ///< name of the argument, for findings
  std::optional<ir::TensorArg> tensor = {};  ///< the tensor that owns the elements, if any
  bool must_be_stored = false;               ///< the launch must store every element of `tensor`
  std::vector<StoreSource> stores = {};      ///< stores to `tensor`, if it must be stored
};

struct SimOptions {
  std::uint64_t seed = 1;  ///< seed of warp scheduling and of asynchronous completion
  DetectorSet detectors = DetectorSet::all();
  std::int64_t max_steps = 200'000'000;  ///< instructions of one CTA before the watchdog stops it
  std::int64_t loop_limit = 100'000;     ///< iterations that a warp may make of one while loop
  int max_delay = 400;                   ///< maximum delay of an asynchronous copy, in instructions
  int resident = 8;  ///< CTAs (or clusters) that one host thread may run alternately; those that
                     ///< wait for each other must fit
  int threads = 1;   ///< host threads that share the CTAs of the grid
  int max_findings = 64;                              ///< distinct findings kept
  std::vector<GlobalRange> ranges;                    ///< empty: global addresses are not checked
  std::span<const ir::ReleasedMemory> released = {};  ///< elements of which reads are reported
  /// Scatters of values that are computed from the elements they overwrite: of two equal indices,
  /// one update is lost even if the values are equal.
  std::vector<Loc> updates = {};
};

using Grid = std::array<int, 3>;

/// Runs every CTA of the grid. Throws CompileError for ops that the simulator cannot execute
/// (inline PTX).
Report simulate(const ir::Kernel& kernel, Grid grid, std::span<const SimArg> args,
                const SimOptions& options = {});

}  // namespace tegula::sim
