#pragma once
// The recording of one kernel lambda: the kernel being built, the live variables (Tiles), and the
// open regions.
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dsl/errors.h"
#include "dsl/index_types.h"
#include "dsl/signature.h"
#include "ir/builder.h"
#include "ir/kernel.h"
#include "tegula/kernel.h"
#include "tegula/value.h"

namespace tegula::dsl {

class KernelInstance;
class EagerInterpreter;
class BodyComparison;
using ir::AttrName;
using ir::Opcode;

/// A variable that was alive when a region was opened, and its values in the region.
struct Carry {
  Tile* variable;    ///< null once it is destroyed
  ir::Value before;  ///< none: it had no value yet
  ir::Value arg;     ///< its value inside a loop
  ir::Value after;
};

enum class ScopeKind : std::uint8_t {
  Grid,
  Loop,
  While,
  Branch,
  Fold,
  Map,
  Rest,  ///< rest of a body, after break_if or exit_program_if
};
std::string_view name(ScopeKind kind);

/// A region being recorded.
struct OpenScope {
  ScopeKind kind;
  std::uint64_t id = 0;
  std::uint32_t first_variable_id = 0;  ///< first number of variables made inside
  Loc loc;
  ir::OpId op;         ///< the op that owns the region; for a grid, the last op before it
  ir::RegionId body;   ///< for a grid, the region that its body is recorded in
  ir::RegionId outer;  ///< region in which recording continues afterwards
  std::vector<Carry> carries;
  ir::Value now;              ///< start of the iteration, in an eager run
  ir::Value following;        ///< for a body that may be left: condition of the next iteration
  ir::Value ends;             ///< for the rest of a body: condition that ends the loop
  ir::Value chooses;          ///< for a branch in a map: the condition that selects each element
  bool is_otherwise = false;  ///< true in that branch's second side
  std::int64_t next = 0, end = 0, step = 0;  ///< the same loop's bounds
  std::vector<Carry> first;  ///< the carries of the first recording, while the second runs
  bool second = false;
  std::size_t requests = 0;  ///< number of requested extents when it was opened
  std::size_t ops = 0;       ///< number of ops when it was opened
  int exceptions =
      std::uncaught_exceptions();  ///< count of this library's own C++ runtime, when it was opened
};

/// One tune() call.
struct Tunable {
  std::string name;
  std::vector<int> set;
  int value = 0;
  Loc loc;
  bool has_default = false;  ///< its author named the value to use without measurements
};

/// A part of a view that was accessed: the data for a store through it.
struct ViewAccessRecord {
  std::uint32_t param;
  std::vector<ir::Value> offsets;  ///< one per dimension: scalars, and the index tiles of a gather
  ir::Ints axes;
  ir::Type type;        ///< tile or scalar
  bool gather = false;  ///< each element by its address, not a box
  Loc loc;
  bool rebound = false;  ///< a variable holding it was assigned
  Hints hints = {};
  ir::Type shape = {};               ///< type that the user sees, with the same elements
  std::vector<ir::Value> ends = {};  ///< for each tile dimension; none if it has no end
  /// View dimensions that `all` reads with room for more elements than may exist.
  ir::Ints padded = {};
  ir::OpId load = {};  ///< the op that has read the part
};

/// Limits on the dimensions and elements of a tile, for all element types; the limit on elements
/// also applies to blocks.
inline constexpr int kMaxTileRank = 6;
inline constexpr std::int64_t kMaxTileElements = std::int64_t{1} << 20;
/// Most ops of a trace.
inline constexpr std::size_t kMaxTraceOps = 1'000'000;
/// Most regions of a trace that are inside each other: passes recurse over them.
inline constexpr std::size_t kMaxOpenRegions = 1000;
inline bool is_block(std::int64_t elements) { return elements > 0 && elements <= kMaxTileElements; }

/// Base of what a recording throws to start over.
struct TraceRestart {};

/// Thrown if a captured tensor is too large for the index type of the trace, which then starts
/// over.
struct IndexTypeChanged : TraceRestart {};

/// Thrown if a body was recorded in two ways because `all` or static_dim() requested an extent that
/// was a run-time number before. The trace then starts over with the extent known from its
/// beginning.
struct ExtentsFound : TraceRestart {};

/// Thrown by a recording that has found a grid_barrier: its grids must be recorded as loops over
/// tiles, which any number of programs can run.
struct GridBarrierFound : TraceRestart {};

class Tracer {
 public:
  Tracer(std::string name, Signature signature, Tuning tuning, std::vector<ParamName> names,
         bool check_loops);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Returns the tracer of this thread, ready to record at `loc`. If there is none, the error names
  /// `what`.
  static Tracer& at(const Loc& loc, std::string_view what);
  static Tracer* current();
  std::uint64_t id() const { return id_; }

  /// The kernel whose lambda is being recorded. is_inside() also searches the outer recordings of
  /// this thread.
  const KernelInstance* instance = nullptr;
  bool is_inside(const KernelInstance& of) const {
    return instance == &of || (outer_ && outer_->is_inside(of));
  }

  /// During its lifetime all ops are recorded at one location. Used by functions that are composed
  /// of other functions of the language.
  class Pin {
   public:
    Pin(Tracer& t, Loc loc) : tracer_(t), was_pinned_(t.pinned_) {
      if (!was_pinned_ && !t.is_of_language(loc)) t.build.loc = loc;
      t.pinned_ = true;
    }
    ~Pin() { tracer_.pinned_ = was_pinned_; }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    Tracer& tracer_;
    bool was_pinned_;
  };

  // ---- values ----
  /// Returns the IR value of an operand that is not a literal.
  ir::Value value(const Arg& a);
  ir::Value value(const Tile& t) { return value(Arg(t, std::source_location{})); }
  ir::Type type(const Arg& a) { return kernel.type(value(a)); }
  static Arg arg(ir::Value v, Loc loc);
  /// Returns a variable of that value. Throws CompileError if the value is a tile beyond the
  /// limits: every tile that the user sees is made here.
  Tile tile(ir::Value v);
  /// Throws CompileError if a tile of the type has too many dimensions or elements.
  void check_limits(ir::Type type) const;
  /// Returns a note on the origin of a value.
  Note origin(ir::Value v, std::string_view role);
  /// Returns the type as text: "tile<16xf32>", "tile<16xindex>".
  std::string type_text(ir::Value v) { return indices.type_text(v); }

  // ---- variables ----
  void enlist(Tile& t);
  void forget(Tile& t);

  // ---- regions (regions.cpp) ----
  std::uint64_t open_loop(ir::Value lo, ir::Value hi, ir::Value step, ir::AttrList attrs);
  /// Returns true if the body must be recorded a second time.
  bool close_loop(std::uint64_t id);
  /// Returns the element index at which the current iteration of an open loop starts.
  ir::Value induction(std::uint64_t id) const;
  /// Returns what a value inside an open loop had been before it; none for all other values.
  ir::Value before_loop(ir::Value v) const;
  /// `body` is the region for the grid's body: the kernel's, or a branch at its end.
  std::uint64_t open_grid(ir::RegionId body);
  bool close_grid(std::uint64_t id);
  void move_wait_in_front(ir::RegionId branch);
  /// Sets `takes` to true if the lambda of the first branch must be called.
  std::uint64_t open_branch(ir::Value condition, bool& takes);
  bool else_branch(std::uint64_t id);
  void close_branch(std::uint64_t id);
  void record_while(const std::function<Tile()>& condition, const std::function<void()>& body);
  /// Skips the rest of the innermost body and later iterations if the condition is true
  /// (early_exit.cpp).
  void leave_if(ir::Value condition, std::string_view what, bool of_loop);
  /// Records the function of a map, element operations as tile operations (map.cpp).
  std::uint64_t open_map();
  void close_map(std::uint64_t id);
  std::uint64_t open_fold(ir::OpId op);
  void close_fold(std::uint64_t id);
  /// Handles a region whose owner was destroyed while it was open: break, return or an exception.
  void abandon(std::uint64_t id, bool by_exception);
  /// Returns notes on the outermost loop that an exception passed through.
  const std::vector<Note>& left_by_exception() const { return left_by_exception_; }
  bool in_scope(ScopeKind kind) const;
  bool recording_region() const { return !scopes_.empty(); }
  bool grid_seen = false;
  Loc grid_loc;
  bool grid_done = false;
  /// `meets`: the kernel has a grid_barrier between grid loops. `has_met`: one follows the last
  /// grid loop.
  bool meets = false;
  bool has_met = false;
  /// Returns the values of variables, and those that a later store may need, in ascending order.
  std::vector<ir::Value> held() const;
  /// Returns true if ops are executed as they are recorded: in an eager run, outside folds.
  bool runs() const {
    return live != nullptr && !in_scope(ScopeKind::Fold) && !in_scope(ScopeKind::Rest);
  }
  EagerInterpreter* live = nullptr;  ///< interpreter of an eager run
  /// Throws errors that were found where throwing was not possible.
  void throw_pending();

  // ---- parameters ----
  std::uint32_t param_of_capture(const Tensor& t, DType dtype, int rank, Loc loc,
                                 detail::ViewAccess access = detail::ViewAccess::In);
  std::uint32_t param_of_capture(const std::shared_ptr<detail::ScalarCell>& cell);
  /// Returns the parameter for the kernel's buffer of records, a pointer to u32.
  std::uint32_t param_of_records();
  ir::Value param(std::uint32_t position) const { return kernel.params()[position].value; }
  /// Returns the position of a parameter. Throws CompileError if it is one of another trace.
  std::uint32_t position(const detail::Parameter& p) const;
  /// Does the same for a part of a view.
  ViewAccessRecord& access(const ViewTile& part);
  const ArgClass& arg_class(std::uint32_t position) const { return signature.args[position]; }
  std::string param_text(std::uint32_t position) const;
  /// Returns "A.K", or "arg0.1" if the dimension has no name.
  std::string dimension_text(std::uint32_t position, int axis) const;
  /// Returns the extent of a dimension and makes it part of the key that the kernel is compiled
  /// for.
  std::int64_t specialise(std::uint32_t position, int axis, bool exact);
  /// Removes the divisibility of the extent from the properties that the kernel is compiled for.
  void generalise(std::uint32_t position, int axis, ExtentKey key);
  DType index_type() const { return signature.index_type; }

  int tune(const char* name, std::vector<int> set, std::optional<int> otherwise, Loc loc);

  ir::Kernel kernel;
  ir::Builder build;
  IndexTypes indices;   ///< values of the type `index`
  Signature signature;  ///< signature of the run-time arguments, captured ones included
  std::vector<SpecializationRequest> requests;
  std::vector<Capture> captures;
  std::vector<Tunable> tunables;
  std::vector<ViewAccessRecord> accesses;
  std::map<ir::Value, std::string> read_from;  ///< "A[C.M, A.K]" for values read by index
  /// The first element's index along each dimension of a tile that was read: finds indices that
  /// were exchanged.
  std::map<ir::Value, std::vector<ir::Value>> indexed_by;
  /// View dimensions that a loaded tile has room for, but that may be shorter.
  std::map<ir::Value, ir::Ints> padded;
  std::vector<Diagnostic> warnings;
  const char* stack_begin =
      nullptr;  ///< where the stack of the trace begins; it grows down from there

 private:
  void add_capture(Capture c);
  /// Throws CompileError if the trace is too long, or has nearly used the stack of this thread: a
  /// loop or a recursion of C++ does not end.
  void check_size() const;
  void check_stack() const;
  template <class Visit>
  void each_variable(const Visit& visit);
  ir::Value get(const Tile& t) const;
  void set(Tile& t, ir::Value v);
  void lose(Tile& t, const OpenScope& scope);
  std::uint64_t open_live_loop(ir::Value lo, ir::Value hi, ir::Value step);
  bool next_iteration(OpenScope& scope);
  OpenScope& push(ScopeKind kind);
  OpenScope pop();
  OpenScope& top(std::uint64_t id);
  bool wants_check() const;
  void start_body(OpenScope& scope, ir::RegionId region);
  void read_after(OpenScope& scope);
  void end_recording(OpenScope& scope);
  void check_births(const OpenScope& scope);
  void check_types(const OpenScope& scope);
  /// Returns true if one of two values of different types is an index and the other is not.
  bool is_of_indices(ir::Value a, ir::Value b) {
    return indices.is_index(a) != indices.is_index(b);
  }
  void keep_kind(ir::Value from, ir::Value to) {
    if (indices.is_index(from)) indices.set(to, IndexTypes::Kind::Index);
  }
  bool again(OpenScope& scope, ir::RegionId region);
  void compare(const OpenScope& scope, BodyComparison& same, ir::OpId first, ir::OpId second);
  void compare_regions(const OpenScope& scope, ir::RegionId first, ir::RegionId second);
  void restore(const std::vector<Carry>& carries);
  std::vector<bool> essential(const std::vector<Carry>& carries) const;
  void replace_in(ir::RegionId region, const std::vector<std::pair<ir::Value, ir::Value>>& map);
  void finish_loop(OpenScope& scope, std::span<const ir::RegionId> regions, std::size_t fixed_args);
  void yield(ir::RegionId region, const std::vector<ir::Value>& values);
  // early_exit.cpp
  bool has_rest() const { return !scopes_.empty() && scopes_.back().kind == ScopeKind::Rest; }
  ir::Value close_rests(ir::Value goes_on);
  ir::Value close_rest(ir::Value goes_on);
  void end_steps(OpenScope& loop);
  void make_while(ir::OpId loop, ir::Value following);
  void stop_while(ir::OpId loop, ir::Value following);
  void use_results(ir::OpId from, ir::OpId to, std::size_t first);
  // map.cpp
  bool is_mapping() const { return in_scope(ScopeKind::Map); }
  std::uint64_t open_choice(ir::Value condition);
  void close_choice(OpenScope& scope);
  void map_while(const std::function<Tile()>& condition, const std::function<void()>& body);
  void record_loop(const std::function<Tile()>& condition, const std::function<void()>& body);
  Tile elements_of(const Tile& condition);
  void spread_elements(const Tile& like);
  bool is_of_language(const Loc& loc);
  void check_map(const OpenScope& scope);

  std::vector<ParamName> names_;
  std::uint64_t id_;
  Tracer* outer_;
  detail::Link variables_;
  std::vector<OpenScope> scopes_;
  std::vector<std::pair<ScopeKind, Loc>> lost_;
  std::vector<const Tile*> map_masks_;      ///< masks of the open loops of a map
  std::unordered_set<ir::OpId> map_tests_;  ///< ops that test whether a loop of a map continues
  std::uint64_t next_scope_ = 0;
  std::uint32_t next_variable_id_ = 1;
  Tuning tuning_;
  bool check_loops_;
  bool pinned_ = false;
  const char* latest_file_ = nullptr;  ///< the file that is_of_language() classified last
  bool is_latest_of_language_ = false;
  std::size_t max_ops_ = kMaxTraceOps;  ///< grows by the ops of bodies that are recorded twice
  const char* stack_end_;               ///< lowest address that the trace may use
  std::optional<Diagnostic> pending_;
  std::vector<Note> left_by_exception_;
};

template <class Visit>
void Tracer::each_variable(const Visit& visit) {
  for (detail::Link* at = variables_.next; at != &variables_; at = at->next)
    visit(static_cast<Tile&>(*at));
}

}  // namespace tegula::dsl

namespace tegula {

// Names that the implementation of the public language uses throughout.
using dsl::AttrName;
using dsl::Opcode;
using dsl::ScopeKind;
using dsl::Tracer;

}  // namespace tegula
