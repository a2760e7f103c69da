#include "tegula/artefact.h"

#include "runtime/compiled_kernel.h"
#include "tegula/error.h"

namespace tegula {
namespace {

/// Placeholder for the address of a spec, aligned to 16 bytes. It is never dereferenced: no launch
/// receives the tensor of a spec.
void* const kNowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40);

}  // namespace

TensorSpec::TensorSpec(const Dims& shape, DType dtype, const Dims& strides)
    : tensor_(Tensor::borrow(kNowhere, shape, dtype, Device::cuda(), strides)) {}

const std::string& Artefact::name() const { return kernel_->artefact().name; }
std::string Artefact::target() const { return std::string(kernel_->artefact().target.name()); }
std::string Artefact::ptx() const { return runtime::ptx_of(kernel_->artefact()); }
std::string Artefact::explain() const { return kernel_->explain(); }

bool Artefact::has_cubin() const { return kernel_->artefact().kind == runtime::ImageKind::cubin; }

std::vector<char> Artefact::cubin() const {
  if (!has_cubin()) runtime::throw_missing_ptxas();
  return kernel_->artefact().image;
}

}  // namespace tegula
