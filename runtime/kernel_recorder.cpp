#include "runtime/kernel_recorder.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tegula::runtime {
namespace {

std::atomic<KernelRecorder*>& cell() {
  static std::atomic<KernelRecorder*> recorder = nullptr;
  return recorder;
}

}  // namespace

KernelRecorder::KernelRecorder() { cell() = this; }
KernelRecorder::~KernelRecorder() { cell() = nullptr; }
KernelRecorder* KernelRecorder::current() { return cell().load(std::memory_order_relaxed); }

void KernelRecorder::record(std::shared_ptr<const CompiledKernel> kernel, BundledKernel entry) {
  const std::lock_guard lock(mutex_);
  entries_.insert_or_assign(std::move(kernel), std::move(entry));
}

std::optional<BundledKernel> KernelRecorder::find(const CompiledKernel& kernel) const {
  const std::lock_guard lock(mutex_);
  const auto at =
      std::ranges::find_if(entries_, [&](const auto& e) { return e.first.get() == &kernel; });
  return at == entries_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace tegula::runtime
