#pragma once
// Race detector: records the last accesses to each element, and finds two programs that access one
// element without an order between them, one of them writing. Release and acquire atomics on one
// address establish order (vector clocks). Programs that may wait for one another run one at a
// time, so the access that is recorded first is the earlier one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

namespace tegula::ir::interp {

/// Program, epoch between two of its releases, and op, packed into one atomic word. 0 means no
/// access.
class Touch {
 public:
  Touch() = default;
  Touch(std::uint32_t program, std::uint32_t epoch, std::uint32_t op)
      : word_(std::uint64_t{program + 1} << 40 | std::uint64_t{epoch & 0xffff} << 24 |
              (op & 0xffffff)) {}
  explicit Touch(std::uint64_t word) : word_(word) {}
  explicit operator bool() const { return word_ != 0; }
  std::uint32_t program() const { return static_cast<std::uint32_t>(word_ >> 40) - 1; }
  std::uint32_t epoch() const { return static_cast<std::uint32_t>(word_ >> 24) & 0xffff; }
  std::uint32_t op() const { return static_cast<std::uint32_t>(word_) & 0xffffff; }
  std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_ = 0;
};

/// The last accesses to one element. Stores two readers and two atomics of different programs, so
/// that at least one of each is of another program than a later access.
struct Shadow {
  std::uint64_t writer, reader, other_reader, atomic, other_atomic;
};

struct UnmapShadows {
  std::size_t bytes = 0;
  void operator()(Shadow* p) const;
};

/// Shadows of a contiguous range of host memory, shared by arguments that overlap.
struct ShadowBlock {
  std::uintptr_t begin = 0, end = 0;
  std::size_t granule = 1;
  /// Zeros whose untouched pages are neither allocated nor reserved: a view with large strides
  /// spans much more memory than it accesses.
  std::unique_ptr<Shadow[], UnmapShadows> shadows;

  void allocate();
};

/// The clock of one program while it runs.
class ProgramClock {
 public:
  void start(std::uint32_t program);
  Touch access(std::uint32_t op) const { return {program_, epoch_, op}; }
  bool is_ordered_before_now(Touch past) const;

 private:
  friend class RaceDetector;
  std::uint32_t program_ = 0, epoch_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t>
      known_;  ///< program -> last epoch that is ordered before now
};

class RaceDetector {
 public:
  /// Returns the earlier access that conflicts, if any. The `size` bytes at `address` must be
  /// inside `block`.
  std::optional<Touch> read(ShadowBlock& block, const std::byte* address, std::size_t size,
                            const ProgramClock& clock, std::uint32_t op);
  std::optional<Touch> write(ShadowBlock& block, const std::byte* address, std::size_t size,
                             const ProgramClock& clock, std::uint32_t op);
  std::optional<Touch> atomic(ShadowBlock& block, const std::byte* address, std::size_t size,
                              const ProgramClock& clock, std::uint32_t op);
  /// Apply an atomic's memory order, before and after it. Must be called from a single thread.
  void acquire(const std::byte* address, ProgramClock& clock);
  void release(const std::byte* address, ProgramClock& clock);

 private:
  std::unordered_map<const std::byte*, std::unordered_map<std::uint32_t, std::uint32_t>> released_;
};

}  // namespace tegula::ir::interp
