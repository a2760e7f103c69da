#pragma once
// The interpreter of the tile and machine forms: the meaning of every op, and the oracle of every
// test. A kernel is run for each program of its launch grid on host memory, and what no program may
// do is reported.
//
// Numerics: integers are exact. Elementwise ops are those of ir/eval/cell.h. sum, prod, scan and
// dot are computed in double and rounded once to the result's type, so a device that adds n terms
// in f32 differs by at most n * 2^-24 * sum |terms|; dot with precision tf32 first rounds its
// operands to 10 fraction bits, to nearest even. Raw addresses are virtual: arguments lie so far
// apart that no stray offset of one falls into another. Programs run to completion one after
// another, those of a cluster side by side (or on two threads where they share no atomics). Where
// they may wait for one another, one that waits gives way (program_scheduler.h); a wait that
// nothing can end, a loop that changes nothing, and one of more than `loop_limit` iterations, are
// an error.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/eval/cell.h"

namespace tegula::ir {

/// A view argument on host memory.
struct TensorArg {
  void* base = nullptr;  ///< address of the element with all indices 0
  Ints dims;
  Ints strides;  ///< elements; may be negative or zero
  DType dtype = DType::f32;
};

/// A pointer argument and the bytes [begin, end) that may be reached through it.
struct PointerArg {
  void* base = nullptr;
  void* begin = nullptr;
  void* end = nullptr;
};

/// The index of the element that begins at an address; none where it falls between elements. The
/// address must lie in the tensor's memory.
std::optional<Ints> index_of_address(const TensorArg& tensor, std::uint64_t address);

/// One a kernel parameter in tile and machine form. Where parameters have the attribute `arg` (simt
/// form's flattened ones) it is the index here.
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
/// Stable, "T1301".
constexpr std::string_view code(FindingKind kind) { return row(kind).code; }

/// One fault of the program that ran, reported once per op and kind.
struct Finding {
  FindingKind kind{};
  std::string text;
  Loc loc;
  std::array<std::int64_t, 3> program{};  ///< the first program it was seen in
  std::int64_t count = 1;                 ///< elements, over all programs

  /// "race: ... (program 1, 0, 0)"
  std::string what() const;
  /// "k.cpp:12:3: race: ... (program 1, 0, 0)"
  std::string str() const;
};

struct EvalReport {
  std::vector<Finding> findings;
  bool clean() const { return findings.empty(); }
  std::string str() const;
};

/// Bytes [begin, begin + bytes) of the host.
struct HostMemory {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

struct EvalOptions {
  /// Track races and report faults. Without it a fault has no defined result, but never touches
  /// memory of others.
  bool check = true;
  /// Report elements of Out arguments (but partial ones) that no program stored.
  bool find_unstored = false;
  /// Run the programs in an order drawn from this seed instead of ascending.
  std::optional<std::uint64_t> shuffle_seed;
  /// 0 chooses. Kernels with atomics always run on one thread, so that every run gives the same
  /// bits.
  int threads = 0;
  /// Memory beside that of the arguments, for kernels that take addresses.
  std::span<const HostMemory> reachable = {};
  /// Iterations of one loop after which it is taken to be endless.
  std::int64_t loop_limit = 10'000'000;
};

/// Whether the kernel makes pointers of integers.
bool takes_addresses(const Kernel& kernel);

/// Programs along each axis of a grid that a GPU launches (CUDA C programming guide, compute
/// capabilities).
inline constexpr std::int64_t kMaxPrograms[3] = {2147483647, 65535, 65535};

/// Extents of the launch grid. Throws CompileError where one is divided by 0 or that of no grid.
std::array<std::int64_t, 3> evaluate_launch(const Kernel& kernel, std::span<const EvalArg> args);

/// Runs every program of the grid. Throws CompileError where an op cannot be executed on the host,
/// ProgramError where a loop does not end.
EvalReport evaluate(const Kernel& kernel, std::span<const EvalArg> args,
                    const EvalOptions& options = {});

}  // namespace tegula::ir
