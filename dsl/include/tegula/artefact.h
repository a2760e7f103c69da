#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tegula/tensor.h"
#include "tegula/warning.h"

/// Compilation for a GPU that need not be present: Kernel::compile().
namespace tegula {

namespace runtime {
class CompiledKernel;
}

/// The shape, strides and element type of a tensor, without its memory: what a kernel is compiled
/// for. A Tensor of any device converts to it; an undefined Tensor means an optional argument that
/// is left out.
class TensorSpec {
 public:
  /// Takes shape, strides and type of a tensor.
  TensorSpec(const Tensor& tensor) : tensor_(tensor) {}
  /// Strides are in elements; none means row-major. The address is assumed to be a multiple of 16
  /// bytes, like those of whole tensors. Throws CompileError for extents and strides that no tensor
  /// can have.
  TensorSpec(const Dims& shape, DType dtype, const Dims& strides = {});

  /// Returns a tensor whose elements must not be read.
  const Tensor& described() const { return tensor_; }

 private:
  Tensor tensor_;
};

/// Returns a row-major tensor of this shape: `spec<bf16>(1024, 512)`. Throws CompileError for more
/// than eight or negative extents.
template <Element T, std::convertible_to<std::int64_t>... Extents>
TensorSpec spec(Extents... extents) {
  return TensorSpec(Dims{static_cast<std::int64_t>(extents)...}, dtype_of<T>);
}

/// A kernel compiled for a target, as data: its code and facts about it. Copies share it. Valid for
/// every GPU of the target and for all calls of the same class of arguments.
class Artefact {
 public:
  /// Called by Kernel::compile().
  Artefact(std::shared_ptr<const runtime::CompiledKernel> kernel, std::vector<Warning> warnings)
      : kernel_(std::move(kernel)), warnings_(std::move(warnings)) {}

  /// Returns the kernel's name, which is also the entry point's in the code.
  const std::string& name() const;
  /// Returns the target, such as "sm_90a".
  std::string target() const;
  /// Returns the PTX. Needs no CUDA toolkit if LLVM compiled it; with TEGULA_BACKEND=nvrtc NVRTC
  /// makes it now, and DeviceError is thrown if NVRTC is missing.
  std::string ptx() const;
  /// Returns the machine code: an ELF file for cuModuleLoadData, nvdisasm or cuobjdump. Throws
  /// DeviceError if no assembler (ptxas or NVRTC) was found when the kernel was compiled.
  std::vector<char> cubin() const;
  /// Returns true if cubin() has one.
  bool has_cubin() const;
  /// Returns warnings: registers that spill, dots that are not on the GPU's fastest path, results
  /// that are never stored; those of the assembler only if there is one.
  const std::vector<Warning>& warnings() const { return warnings_; }
  /// Returns the schedule, what passes did and why, registers, shared memory and occupancy.
  std::string explain() const;

 private:
  std::shared_ptr<const runtime::CompiledKernel> kernel_;
  std::vector<Warning> warnings_;
};

}  // namespace tegula
