#pragma once
// One running program of the interpreter: its values, its shared memory, and how ops reach memory
// and report faults.
#include <deque>
#include <mutex>

#include "ir/eval/memory.h"
#include "ir/eval/step_race.h"

namespace tegula::ir::interp {

/// States of a tile's element besides a plain number. The last two only occur in shared memory.
enum ElementState : std::uint8_t { kAbsent = 1, kPoison = 2, kUnwritten = 4, kInFlight = 8 };

/// An allocation of shared memory.
struct SharedTile {
  DType dtype{};
  Ints shape;
  std::int64_t offset = -1;  ///< bytes in dynamic shared memory, -1 until allocated
  std::int64_t bytes = 0;
  std::vector<Cell> cells;
  std::vector<std::uint8_t> states;
  std::vector<std::int64_t> expected;  ///< bytes announced less bytes copied of a channel, by slot
  std::vector<std::uint32_t> writers,
      readers;  ///< role tags, sized when a role first touches the tile
};

/// A view at an address, whose base is null where no argument owns that.
struct MadeView {
  TensorArg tensor;
  std::int64_t address = 0;
};

/// The value of one SSA name. Tiles hold one cell an element in row-major order, or a single one
/// where all are equal.
struct TileValue {
  std::vector<Cell> cells;
  /// Empty, or the ElementState of each cell.
  std::vector<std::uint8_t> states;
  /// Indices of each dimension that lie outside the tensor from which the tile was loaded, one
  /// dimension after the other; empty if none does. Kept apart from `states` because reductions and
  /// dot need to know the dimension.
  std::vector<std::uint8_t> edges;
  OpId origin;                           ///< op that made the first poisoned element
  const MemoryRegion* region = nullptr;  ///< memory of a view; null for one that no argument owns
  std::shared_ptr<const MadeView> made;  ///< of a view that a make_view makes
  std::shared_ptr<SharedTile> shared;

  /// Becomes `count` plain cells of unspecified value.
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
  /// Lacks these coordinates, too.
  void join_edges(const std::vector<std::uint8_t>& more) {
    if (edges.empty())
      edges = more;
    else
      for (std::size_t i = 0; i < more.size(); ++i) edges[i] |= more[i];
  }
  /// Flags of the indices along dimension `dim` of a tile of this shape; empty if none is outside.
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

/// Copies on their way to shared memory.
struct AsyncCopy {
  std::shared_ptr<SharedTile> to;
  std::size_t first = 0;
  std::vector<Cell> cells;
};
/// A copy whose landing a channel's slot counts.
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

/// The meeting of a launch's programs in a grid_barrier.
struct GridMeeting {
  std::int64_t arrived = 0;
  std::uint64_t generation = 0;
  /// The race detector's names of the meetings, alternately: a program may arrive at the next
  /// one before another has left the last.
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
  /// One program runs at a time, to its end: nobody else changes memory meanwhile.
  bool is_sequential = false;
  ProgramScheduler* scheduler = nullptr;  ///< where programs may wait for one another
  GridMeeting meeting;
  std::int64_t registers_read = 0;  ///< by read_register
  Memory memory;
  std::mutex mutex;  ///< guards the members below
  struct LocatedFinding {
    OpId op;
    Finding finding;
  };
  std::vector<LocatedFinding> found;
  /// An element that a store left out.
  struct Drop {
    OpId op;
    const MemoryRegion* region = nullptr;
    const std::byte* at = nullptr;
    std::array<std::int64_t, 3> program{};
    std::string why;
  };
  std::vector<Drop> drops;
  /// Counts a finding that is there already; also true where there are enough.
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
  /// For who makes the kernel while it runs: starts as program `index`, then executes op by op.
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

  /// The cells of `v`, one for each of its `count` elements.
  const Cell* dense(Value v);
  /// The state of each element, edges included; null where all are plain. Valid until the next call
  /// with this slot.
  const std::uint8_t* states(Value v, std::size_t slot = 0);
  /// The scalar operand as an integer. Poison and absence are reported as a use ("a loop bound")
  /// and give nothing.
  std::optional<std::int64_t> integer(OpId id, std::size_t i, std::string_view used_as);

  template <class Text>
  void report(FindingKind kind, OpId op, Loc loc, const Text& text);
  /// `<op> <before> poison <after>`.
  void report_poison(OpId op, std::string_view before, std::string_view after, OpId origin);

  /// Tells the race detector; `size` bytes of `region` at `at`.
  void touch_read(const MemoryRegion& region, const std::byte* at, std::size_t size, OpId op);
  void touch_write(const MemoryRegion& region, const std::byte* at, std::size_t size, OpId op);
  /// `sem`: memory order of the op, as its attribute says it.
  void touch_atomic(const MemoryRegion& region, const std::byte* at, std::size_t size, OpId op,
                    std::string_view sem);

  /// Lets other programs run, where they may, until one has changed memory. False: none can.
  bool wait_for_others();
  /// Lets others run for a while, though this one can go on.
  void let_others_run();
  [[noreturn]] void stop_deadlocked(OpId op, std::string why) const;

  /// The order that a meeting of programs at `token` makes, before and after it.
  void release_at(const std::byte* token) { evaluation_.memory.races.release(token, clock_); }
  void acquire_at(const std::byte* token) { evaluation_.memory.races.acquire(token, clock_); }

  /// The program's last read of global memory: a loop that changes nothing waits for it.
  struct LastRead {
    const MemoryRegion* region = nullptr;
    const std::byte* at = nullptr;
    OpId op;
  };
  LastRead last_read;
  std::vector<OpId> dropped;  ///< stores that left out an element
  std::uint64_t effects = 0;  ///< changes of global or shared memory so far

  AsyncCopies asyncs;
  std::vector<std::weak_ptr<SharedTile>> placed;  ///< allocations with an offset, which may overlap
  std::vector<TileValue>
      carry_scratch;  ///< keeps its buffers from one iteration of a loop to the next
  std::vector<StepRaces> independent;  ///< loops of independent steps around, outermost first
  std::uint32_t role_tag = 0;  ///< 0 outside of roles; else (execution of `roles`) * 64 + role + 1
  std::uint32_t role_runs = 0;

 private:
  void bind_params();
  bool count_repeat(FindingKind kind, OpId op);
  void add_finding(FindingKind kind, OpId op, Loc loc, std::string text);
  void touch_in_steps(const MemoryRegion& region, const std::byte* at, std::size_t size, OpId op,
                      StepUse use);
  void report_race(const MemoryRegion& region, const std::byte* at, OpId op, Touch other);

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

/// "k.cpp:3:7"
std::string str(Loc loc);
/// "the op at k.cpp:3:7" without a location: "load".
std::string op_at(const Kernel& k, OpId op);
/// Row-major index of element `i`, "[3, 17]".
std::string index_str(std::span<const std::int64_t> shape, std::int64_t i);

#define ROW(Name, ...) void eval_##Name(Program&, OpId);
#define SIMT_OP(...)
#include "ir/op_rows.h"

}  // namespace tegula::ir::interp
