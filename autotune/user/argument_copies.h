#pragma once
// Copies of a call's arguments, for kernels that may be wrong: the user's tensors are never
// written.
#include <memory>
#include <string>
#include <vector>

#include "dsl/instance.h"
#include "tegula/stream.h"

namespace tegula::autotune {

/// One copy of all tensors of a call, with the same shapes, strides and alignment, each between red
/// zones of kRedZone bytes.
class ArgumentCopy {
 public:
  static constexpr std::int64_t kRedZone = std::int64_t{64} << 10;

  /// `access` is that of each argument.
  ArgumentCopy(std::span<const dsl::HostArg> args,
               std::span<const tegula::detail::ViewAccess> access, const Stream& stream);

  std::span<const dsl::HostArg> args() const { return args_; }
  /// Fills outputs with NaNs (all bits 1) and gives inputs that are written their values again.
  void reset(const Stream& stream) const;
  /// Copies the bytes of every written tensor to the host: to the tensors of `out`, which are made
  /// where it is empty, in memory that the device copies to at full speed.
  void outputs(const Stream& stream, std::vector<Tensor>& out) const;
  /// Names the first red zone that was overwritten; empty where all are whole.
  std::string red_zone_damage(const Stream& stream) const;

 private:
  struct Copied {
    std::size_t position;
    Tensor original, block;  ///< block: bytes with both red zones
    Tensor bytes;            ///< the part of the block that holds the elements
    tegula::detail::ViewAccess access;
  };

  std::vector<dsl::HostArg> args_;
  std::vector<Copied> copied_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

/// The access of each of a kernel's parameters.
std::vector<tegula::detail::ViewAccess> access_of(std::span<const dsl::ParamInfo> params);

/// Sets every byte of a contiguous tensor of bytes, on its device.
void fill_bytes(const Tensor& bytes, unsigned char value, const Stream& stream);

/// Bytes of the tensors of a call.
std::int64_t bytes_of(std::span<const dsl::HostArg> args);

struct Difference {
  bool is_equal = true;
  bool is_close = true;
  std::string text;  ///< the first element that is not close, or the first that differs
};
/// Compares outputs with those of the reference: bit by bit, then by the error that rounding alone
/// makes. `like` are the arguments, in order of the outputs' tensors.
Difference compare(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                   std::span<const dsl::HostArg> args,
                   std::span<const tegula::detail::ViewAccess> access);

}  // namespace tegula::autotune
