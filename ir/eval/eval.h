#pragma once
// The interpreter of the tile and machine forms. It defines the semantics of every op and is the
// oracle of every test. It runs a kernel for each program of its launch grid on host memory, and
// reports the faults of the programs.
//
// Numerics: integers are exact. Elementwise ops are those of ir/eval/cell.h. sum, prod, scan and
// dot are computed in double and rounded once to the result's type, so a device that adds n terms
// in f32 differs by at most n * 2^-24 * sum |terms|; dot with precision tf32 first rounds its
// operands to 10 fraction bits, to nearest even. Raw addresses are virtual: the arguments are so
// far apart that an out-of-bounds offset of one never reaches another. Programs run to completion
// one at a time (on two threads if they have no atomics), and those of a cluster in lockstep. If
// programs may wait for one another, a waiting program lets others run (program_scheduler.h). A
// wait that can never end, a loop that changes nothing, and a loop of more than `loop_limit`
// iterations are errors.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/eval/cell.h"
#include "ir/eval/released_memory.h"

namespace tegula::ir {

/// A view argument on host memory.
struct TensorArg {
  void* base = nullptr;  ///< address of the element with all indices 0
  Ints dims;
  Ints strides;  ///< elements; may be negative or zero
  DType dtype = DType::f32;
};

/// A pointer argument and the bytes [begin, end) that may be accessed through it.
struct PointerArg {
  void* base = nullptr;
  void* begin = nullptr;
  void* end = nullptr;
};

/// Returns the index of the element that begins at an address, or nothing if the address is between
/// elements. The address must be in the tensor's memory.
std::optional<Ints> index_of_address(const TensorArg& tensor, std::uint64_t address);

/// The argument of one kernel parameter in tile and machine form. For parameters with the attribute
/// `arg` (the flattened ones of the simt form), `arg` is the index of the argument.
using EvalArg = std::variant<Cell, TensorArg, PointerArg>;

enum class FindingKind : std::uint8_t {
#define FINDING(kind, text, code, doc) kind,
#include "ir/eval/findings.def"
#undef FINDING
};
struct FindingRow {
  std::string_view name, code, meaning;
};
inline constexpr FindingRow kFindingRows[] = {
#define FINDING(kind, text, code, doc) {text, #code, doc},
#include "ir/eval/findings.def"
#undef FINDING
};
constexpr const FindingRow& row(FindingKind kind) {
  return kFindingRows[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name(FindingKind kind) { return row(kind).name; }
/// Returns the stable code of the kind, such as "T1301".
constexpr std::string_view code(FindingKind kind) { return row(kind).code; }

/// Returns the finding for an Assume of this kind that does not hold, or nothing if such an Assume
/// states a fact.
std::optional<FindingKind> finding_of(std::string_view kind);
/// Returns true if the numbers that the condition compares are part of the finding's text.
bool shows_numbers(FindingKind kind);

/// One fault of the program that ran, reported once per op and kind.
struct Finding {
  FindingKind kind{};
  std::string text;
  Loc loc;
  std::array<std::int64_t, 3> program{};  ///< the first program in which it was detected
  std::int64_t count = 1;                 ///< number of elements, over all programs
  std::uintptr_t address = 0;             ///< of the first element, if it is released memory

  /// Returns "race: ... (program 1, 0, 0)".
  std::string what() const;
  /// Returns "k.cpp:12:3: race: ... (program 1, 0, 0)".
  std::string str() const;
};

struct EvalReport {
  std::vector<Finding> findings;
  bool clean() const { return findings.empty(); }
  std::string str() const;
};

/// Bytes [begin, begin + bytes) of host memory.
struct HostMemory {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

struct EvalOptions {
  /// Track races and report faults. Without it a fault has no defined result, but never accesses
  /// memory outside the arguments.
  bool check = true;
  /// Report elements of Out arguments (except partial ones) that no program stored.
  bool find_unstored = false;
  /// Run the programs in an order drawn from this seed instead of ascending order.
  std::optional<std::uint64_t> shuffle_seed;
  /// Number of host threads; 0 chooses one. Kernels with atomics always run on one thread, so that
  /// every run yields the same bits.
  int threads = 0;
  /// Memory in addition to that of the arguments, for kernels that take addresses.
  std::span<const HostMemory> reachable = {};
  /// Elements of which reads are reported, ascending.
  std::span<const ReleasedMemory> released = {};
  /// Number of iterations after which a loop is considered endless.
  std::int64_t loop_limit = 10'000'000;
};

/// Returns true if the kernel converts integers to pointers.
bool takes_addresses(const Kernel& kernel);

/// Maximum number of programs along each axis of a grid that a GPU launches (CUDA C programming
/// guide, compute capabilities).
inline constexpr std::int64_t kMaxPrograms[3] = {2147483647, 65535, 65535};

/// Returns the extents of the launch grid. Throws CompileError if an extent divides by 0 or is not
/// valid for a grid.
std::array<std::int64_t, 3> evaluate_launch(const Kernel& kernel, std::span<const EvalArg> args);

/// Runs every program of the grid. Throws CompileError for inline PTX without a model and for an
/// invalid grid, ProgramError for a loop or wait that does not end, and InternalError if the
/// arguments do not match the parameters or the interpreter does not support an op.
EvalReport evaluate(const Kernel& kernel, std::span<const EvalArg> args,
                    const EvalOptions& options = {});

}  // namespace tegula::ir
