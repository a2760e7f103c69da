#include "dsl/export/kernel_tuner.h"

#include <atomic>

namespace tegula::dsl {
namespace {

std::atomic<KernelTuner>& cell() {
  static std::atomic<KernelTuner> tuner = nullptr;
  return tuner;
}

}  // namespace

void set_kernel_tuner(KernelTuner tuner) { cell() = tuner; }
KernelTuner kernel_tuner() { return cell(); }

}  // namespace tegula::dsl
