#pragma once
// The compiled kernels of one kernel instance, by key and device.
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dsl/signature.h"
#include "runtime/jit.h"
#include "tegula/stream.h"

namespace tegula::dsl {

class KernelInstance;

class Launcher {
 public:
  Launcher();
  ~Launcher();

  /// Overrides for everything compiled from now on.
  std::optional<runtime::Backend> backend;
  std::optional<ir::Plan> plan;

  std::shared_ptr<const runtime::CompiledKernel> prepare(KernelInstance& instance, const Stream* stream, std::span<const HostArg> args);
  std::shared_ptr<const runtime::CompiledKernel> latest() const;
  std::string why() const;
  std::size_t compiled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tegula::dsl
