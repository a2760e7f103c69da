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

/// Copies of tensors, for kernels that cannot read their layout. Memory-bound: every element is
/// read and written once.
namespace tegula {

/// to = from: of one shape and type, up to three dimensions, any strides (a transposed tensor gives
/// a transposition). The two must not overlap. Throws CompileError for what does not fit.
void copy(const Stream& stream, const Tensor& from, const Tensor& to,
          Loc at = std::source_location::current());

struct TensorCopy {
  Tensor from, to;
};
/// Several copies of one type, two in a launch: the launch is most of a small copy's time.
void copy(const Stream& stream, std::span<const TensorCopy> copies,
          Loc at = std::source_location::current());

/// Whether TMA can load tiles of a tensor of two or three dimensions: one of the last two is
/// contiguous, and all other strides and the address are multiples of 16 bytes.
bool is_tma_compatible(const Tensor& tensor);

/// Layout that a kernel requires of a tensor's last two dimensions.
enum class LayoutRequirement : std::uint8_t {
  any,             ///< nothing: the tensor is never copied
  tma_compatible,  ///< TMA can load it, with either dimension contiguous
  contiguous_dim,  ///< TMA can load it, contiguous along the named dimension
};

/// A tensor of two or three dimensions that a kernel reads.
struct RepackedOperand {
  const Tensor& tensor;
  int dim = -1;  ///< -1 or -2: along which a copy is contiguous; tma_compatible keeps the other one
                 ///< if it is
  LayoutRequirement requirement = LayoutRequirement::tma_compatible;

  /// Whether the kernel has to read a repacked copy.
  bool needs_repack() const;
  /// Whether rows (or columns) of the tensor or its copy begin at multiples of 128 bytes: a row of
  /// a box is then one line of the L2, else two.
  bool is_line_aligned() const { return pitch_bytes() % 128 == 0; }
  /// Bytes from one of those rows (or columns) to the next.
  std::int64_t pitch_bytes() const;
};

/// Operands of a kernel, and a workspace tensor, in memory of the stream: operands without the
/// required layout are repacked there, with rows padded to 128 bytes. Calls of one stream come from
/// one thread at a time, and repacked operands are valid until the next one.
class RepackedOperands {
 public:
  /// The operands, at most three and of one type, outlive it. `workspace`: shape of the workspace
  /// tensor, or empty; `counters`: number of counters that a launch needs, which are 0 before and
  /// after it.
  RepackedOperands(const Stream& stream, std::initializer_list<RepackedOperand> operands,
                   const Dims& workspace = {}, DType workspace_type = DType::f32, int counters = 0);
  RepackedOperands(const RepackedOperands&) = delete;
  RepackedOperands& operator=(const RepackedOperands&) = delete;
  /// An operand or its repacked copy.
  const Tensor& operator[](std::size_t i) const { return *of_[i]; }
  const Tensor& workspace() const { return workspace_; }
  /// Counters of the stream, or of the launch that a graph records: u32 [counters].
  const Tensor& counters() const { return counters_; }
  /// Whether some operand was copied, by kernels that let the next one start before they end.
  bool is_repacked() const { return !copies_.empty(); }

 private:
  std::array<const Tensor*, 3> of_{};
  std::vector<Tensor> copies_;
  Tensor workspace_, counters_;
};

}  // namespace tegula
