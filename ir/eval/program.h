#pragma once
// One running program of the interpreter: its values, its shared memory, its memory accesses and
// its fault reports.
#include <deque>
#include <mutex>

#include "ir/eval/memory.h"
#include "ir/eval/step_race.h"

namespace tegula::ir::interp {

/// States of a tile's element other than a plain number. The last two occur only in shared memory.
enum ElementState : std::uint8_t { kAbsent = 1, kPoison = 2, kUnwritten = 4, kInFlight = 8 };

/// An allocation of shared memory.
struct SharedTile {
  DType dtype{};
  Ints shape;
  std::int64_t offset = -1;  ///< bytes in dynamic shared memory, -1 until allocated
  std::int64_t bytes = 0;
  std::vector<Cell> cells;
  std::vector<std::uint8_t> states;
  std::vector<std::int64_t> expected;  ///< bytes announced minus bytes copied, per channel slot
  std::vector<std::uint32_t> writers,
      readers;  ///< role tags, sized when a role first accesses the tile
};

/// A view at an address. Its base is null if no argument contains the address.
struct MadeView {
  TensorArg tensor;
  std::int64_t address = 0;
};

/// The value of one SSA name. Tiles have one cell per element in row-major order, or a single cell
/// if all elements are equal.
struct TileValue {
  std::vector<Cell> cells;
  /// Empty, or the ElementState of each cell.
  std::vector<std::uint8_t> states;
  /// Flags of the indices of each dimension that are outside the tensor from which the tile was
  /// loaded, one dimension after another; empty if all are inside. Separate from `states` because
  /// reductions and dot need the dimension.
  std::vector<std::uint8_t> edges;
  OpId origin;                           ///< op that produced the first poisoned element
  const MemoryRegion* region = nullptr;  ///< memory of a view; null if no argument contains it
  std::shared_ptr<const MadeView> made;  ///< for a view created by a make_view
  std::shared_ptr<SharedTile> shared;

  /// Resets the value to `count` plain cells of unspecified value.
  void reset(std::size_t count) {
    cells.resize(count);
    states.clear();
    edges.clear();
    origin = OpId();
  }
  void set_scalar(Cell c) {
    reset(1);
    cells[0] = c;
  }
  /// Marks these coordinates as absent in addition to the current ones.
  void join_edges(const std::vector<std::uint8_t>& more) {
    if (edges.empty())
      edges = more;
    else
      for (std::size_t i = 0; i < more.size(); ++i) edges[i] |= more[i];
  }
  /// Returns the flags of the indices along dimension `dim` of a tile of this shape; empty if all
  /// are inside.
  std::span<const std::uint8_t> edge(std::span<const std::int64_t> shape, std::size_t dim) const {
    if (edges.empty()) return {};
    std::size_t first = 0;
    for (std::size_t d = 0; d < dim; ++d) first += static_cast<std::size_t>(shape[d]);
    return std::span(edges).subspan(first, static_cast<std::size_t>(shape[dim]));
  }
  bool is_plain() const { return states.empty() && edges.empty(); }
  std::size_t stride() const { return cells.size() == 1 ? 0 : 1; }
  std::uint8_t state(std::size_t i) const { return states.empty() ? 0 : states[i * stride()]; }
  void add_state(std::size_t i, std::uint8_t bits) {
    if (states.empty()) states.assign(cells.size(), 0);
    states[i] |= bits;
  }
};

/// An asynchronous copy to shared memory that has not landed.
struct AsyncCopy {
  std::shared_ptr<SharedTile> to;
  std::size_t first = 0;
  std::vector<Cell> cells;
};
/// A copy that is counted by a channel's slot.
struct ChannelCopy {
  AsyncCopy copy;
  const SharedTile* channel = nullptr;
  std::int64_t slot = 0;
};
struct AsyncCopies {
  std::vector<AsyncCopy> open;
  std::deque<std::vector<AsyncCopy>> groups;
  std::vector<ChannelCopy> bulk;
};

class ProgramScheduler;

/// State of the grid barrier of a launch.
struct GridBarrierState {
  std::int64_t arrived = 0;
  std::uint64_t generation = 0;
  /// Addresses that identify the barrier's generations in the race detector, alternately: a program
  /// may arrive at the next barrier before another has left the last one.
  std::array<std::byte, 2> tokens{};
};

/// State that all programs of one launch share.
struct Evaluation {
  Evaluation(const Kernel& k, std::span<const EvalArg> a, const EvalOptions& o, bool track_races)
      : kernel(k), args(a), options(o), memory(k, a, o.reachable, track_races) {}

  const Kernel& kernel;
  std::span<const EvalArg> args;
  const EvalOptions& options;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  /// True if one program runs at a time, to its end, so that memory does not change otherwise.
  bool is_sequential = false;
  ProgramScheduler* scheduler = nullptr;  ///< null unless programs may wait for one another
  GridBarrierState grid_barrier;
  std::int64_t registers_read = 0;  ///< number of reads by read_register
  Memory memory;
  std::mutex mutex;  ///< guards the members below
  struct LocatedFinding {
    OpId op;
    Finding finding;
  };
  std::vector<LocatedFinding> found;
  /// An element that a store dropped.
  struct Drop {
    OpId op;
    const MemoryRegion* region = nullptr;
    const std::byte* at = nullptr;
    std::array<std::int64_t, 3> program{};
  };
  std::vector<Drop> drops;
  /// Counts a repeated finding; returns true for repeats, and if there are enough findings.
  bool counts(FindingKind kind, OpId op);

  std::array<std::int64_t, 3> coordinates(std::int64_t program) const {
    return {program % grid[0], program / grid[0] % grid[1], program / grid[0] / grid[1]};
  }
};

class Program {
 public:
  explicit Program(Evaluation& evaluation);
  /// Runs the kernel's body as program number `index`.
  void run(std::int64_t index);
  /// For eager execution, while the kernel is built: starts as program `index`; then execute() runs
  /// one op at a time.
  void start(std::int64_t index);
  void execute(OpId op);
  /// Executes a region and returns its terminator (none if it has no ops after the last effect).
  OpId run_region(RegionId region);

  Evaluation& evaluation() { return evaluation_; }
  const Kernel& kernel() const { return evaluation_.kernel; }
  const OpData& op(OpId id) const { return kernel()[id]; }
  const AttrList& attrs(OpId id) const { return op(id).attrs; }
  std::array<std::int64_t, 3> coordinates() const { return evaluation_.coordinates(index_); }

  TileValue& value(Value v) { return values_[v.index]; }
  TileValue& operand(OpId id, std::size_t i) { return value(op(id).operands[i]); }
  TileValue& result(OpId id, std::size_t i = 0) { return value(op(id).results[i]); }
  Type operand_type(OpId id, std::size_t i) const { return kernel().type(op(id).operands[i]); }
  Type result_type(OpId id, std::size_t i = 0) const { return kernel().type(op(id).results[i]); }

  /// Returns the cells of `v`, one for each of its elements.
  const Cell* dense(Value v);
  /// Returns the state of each element, edges included, or null if all are plain. Valid until the
  /// next call with this slot.
  const std::uint8_t* states(Value v, std::size_t slot = 0);
  /// Returns the scalar operand as an integer. Reports poison and absence as a use ("a loop bound")
  /// and returns nothing for them.
  std::optional<std::int64_t> integer(OpId id, Value v, std::string_view used_as);
  std::optional<std::int64_t> integer(OpId id, std::size_t i, std::string_view used_as) {
    return integer(id, op(id).operands[i], used_as);
  }

  template <class Text>
  void report(FindingKind kind, OpId op, Loc loc, const Text& text);
  /// Reports `<op> <before> poison <after>`.
  void report_poison(OpId op, std::string_view before, std::string_view after, OpId origin);

  /// Report an access to `size` bytes of `region` at `address` to the race detector.
  void touch_read(const MemoryRegion& region, const std::byte* address, std::size_t size, OpId op);
  bool checks_released() const { return !evaluation_.options.released.empty(); }
  /// Reports a read of released memory.
  void check_released(const MemoryRegion& region, const std::byte* address, std::size_t size,
                      OpId op);
  void touch_write(const MemoryRegion& region, const std::byte* address, std::size_t size, OpId op);
  /// Reports an element of `stored` that was written twice, with different values; clears the list.
  void report_repeats(OpId op);
  /// `sem`: memory order of the op, as in its attribute.
  void touch_atomic(const MemoryRegion& region, const std::byte* address, std::size_t size, OpId op,
                    std::string_view sem);

  /// Lets other programs run, if they can, until one has changed memory. Returns false if none can.
  bool wait_for_others();
  /// Lets other programs run for a while although this one can continue.
  void let_others_run();
  [[noreturn]] void stop_deadlocked(OpId op, std::string why) const;

  /// Establish the order before and after a synchronization of programs at `token`.
  void release_at(const std::byte* token) { evaluation_.memory.races.release(token, clock_); }
  void acquire_at(const std::byte* token) { evaluation_.memory.races.acquire(token, clock_); }

  /// The program's last read of global memory. A loop that changes nothing waits for its value to
  /// change.
  struct LastRead {
    const MemoryRegion* region = nullptr;
    const std::byte* at = nullptr;
    OpId op;
  };
  LastRead last_read;
  /// An element that the current store has written.
  struct StoredElement {
    const MemoryRegion* region = nullptr;
    const std::byte* at = nullptr;
    std::uint64_t bits = 0;
    bool is_new = false;  ///< the store changed the element
  };
  std::vector<StoredElement> stored;
  std::vector<OpId> dropped;    ///< stores that dropped an element
  std::int64_t iterations = 0;  ///< of all loops so far
  std::uint64_t effects = 0;    ///< number of changes of global or shared memory so far

  AsyncCopies asyncs;
  std::vector<std::weak_ptr<SharedTile>> placed;  ///< allocations with an offset, which may overlap
  std::vector<TileValue> carry_scratch;  ///< keeps its buffers between iterations of a loop
  std::vector<StepRaces> independent;    ///< enclosing independent loops, outermost first
  std::uint32_t role_tag = 0;  ///< 0 outside of roles; else (execution of `roles`) * 64 + role + 1
  std::uint32_t role_runs = 0;

 private:
  void bind_params();
  bool count_repeat(FindingKind kind, OpId op);
  void add_finding(FindingKind kind, OpId op, Loc loc, std::string text,
                   std::uintptr_t address = 0);
  void touch_in_steps(const MemoryRegion& region, const std::byte* address, std::size_t size,
                      OpId op, StepUse use);
  void report_race(const MemoryRegion& region, const std::byte* address, OpId op, Touch other);

  Evaluation& evaluation_;
  std::int64_t index_ = 0;
  std::vector<TileValue> values_;
  std::array<std::vector<std::uint8_t>, 4> state_scratch_;
  ProgramClock clock_;
};

template <class Text>
void Program::report(FindingKind kind, OpId op, Loc loc, const Text& text) {
  if (!evaluation_.options.check) return;
  if (!count_repeat(kind, op)) add_finding(kind, op, loc, text());
}

/// Executes one op.
using EvalFn = void (*)(Program&, OpId);
EvalFn eval_fn(Opcode op);

/// Returns "k.cpp:3:7".
std::string str(Loc loc);
/// Returns "the op at k.cpp:3:7", or without a location the mnemonic: "load".
std::string op_at(const Kernel& k, OpId op);
/// Returns the row-major index of element `i`, "[3, 17]".
std::string index_str(std::span<const std::int64_t> shape, std::int64_t i);

#define ROW(Name, ...) void eval_##Name(Program&, OpId);
#define SIMT_OP(...)
#include "ir/op_rows.h"

}  // namespace tegula::ir::interp
