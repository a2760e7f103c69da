#pragma once
// Indices and addresses as lowering emits them: a function of the thread, combined with a constant
// per register.

#include <cstdint>
#include <vector>

#include "ir/layout/linear_layout.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {

/// Contribution of one bit of a thread coordinate.
struct ThreadBit {
  HwDim in = HwDim::Lane;
  int bit = 0;
  std::uint32_t flip = 0;  ///< XORed
  std::int64_t add = 0;    ///< added; above all flips
  friend bool operator==(const ThreadBit&, const ThreadBit&) = default;
};

/// Contribution of a repeat digit of a thread coordinate: coordinate / divisor % count * stride.
struct ThreadDigit {
  HwDim in = HwDim::Warp;
  int divisor = 1;
  int count = 1;
  std::int64_t stride = 0;
  friend bool operator==(const ThreadDigit&, const ThreadDigit&) = default;
};

/// Returns the repeat digits of a coordinate along `dim`; for Repeat::kNoDim, the digits that
/// number copies.
std::vector<ThreadDigit> digits_along(const LinearLayout& layout, HwDim in, int dim);

/// Contribution of a register: value = (thread's flips ^ flip) + thread's adds + add.
struct RegisterOffset {
  std::uint32_t flip = 0;
  std::int64_t add = 0;
  friend bool operator==(const RegisterOffset&, const RegisterOffset&) = default;
};

/// Function of the thread: XOR of the flips of its set bits, plus their adds, plus its digits.
class ThreadOffset {
 public:
  std::vector<ThreadBit> bits;
  std::vector<ThreadDigit> digits;

  std::int64_t operator()(const HardwareCoord& thread, const RegisterOffset& part = {}) const;
  /// Returns the result bits that some flip can toggle.
  std::uint32_t flipped() const;
  /// Returns true if at most one input bit toggles each result bit, so that XOR may be emitted as
  /// OR or ADD.
  bool is_disjoint() const;

  /// One term of the flips in few machine operations: the XOR over all terms of (coordinate & mask)
  /// << shift (shift < 0: right).
  struct Shift {
    HwDim in;
    std::uint32_t mask;
    int shift;
    friend bool operator==(const Shift&, const Shift&) = default;
  };
  std::vector<Shift> shifts() const;
  /// One term of the adds: the sum over all terms of ((coordinate & mask) >> first bit of mask) *
  /// factor.
  struct Multiple {
    HwDim in;
    std::uint32_t mask;
    std::int64_t factor;
    friend bool operator==(const Multiple&, const Multiple&) = default;
  };
  std::vector<Multiple> multiples() const;

  friend bool operator==(const ThreadOffset&, const ThreadOffset&) = default;
};

/// Index along one dimension of every (register, thread): the "logical column" of masks and
/// epilogues.
struct IndexFn {
  ThreadOffset thread;
  std::vector<RegisterOffset> registers;
  /// True if register flips and thread flips use different bits: index = thread + constant().
  bool is_additive = true;

  std::int64_t operator()(const HardwareCoord& place) const;
  /// Returns the constant of a register in an additive function.
  std::int64_t constant(int reg) const {
    const auto& r = registers[static_cast<std::size_t>(reg)];
    return r.flip + r.add;
  }
};
IndexFn index_fn(const LinearLayout& layout, int dim);
/// For each register of an additive function, returns true if it pads the dimension in some thread.
std::vector<bool> padded_registers(const LinearLayout& layout, int dim);

/// Byte offset in shared memory of every (register, thread).
struct SharedFn {
  /// One function per slab; a register uses that of its slab for all threads.
  std::vector<ThreadOffset> slabs;
  struct Register {
    int slab = 0;
    RegisterOffset part;
  };
  std::vector<Register> registers;

  std::int64_t operator()(const HardwareCoord& place) const;
  /// A register's flip split in two: the part that must be XORed to the thread's function, and the
  /// part that may go into the constant offset of the instruction.
  struct Cut {
    std::uint32_t flip;
    std::int64_t constant;
  };
  Cut cut(int reg) const;
};
/// Refused if the offset does not have that form: a thread's bits straddle slabs, or overlap a
/// register's bits above the linear block. The caller then computes indices (index_fn) and strides.
Result<SharedFn> shared_fn(const SharedLayout& shared, const LinearLayout& dist);

/// Registers accessed by one instruction, in address order.
struct Vector {
  std::vector<int> registers;
};
/// Returns the widest vectors of at most `max_bytes` (1..16) such that each thread's vectors are
/// contiguous and aligned, also if several tiles are consecutive in memory. Every register is in
/// one vector; all vectors have the same width. Refused like shared_fn.
Result<std::vector<Vector>> shared_vectors(const SharedFn& fn, const SharedLayout& shared,
                                           int max_bytes = 16);
/// Like shared_vectors(), for global memory with unit stride along `dim`, where accesses may be up
/// to `max_elements` wide: a power of two that divides base address, other strides, and the bound
/// of `dim` (or the extents, if bounds are masked).
std::vector<Vector> global_vectors(const LinearLayout& dist, int dim, int max_elements);

}  // namespace tegula::ir
