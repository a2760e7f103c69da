#include "dsl/preparing.h"

#include <cstdint>

#include "tegula/prepare.h"

namespace tegula {
namespace {

thread_local int preparing = 0;

}  // namespace

namespace dsl {
bool is_preparing() { return preparing > 0; }
}  // namespace dsl

void prepare(const std::function<void()>& calls) {
  struct Scope {
    Scope() { ++preparing; }
    ~Scope() { --preparing; }
  } const scope;
  calls();
}

Tensor described(const Dims& shape, DType dtype, Device device, const Dims& strides) {
  return Tensor::borrow(reinterpret_cast<void*>(std::uintptr_t{1} << 20), shape, dtype, device,
                        strides);
}

}  // namespace tegula
