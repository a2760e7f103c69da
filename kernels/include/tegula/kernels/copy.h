#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <vector>

#include "tegula/kernels/call_place.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Copies of tensors, for kernels that do not take them as they lie. Memory-bound: every element is
/// read and written once.
namespace tegula {

/// to = from: of one shape and type, up to three dimensions, any strides (a transposed tensor gives
/// a transposition). The two must not overlap. Throws CompileError for what does not fit.
void copy(const Stream& stream, const Tensor& from, const Tensor& to,
          Loc at = std::source_location::current());

struct TensorCopy {
  Tensor from, to;
};
/// Several of one type, two in a launch, which is most of what small copies take.
void copy(const Stream& stream, std::span<const TensorCopy> copies,
          Loc at = std::source_location::current());

/// Whether TMA brings tiles of a tensor of two or three dimensions: one of the last two is
/// contiguous, and rows, and what other dimensions step over, begin at multiples of 16 bytes.
bool tma_takes(const Tensor& tensor);

/// What a kernel asks of how a tensor's last two dimensions lie.
enum class Packing : std::uint8_t {
  Any,       ///< nothing: the tensor is never copied
  ForTma,    ///< that TMA takes it, whichever of the two is contiguous
  AlongDim,  ///< that TMA takes it, contiguous along a dimension that is named
};

/// A tensor of two or three dimensions that a kernel reads.
struct PackedOperand {
  const Tensor& tensor;
  int dim =
      -1;  ///< -1 or -2: along which a copy is contiguous; ForTma keeps the other one if it is
  Packing packing = Packing::ForTma;

  /// Whether the kernel has to read a copy.
  bool needs_copy() const;
  /// Rows (or columns), of the tensor or its copy, begin at multiples of 128 bytes: a row of a box
  /// is then one line of the L2, else it is two.
  bool has_whole_lines() const;
};

/// Tensors as a kernel takes them, and a further one to work in, in memory of the stream: operands
/// that do not lie as asked are copied there, with rows padded to 128 bytes. Calls of one stream
/// come from one thread at a time, and what was packed is valid until the next one.
class PackedTensors {
 public:
  /// The operands, at most three and of one type, outlive it. `further`: shape of the tensor to
  /// work in, or empty; `counters`: how many counters that are 0 a launch needs that leaves them 0.
  PackedTensors(const Stream& stream, std::initializer_list<PackedOperand> operands,
                const Dims& further = {}, DType type_of_further = DType::f32, int counters = 0);
  PackedTensors(const PackedTensors&) = delete;
  PackedTensors& operator=(const PackedTensors&) = delete;
  /// An operand or its copy.
  const Tensor& operator[](std::size_t i) const { return *of_[i]; }
  const Tensor& further() const { return further_; }
  /// Counters of the stream, or of the launch that a graph records: u32 [counters].
  const Tensor& counters() const { return counters_; }
  /// Whether some operand was copied, by kernels that let the next one start before they end.
  bool has_copies() const { return !copies_.empty(); }

 private:
  std::array<const Tensor*, 3> of_{};
  std::vector<Tensor> copies_;
  Tensor further_, counters_;
};

}  // namespace tegula
