#pragma once
// Copies of a call's tensors, for kernels that may be wrong. The user's tensors are never written.
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch_args.h"
#include "tegula/kernel.h"
#include "tegula/stream.h"

namespace tegula::autotune {

/// A tensor of a measured call.
struct MeasuredTensor {
  Tensor tensor;
  detail::ViewAccess access = detail::ViewAccess::In;
  std::size_t position = 0;  ///< of the argument, for messages
};
/// The tensors of a call: its arguments, then those that candidates captured. Append-only.
using MeasuredTensors = std::deque<MeasuredTensor>;

/// A view of another tensor's memory.
struct MeasuredView {
  std::int64_t first = 0;  ///< byte offset of the first element from that of the other tensor
  DType dtype = DType::f32;
  Dims shape, strides;
};

/// A run-time argument of a candidate.
struct MeasuredArg {
  int tensor = -1;          ///< index of the call's tensor; -1 for a number or an omitted argument
  bool is_address = false;  ///< the argument is the address of the tensor
  std::uint64_t bits = 0;   ///< value of a number
  int made = -1;            ///< index of a tensor of the candidate, used instead of the call's
  std::optional<MeasuredView> view = {};  ///< view of that tensor; the whole tensor if empty
};
using MeasuredArgs = std::vector<MeasuredArg>;

/// Arguments bound to memory, with the views to which they point.
struct BoundArgs {
  BoundArgs() = default;
  BoundArgs(BoundArgs&&) noexcept = default;  // pointers to views stay valid

  std::list<Tensor> views;
  std::vector<runtime::LaunchArg> args;
};

/// A copy of a call's tensors with the same shapes, strides and alignment, each between red zones
/// of kRedZone bytes. Tensors without elements are not copied.
class ArgumentCopy {
 public:
  static constexpr std::int64_t kRedZone = std::int64_t{64} << 10;

  /// Copies the tensors that have not been copied yet.
  void add(const MeasuredTensors& tensors, const Stream& stream);

  const Tensor& tensor(std::size_t i) const { return tensors_[i]; }
  /// Returns the arguments of a launch on these copies and on the candidate's tensors. Both must
  /// outlive the result.
  BoundArgs bind(const MeasuredArgs& args, const std::vector<Tensor>& made) const;
  /// Fills outputs with NaNs (all bits 1) and restores the values of inputs that are written.
  void reset(const Stream& stream) const;
  /// Copies the bytes of every written tensor to the tensors of `out` on the host. If `out` is
  /// empty, they are created in memory to which the device copies at full speed.
  void outputs(const Stream& stream, std::vector<Tensor>& out) const;
  /// Returns the name of the first overwritten red zone; empty if all are intact.
  std::string red_zone_damage(const Stream& stream) const;

 private:
  struct Copied {
    MeasuredTensor original;
    Tensor block;  ///< bytes including both red zones
    Tensor bytes;  ///< part of the block with the elements
  };

  std::deque<Tensor> tensors_;
  std::vector<Copied> copied_;
};

/// Sets every byte of a contiguous tensor of bytes, on its device.
void fill_bytes(const Tensor& bytes, unsigned char value, const Stream& stream);

/// Returns true if both tensors have the same elements in the same memory.
bool is_same(const Tensor& a, const Tensor& b);
/// Returns the bytes of a tensor, including gaps between elements, as a tensor of bytes.
Tensor bytes_in(const Tensor& tensor);
/// Returns the total size of a call's tensors in bytes.
std::int64_t bytes_of(const MeasuredTensors& tensors);

struct Difference {
  bool is_equal = true;
  bool is_close = true;
  std::string text;  ///< the first element that is not close, else the first that differs
};
/// Compares outputs, as returned by ArgumentCopy::outputs, with those of the reference: bit by bit,
/// then within the rounding error.
Difference compare(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                   const MeasuredTensors& tensors);

}  // namespace tegula::autotune
