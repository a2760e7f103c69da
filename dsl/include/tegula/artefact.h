#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tegula/tensor.h"
#include "tegula/warning.h"

/// Compiling for a GPU that need not be here: Kernel::compile().
namespace tegula {

namespace runtime {
class CompiledKernel;
}

/// The shape, strides and element type of a tensor, without its memory: what a kernel is compiled
/// for. A Tensor of any device is one, too; none at all stands for an optional argument that is
/// left out.
class TensorSpec {
 public:
  TensorSpec(const Tensor& tensor) : tensor_(tensor) {}
  /// Strides count elements; none means row-major. The address is assumed to be a multiple of 16
  /// bytes, as those of whole tensors are. Throws CompileError for extents and strides that no
  /// tensor has.
  TensorSpec(const Dims& shape, DType dtype, const Dims& strides = {});

  /// A tensor that must not be read.
  const Tensor& described() const { return tensor_; }

 private:
  Tensor tensor_;
};

/// `spec<bf16>(1024, 512)`: a row-major tensor of this shape. Throws CompileError for more than
/// eight or negative extents.
template <Element T, std::convertible_to<std::int64_t>... Extents>
TensorSpec spec(Extents... extents) {
  return TensorSpec(Dims{static_cast<std::int64_t>(extents)...}, dtype_of<T>);
}

/// A kernel compiled for a target, as data: its code and facts about it. Copies share it. Valid for
/// every GPU of the target and for all calls of the same class of arguments.
class Artefact {
 public:
  Artefact(std::shared_ptr<const runtime::CompiledKernel> kernel, std::vector<Warning> warnings)
      : kernel_(std::move(kernel)), warnings_(std::move(warnings)) {}

  /// The kernel's name, which is also the entry point's in the code.
  const std::string& name() const;
  /// "sm_90a"
  std::string target() const;
  /// The PTX. Needs no CUDA toolkit where LLVM has compiled it; under TEGULA_BACKEND=nvrtc NVRTC
  /// makes it now, and this throws DeviceError where that is gone.
  std::string ptx() const;
  /// The machine code: an ELF file for cuModuleLoadData, nvdisasm or cuobjdump. Throws DeviceError
  /// where no assembler (ptxas or NVRTC) was found when the kernel was compiled.
  std::vector<char> cubin() const;
  /// Whether cubin() has one.
  bool has_cubin() const;
  /// Registers that spill, dots that are not on the GPU's fastest path, results that are never
  /// stored; those of the assembler only if there is one.
  const std::vector<Warning>& warnings() const { return warnings_; }
  /// The schedule, what passes did and why, registers, shared memory and occupancy.
  std::string explain() const;

 private:
  std::shared_ptr<const runtime::CompiledKernel> kernel_;
  std::vector<Warning> warnings_;
};

}  // namespace tegula
