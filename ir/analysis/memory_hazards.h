#pragma once
// Memory hazards between accesses of one program to global memory: accesses that have to stay in
// order, and those that only a barrier orders, since different threads make them. Programs are not
// ordered among each other.
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/analysis/affine_index.h"
#include "ir/kernel.h"

namespace tegula::ir {

/// Attr kind of a parameter whose memory other parameters may share. Without it different
/// parameters are different memory, which a launch checks, and nobody writes a view with access In
/// while the kernel runs.
inline constexpr const char* kMayAlias = "may_alias";

/// The parameters that addresses, or a view, may come from; none where that is not known.
std::optional<std::vector<Value>> memory_roots(const Kernel& k, Value addresses);

/// An access of tile or machine form to memory that is written somewhere.
struct MemoryAccess {
  /// The maker of an access: threads as the tile's layout says, or an engine at another time.
  enum class By : std::uint8_t { Threads, Copies };

  OpId op;
  std::optional<std::vector<Value>> roots;
  bool reads = false, writes = false;
  By by = By::Threads;
  Value address;                 ///< a view, or pointers
  Type tile;                     ///< type of the accessed tile, with its layout; or a scalar's
  std::vector<Value> offsets;    ///< offsets of a box, one per view dimension
  Ints axes;                     ///< axes of a box
  std::string_view commutes_as;  ///< kind of an atomic operation whose order does not matter

  bool is_box() const { return !offsets.empty(); }
  /// One thread makes it: of scalars what has an effect, while all threads read them.
  bool is_first_threads() const { return !tile.is_tile() && writes; }
};

/// Whether an atomic operation publishes earlier effects of the program, and whether later ones see
/// those of others.
bool is_release(const OpData& d);
bool is_acquire(const OpData& d);

/// The loop over a CTA's tiles that the pass make_persistent created: each iteration is a program.
bool is_tile_loop(const Kernel& k, OpId loop);

/// Whether the iterations of a loop never conflict in memory: those of tile loops, and of loops
/// whose author says so.
bool has_independent_turns(const Kernel& k, OpId loop);

/// The op is in one of the loop's regions, at any depth.
bool is_inside(const Kernel& k, OpId op, OpId loop);

class MemoryHazards {
 public:
  explicit MemoryHazards(const Kernel& k) : k_(k), affine_(k) {}

  /// Null if the op does not access global memory, or reads memory that nobody writes.
  const MemoryAccess* access(OpId op);

  /// Whether the accesses may touch the same element, one of them writing, and their order matters.
  /// `a` comes before `b`: in the same iteration of all common loops, or in an earlier one of loop
  /// `carried`.
  bool may_collide(const MemoryAccess& a, const MemoryAccess& b, OpId carried = {});

  /// Whether they conflict between threads: a barrier has to stand between them.
  bool conflict(const MemoryAccess& a, const MemoryAccess& b, OpId carried = {});

  /// Whether `a` may move after `b`, in the same iteration of all loops.
  bool may_pass(OpId a, OpId b);

  /// Whether a tile that the loop loads, or that is loaded in front of it, may be loaded ahead of
  /// its iteration: nobody writes it before the loop has ended, and no earlier op tells the program
  /// that another one has.
  bool may_be_read_ahead(OpId load, OpId loop);

  /// The same for copies by the program's own threads, the first of which stand right in front of
  /// the loop, behind a barrier if need be: nobody writes the tile in the loop.
  bool may_be_read_early_within(OpId load, OpId loop);

  /// The same box in every dimension.
  bool is_same_box(const MemoryAccess& a, const MemoryAccess& b);

  /// Whether the box is another one, without overlap, in every iteration of the loop.
  bool moves_with(const MemoryAccess& box, OpId loop);

 private:
  /// constant + sum of coefficients times scalars.
  struct Linear {
    std::int64_t constant = 0;
    std::vector<std::pair<Value, std::int64_t>> terms;
  };
  /// base + linear + sum over the tile's dimensions of factor * index, in elements.
  struct Pointers {
    Value base;
    Ints factor;
    Linear at;
  };

  std::optional<MemoryAccess> find(OpId op) const;
  bool may_alias(const MemoryAccess& a, const MemoryAccess& b) const;
  bool share_memory_by_call(const MemoryAccess& a) const;
  bool are_of_one_tensor(const MemoryAccess& a, const MemoryAccess& b, OpId carried) const;
  /// The value is the same one in all iterations of a loop, if there is one.
  bool is_same_in_all(OpId carried, Value v) const {
    return !carried || k_.is_visible_from(v, carried);
  }
  bool same_thread(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool inside_or_disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool share_by_blocks(const MemoryAccess& a, const MemoryAccess& b) const;
  bool disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool is_replicated(const MemoryAccess& a) const;
  std::int64_t extent(const MemoryAccess& a, std::size_t view_dim) const;
  bool is_gathered(const MemoryAccess& a, std::size_t view_dim) const;

  void add(Linear& sum, Value v, std::int64_t times, int depth = 0) const;
  Linear linear(Value v) const;
  std::int64_t divisor(const Linear& x) const;
  /// b - a if it is one number in all iterations of `carried`.
  std::optional<std::int64_t> distance(const Linear& a, const Linear& b, OpId carried) const;
  std::optional<Pointers> pointers(Value v, int depth = 0);
  std::optional<Pointers> shaped(const OpData& d, Pointers p) const;

  const Kernel& k_;
  AffineIndices affine_;
  std::unordered_map<OpId, std::optional<MemoryAccess>> known_;
};

}  // namespace tegula::ir
