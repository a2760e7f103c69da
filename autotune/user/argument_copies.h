#pragma once
// Copies of a call's tensors, for kernels that may be wrong: the user's are never written.
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

/// A tensor of a call that is measured.
struct MeasuredTensor {
  Tensor tensor;
  detail::ViewAccess access = detail::ViewAccess::In;
  std::size_t position = 0;  ///< of its argument, for messages
};
/// The tensors of a call: its arguments, then those that candidates have captured. More may come,
/// and none goes.
using MeasuredTensors = std::deque<MeasuredTensor>;

/// A tensor within the memory of another one.
struct MeasuredView {
  std::int64_t first = 0;  ///< its first element, in bytes behind that of the other
  DType dtype = DType::f32;
  Dims shape, strides;
};

/// A run-time argument of a candidate.
struct MeasuredArg {
  int tensor = -1;          ///< among the call's; none for a number, or where it is left out
  bool is_address = false;  ///< of the tensor
  std::uint64_t bits = 0;   ///< of a number
  int made = -1;            ///< among the candidate's own tensors, instead of the call's
  std::optional<MeasuredView> view = {};  ///< of that tensor; the whole where there is none
};
using MeasuredArgs = std::vector<MeasuredArg>;

/// Arguments that are bound to memory, with the views that they point to.
struct BoundArgs {
  BoundArgs() = default;
  BoundArgs(BoundArgs&&) noexcept = default;  // arguments point to the views, which stay in place

  std::list<Tensor> views;
  std::vector<runtime::LaunchArg> args;
};

/// One copy of the tensors of a call, with the same shapes, strides and alignment, each between red
/// zones of kRedZone bytes. Tensors without elements are not copied.
class ArgumentCopy {
 public:
  static constexpr std::int64_t kRedZone = std::int64_t{64} << 10;

  /// Copies those of the tensors that are not here yet.
  void add(const MeasuredTensors& tensors, const Stream& stream);

  const Tensor& tensor(std::size_t i) const { return tensors_[i]; }
  /// The arguments of a launch on these copies and a candidate's own tensors. Both must outlive
  /// them.
  BoundArgs bind(const MeasuredArgs& args, const std::vector<Tensor>& made) const;
  /// Fills outputs with NaNs (all bits 1) and gives inputs that are written their values again.
  void reset(const Stream& stream) const;
  /// Copies the bytes of every written tensor to the host: to the tensors of `out`, which are made
  /// where it is empty, in memory that the device copies to at full speed.
  void outputs(const Stream& stream, std::vector<Tensor>& out) const;
  /// Names the first red zone that was overwritten; empty where all are whole.
  std::string red_zone_damage(const Stream& stream) const;

 private:
  struct Copied {
    MeasuredTensor original;
    Tensor block;  ///< bytes with both red zones
    Tensor bytes;  ///< the part of the block that holds the elements
  };

  std::deque<Tensor> tensors_;
  std::vector<Copied> copied_;
};

/// Sets every byte of a contiguous tensor of bytes, on its device.
void fill_bytes(const Tensor& bytes, unsigned char value, const Stream& stream);

/// Whether both are the same elements of the same memory.
bool is_same(const Tensor& a, const Tensor& b);
/// The bytes of a tensor, the elements' and those between them, as a tensor of bytes.
Tensor bytes_in(const Tensor& tensor);
/// Bytes of the tensors of a call.
std::int64_t bytes_of(const MeasuredTensors& tensors);

struct Difference {
  bool is_equal = true;
  bool is_close = true;
  std::string text;  ///< the first element that is not close, or the first that differs
};
/// Compares outputs, as ArgumentCopy::outputs gives them, with those of the reference: bit by bit,
/// then by the error that rounding alone makes.
Difference compare(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                   const MeasuredTensors& tensors);

}  // namespace tegula::autotune
