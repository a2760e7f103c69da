#pragma once
// Memory hazards between accesses of one program to global memory: accesses that must stay in
// order, and accesses that need a barrier because different threads execute them. Accesses of
// different programs are not ordered.
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/affine_index.h"

namespace tegula::ir {

/// Attr kind of a parameter whose memory other parameters may share. Without it, different
/// parameters are different memory, which a launch checks, and a view with access In is not written
/// while the kernel runs.
inline constexpr const char* kMayAlias = "may_alias";

/// Returns the parameters that addresses, or a view, may derive from, or nothing if unknown.
std::optional<std::vector<Value>> memory_roots(const Kernel& k, Value addresses);

/// An access of tile or machine form to memory that some op may write.
struct MemoryAccess {
  /// The agent of an access: threads, as the tile's layout assigns them, or an asynchronous engine.
  enum class By : std::uint8_t { Threads, Copies };

  OpId op;
  std::optional<std::vector<Value>> roots;
  bool reads = false, writes = false;
  By by = By::Threads;
  Value address;                 ///< a view, or pointers
  Type tile;                     ///< type of the accessed tile, with its layout; or a scalar's
  std::vector<AccessAxis> axes;  ///< of a box; their extents are kDynamic if a copy has no tile
  std::string_view commutes_as;  ///< kind of an atomic operation whose order does not matter

  bool is_box() const { return !axes.empty(); }
  /// Returns true if one thread makes the access: only the first thread executes scalar writes,
  /// while all threads execute scalar reads.
  bool is_first_threads() const { return !tile.is_tile() && writes; }
};

/// Returns true if an op publishes earlier effects of the program (release), or makes published
/// effects of other programs visible to later ones (acquire).
bool is_release(const OpData& d);
bool is_acquire(const OpData& d);

/// Returns true for a loop over a CTA's tiles that the pass make_persistent created. Each of its
/// iterations is a program.
bool is_tile_loop(const Kernel& k, OpId loop);

/// Returns true if the iterations of a loop never conflict in memory: tile loops, and loops that
/// the author declared independent.
bool has_independent_iterations(const Kernel& k, OpId loop);

class MemoryHazards {
 public:
  explicit MemoryHazards(const Kernel& k) : k_(k), affine_(k) {}

  /// Returns null if the op does not access global memory, or reads memory that is never written.
  const MemoryAccess* access(OpId op);

  /// Returns true if both accesses may touch the same element, one of them writes, and their order
  /// matters. `a` precedes `b` in the same iteration of all common loops, or in an earlier
  /// iteration of loop `carried`.
  bool may_collide(const MemoryAccess& a, const MemoryAccess& b, OpId carried = {});

  /// Returns true if the accesses may collide between threads, so that a barrier is required
  /// between them.
  bool conflict(const MemoryAccess& a, const MemoryAccess& b, OpId carried = {});

  /// Returns true if `a` may move after `b`, in the same iteration of all loops.
  bool may_pass(OpId a, OpId b);

  /// Returns true if a tile that is loaded in the loop, or before it, may be loaded ahead of its
  /// iteration: its memory is not written before the loop ends, and no earlier op acquires the
  /// writes of another program.
  bool may_be_read_ahead(OpId load, OpId loop);

  /// Returns the same for copies by threads of the program. The first copies are placed immediately
  /// before the loop, after a barrier if needed, so only the loop itself must not write the tile.
  bool may_be_read_early_within(OpId load, OpId loop);

  /// Returns true if both boxes are equal in every dimension.
  bool is_same_box(const MemoryAccess& a, const MemoryAccess& b);

  /// Returns true if the boxes of different iterations of the loop do not overlap.
  bool moves_with(const MemoryAccess& box, OpId loop);

 private:
  struct Pointers {
    Value base;      ///< a view or a pointer
    AffineIndex at;  ///< distance from the base in elements
  };

  std::optional<MemoryAccess> find(OpId op) const;
  bool may_alias(const MemoryAccess& a, const MemoryAccess& b) const;
  bool share_memory_by_call(const MemoryAccess& a) const;
  bool are_of_one_tensor(const MemoryAccess& a, const MemoryAccess& b, OpId carried) const;
  /// Returns true if the value is the same in all iterations of `carried`, or `carried` is absent.
  bool is_same_in_all(OpId carried, Value v) const {
    return !carried || k_.is_visible_from(v, carried);
  }
  bool same_thread(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool inside_or_disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool share_by_blocks(const MemoryAccess& a, const MemoryAccess& b) const;
  bool disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried);
  bool is_replicated(const MemoryAccess& a) const;

  /// Returns b - a if it is the same number in all iterations of `carried`.
  std::optional<std::int64_t> distance(const ScalarSum& a, const ScalarSum& b, OpId carried) const;
  std::optional<std::int64_t> distance(const AccessAxis& a, const AccessAxis& b,
                                       OpId carried) const;
  std::optional<Pointers> pointers(Value v);

  const Kernel& k_;
  AffineIndices affine_;
  std::unordered_map<OpId, std::optional<MemoryAccess>> known_;
};

}  // namespace tegula::ir
