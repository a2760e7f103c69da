#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "tegula/lambda.h"
#include "tegula/segments.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Loops, branches, the launch grid and tunable numbers.
namespace tegula {

namespace detail {

struct LoopEnd {};

/// A recorded region that break, return or an exception may leave. It counts exceptions here, in
/// the user's code, because the library may have its own C++ runtime.
struct OpenRegion {
  std::uint64_t id = 0;  ///< 0: not open
  int exceptions = 0;    ///< in flight when it was opened

  void open(std::uint64_t region) {
    id = region;
    exceptions = std::uncaught_exceptions();
  }
  ~OpenRegion() {
    if (id) abandon(std::uncaught_exceptions() > exceptions);
  }
  void abandon(bool by_exception) const;
};

/// Range of a recorded loop. The body of `for (auto k : steps(...))` runs while it is being
/// recorded; variables rebound in it are carried from one iteration to the next.
class LoopRange {
 public:
  LoopRange(const Arg& lo, const Arg& hi, std::int64_t block, const Arg& by, Loc at);
  LoopRange(const LoopRange& other);
  LoopRange& operator=(const LoopRange&) = delete;

  class Iterator {
   public:
    bool operator!=(LoopEnd) const { return more_; }
    void operator++();
    Index operator*() const;

   private:
    friend class LoopRange;
    explicit Iterator(LoopRange* range) : range_(range), more_(range->open_.id != 0) {}
    LoopRange* range_;
    bool more_;
  };
  Iterator begin() {
    open_.open(start());
    return Iterator(this);
  }
  LoopEnd end() const { return {}; }

  /// Sets the depth of the software pipeline; by default the compiler chooses it.
  LoopRange stages(int n) const;
  /// Unrolls the loop.
  LoopRange unroll() const;
  /// States that no iteration reads or overwrites memory that another iteration of the same program
  /// has written, so that no barriers between iterations are needed for that. If the statement is
  /// false, results are undefined.
  LoopRange independent() const;
  /// Ends the loop's indices at the end of the loop: elements of the last step at or beyond the end
  /// are absent (Index::until), even if the tensor is longer.
  LoopRange bounded() const;
  /// Keeps chunk `number` of `parts` equal chunks of the iterations; the last ones may be shorter.
  LoopRange chunk(const Arg& number, const Arg& parts) const;

 private:
  Tile lo_, hi_;
  std::optional<Tile> by_;  ///< distance of two iterations, if it differs from the block
  std::int64_t block_;
  const char* dimension_;
  Loc loc_;
  std::uint64_t start();  ///< returns 0 if an eager run has no step

  int stages_ = 0;
  bool unroll_ = false, independent_ = false, bounded_ = false;
  OpenRegion open_;
};

}  // namespace detail

/// Returns the iterations over 0 .. extent, `block` elements at a time. The last one may reach past
/// the end: elements outside the tensor are absent, but those of a longer tensor are read. Write
/// `steps(..).bounded()` if `extent` is not the view's own.
detail::LoopRange steps(const Arg& extent, std::int64_t block);
/// Returns the steps over lo .. hi.
detail::LoopRange steps(const Arg& lo, const Arg& hi, std::int64_t block);
/// Does the same with a distance of `by` elements between iterations: a traced number above 0
/// (`cpu` and `sim` check this), such as the number of programs that share the rows.
detail::LoopRange steps(const Arg& lo, const Arg& hi, std::int64_t block, const Arg& by);

/// The index space a grid covers: all dimensions of a view, some of them, or given extents.
class GridSpace {
 public:
  GridSpace(const View& view, std::source_location at = std::source_location::current());
  GridSpace(std::initializer_list<Arg> extents,
            std::source_location at = std::source_location::current());
  GridSpace(const Tile& extent, std::source_location at = std::source_location::current());
  template <Element T>
  GridSpace(const Scalar<T>& extent, std::source_location at = std::source_location::current())
      : GridSpace(extent.value(at), at) {}
  const std::vector<Tile>& extents() const { return extents_; }
  const Loc& loc() const { return loc_; }

 private:
  friend GridSpace rows(const View&, std::source_location);
  friend GridSpace cols(const View&, std::source_location);
  std::vector<Tile> extents_;
  Loc loc_;
};
/// Return the first or the second dimension of a view.
GridSpace rows(const View& view, std::source_location at = std::source_location::current());
GridSpace cols(const View& view, std::source_location at = std::source_location::current());

/// Waits until the writes of kernels launched earlier on the stream are visible. A kernel that
/// calls it may be started before they end (programmatic dependent launch; PTX ISA,
/// "griddepcontrol"), so the call must precede all accesses that read their results or write what
/// they read.
void grid_dependency_wait(std::source_location at = std::source_location::current());
/// Allows the next kernel of the stream to start now, if it calls `grid_dependency_wait`. Without
/// this call, it starts as the blocks of this kernel end.
void grid_launch_dependents(std::source_location at = std::source_location::current());

/// Raster order: groups of `rows` tile rows are finished together, so that they share the
/// second-level cache.
struct group_m {
  explicit group_m(int n) : rows(n) {}
  int rows;
};
/// Tile order for work that grows along the last dimension (triangular): blocks are taken from both
/// ends alternately, last, first, last but one, .., so that any two adjacent ones have equal work,
/// and one CTA takes both. Blocks that differ only in the last dimension stay together: their
/// common operands stay in L2.
struct BalancedPairs {
  bool is_set = true;
  /// Applies the order only if `is_so`; otherwise tiles are in memory order.
  constexpr BalancedPairs when(bool is_so) const { return {is_so}; }
};
inline constexpr BalancedPairs balanced_pairs{};

/// Number of programs per block: 1, 2, 4 or 8. They run at the same time and can add up their tiles
/// (`cluster_reduce_scatter`). More than one needs a GPU with clusters (sm_90).
struct cluster {
  explicit cluster(int n) : ctas(n) {}
  int ctas;
};

namespace detail {

struct GridOptions {
  std::vector<std::int64_t> blocks;
  int group_m = 0;
  int cluster = 1;
  bool balanced_pairs = false;
  void add(std::integral auto block) { blocks.push_back(static_cast<std::int64_t>(block)); }
  void add(struct group_m g) { group_m = g.rows; }
  void add(BalancedPairs h) { balanced_pairs = h.is_set; }
  void add(struct cluster c) { cluster = c.ctas; }
};

/// The grid loop: its body is the program that each block runs.
class GridLoop {
 public:
  GridLoop(const GridSpace& space, GridOptions options);
  GridLoop(const Segments& space, GridOptions options);
  GridLoop(const GridLoop&) = delete;
  GridLoop& operator=(const GridLoop&) = delete;
  /// Returns false if an eager run has nothing to execute.
  bool open() {
    open_.open(start());
    return runs_;
  }
  bool close();  ///< returns true if the body must be recorded again
  Index index(std::size_t dimension) const;

 private:
  std::uint64_t start();
  void check(dsl::Tracer& t) const;
  std::uint64_t open_segment(dsl::Tracer& t);
  std::uint64_t open_tile_loop(dsl::Tracer& t);
  Index index_in_tile_loop(dsl::Tracer& t, std::size_t dimension) const;
  std::vector<Tile> extents_, starts_, counts_;
  std::optional<Segments> segments_;
  std::optional<Segments::Place> place_;  ///< place of the tile's rows
  GridOptions options_;
  Loc loc_;
  OpenRegion open_;
  bool runs_ = true;
};

template <std::size_t N>
class GridRange {
 public:
  template <class Space>
  GridRange(const Space& space, GridOptions options) : loop_(space, std::move(options)) {}
  class Iterator {
   public:
    Iterator(GridLoop* loop, bool runs) : loop_(loop), more_(runs) {}
    bool operator!=(LoopEnd) const { return more_; }
    void operator++() { more_ = loop_->close(); }
    auto operator*() const {
      if constexpr (N == 1)
        return loop_->index(0);
      else
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return std::array<Index, N>{loop_->index(I)...};
        }(std::make_index_sequence<N>{});
    }

   private:
    GridLoop* loop_;
    bool more_;
  };
  Iterator begin() { return Iterator(&loop_, loop_.open()); }
  LoopEnd end() const { return {}; }

 private:
  GridLoop loop_;
};

/// See grid_barrier.
void record_grid_barrier(Loc at);

class RecordedIf {
 public:
  explicit RecordedIf(const Arg& condition);
  /// Returns true if the branch must be called: always while the kernel is recorded; depending on
  /// the condition in an eager run.
  bool begin_then() {
    open_.open(start());
    return takes_;
  }
  bool begin_otherwise();
  void close();

 private:
  std::uint64_t start();
  OpenRegion open_;
  Arg condition_;
  bool takes_ = true;
};

void record_while(const std::function<Tile()>& condition, const std::function<void()>& body,
                  Loc at);

}  // namespace detail

/// The launch grid: one program per block of the space. `for (auto [m, n] : grid(C, 128, 64))`;
/// with one block the variable is the index itself. Several grids need grid_barriers between them.
template <class... Options>
auto grid(const GridSpace& space, Options... blocks_and_options) {
  constexpr std::size_t n = (std::size_t{0} + ... + std::size_t{std::integral<Options>});
  static_assert(n > 0, "tegula: grid(space, block...) needs the extents of a block");
  detail::GridOptions options;
  (options.add(blocks_and_options), ...);
  return detail::GridRange<n>(space, std::move(options));
}
/// The launch grid over segments: one program per block of a segment's rows (and of its further
/// dimensions): `for (auto [s, m, n] : grid(segments(offsets, C.rows()).by(C.cols()), 128, 256))`.
/// The index of the segment comes first. `cluster(..)` is not supported.
template <class... Options>
auto grid(const Segments& space, Options... blocks_and_options) {
  constexpr std::size_t n = (std::size_t{0} + ... + std::size_t{std::integral<Options>});
  static_assert(n > 0, "tegula: grid(segments, block...) needs the extents of a block");
  detail::GridOptions options;
  (options.add(blocks_and_options), ...);
  return detail::GridRange<n + 1>(space, std::move(options));
}

/// Separates two grid loops of a kernel: all effects of the first one are visible before any
/// program starts the second one. The launch is cooperative: it has as many programs as are
/// resident on the GPU at once, at most the number of tiles of the larger grid, and each takes its
/// share of the tiles of both grids. Throws CompileError elsewhere, and for grids of segments or
/// clusters.
inline void grid_barrier(std::source_location at = std::source_location::current()) {
  detail::record_grid_barrier(at);
}

/// Returns the rank of this program in its cluster: an i32 from 0; always 0 without `cluster(...)`.
Tile cluster_rank(std::source_location at = std::source_location::current());
/// Returns this program's slice of an index that is divided equally over the programs of the
/// cluster; all of it without `cluster(...)`. Each slice has at least two elements.
Index cluster_slice(const Index& whole, std::source_location at = std::source_location::current());

/// Records both branches; variables rebound in either are merged.
template <class Then, class Otherwise>
void if_(const Arg& condition, Then&& then, Otherwise&& otherwise) {
  constexpr bool kFits = std::invocable<Then> && std::invocable<Otherwise>;
  static_assert(kFits, "tegula: the branches of if_ are lambdas without parameters");
  if constexpr (kFits) {
    detail::RecordedIf branch(condition);
    if (branch.begin_then()) then();
    if (branch.begin_otherwise()) otherwise();
    branch.close();
  }
}
template <class Then>
void if_(const Arg& condition, Then&& then) {
  if_(condition, std::forward<Then>(then), [] {});
}

/// Repeats the body while the condition, a function of the current variables, holds.
template <class Condition, class Body>
void while_(Condition&& condition, Body&& body,
            std::source_location at = std::source_location::current()) {
  constexpr bool kFits = detail::Gives<Tile, Condition> && std::invocable<Body>;
  static_assert(kFits,
                "tegula: while_ takes two lambdas without parameters; the first returns a Tile");
  if constexpr (kFits) detail::record_while([&] { return Tile(condition()); }, [&] { body(); }, at);
}

/// Returns a number of `set`: given to Kernel::with, else measured by Kernel::tune(), else
/// `otherwise`, else chosen by a cost model for the call. Equal names give equal numbers.
int tune(const char* name, std::initializer_list<int> set, std::optional<int> otherwise = {},
         std::source_location at = std::source_location::current());

}  // namespace tegula
