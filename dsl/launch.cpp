// The call of a kernel: find what was compiled for this class of arguments, or compile it, and launch.
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "dsl/instance.h"
#include "dsl/launcher.h"
#include "support/env.h"

namespace tegula::dsl {

namespace {

struct Key {
  Hash128 hash;
  Device device;
  runtime::Backend backend;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const { return static_cast<std::size_t>(k.hash.low) ^ (static_cast<std::size_t>(k.device.kind) << 8) ^ static_cast<std::size_t>(k.device.index); }
};

/// The device of a call: that of its tensors, else of its stream.
Device device_of(const std::string& name, const Stream* stream, std::span<const HostArg> args) {
  const Tensor* first = nullptr;
  for (const HostArg& a : args) {
    if (!a.tensor || !a.tensor->defined()) continue;
    if (!first) first = a.tensor;
    if (a.tensor->device() != first->device())
      throw CompileError(Diagnostic{"", fmt::format("kernel {}: arguments on different devices: {} and {}", name, first->str(), a.tensor->str()), {}, {}, "move them with Tensor::to(device)"});
  }
  if (first && stream && stream->device() != first->device())
    throw CompileError(Diagnostic{"", fmt::format("kernel {}: the stream is on {}, the arguments are on {}", name, stream->device().str(), first->device().str()), {}, {}, "use a stream of the tensors' device"});
  return first ? first->device() : stream ? stream->device() : Device::best();
}

}  // namespace

struct Launcher::State {
  std::shared_mutex mutex;
  std::unordered_map<Key, std::shared_ptr<const runtime::CompiledKernel>, KeyHash> kernels;
  std::shared_ptr<const runtime::CompiledKernel> latest;
  std::string why;
};

Launcher::Launcher() : state_(std::make_unique<State>()) {}
Launcher::~Launcher() = default;

std::shared_ptr<const runtime::CompiledKernel> Launcher::prepare(KernelInstance& instance, const Stream* stream, std::span<const HostArg> args) {
  const Signature signature = instance.signature(args);
  const Key key{signature.hash(), device_of(instance.name(), stream, args), backend.value_or(runtime::default_backend())};
  {
    const std::shared_lock lock(state_->mutex);
    if (const auto it = state_->kernels.find(key); it != state_->kernels.end()) return it->second;
  }
  runtime::CompileRequest request;
  request.key = signature.text();
  request.device = key.device;
  request.backend = key.backend;
  request.plan = plan;
  Hash128 completed = key.hash;
  request.trace = [&] {
    TraceResult traced = instance.trace(signature);
    completed = traced.signature.hash();
    return std::move(traced.kernel);
  };
  auto kernel = runtime::compile(request);
  const std::unique_lock lock(state_->mutex);
  state_->why = fmt::format("compiled because no kernel fits this key yet ({} before):\n{}", state_->kernels.size(), request.key);
  state_->latest = kernel;
  // What the trace asked for (fixed extents, captures) is part of the key from now on.
  state_->kernels[{completed, key.device, key.backend}] = kernel;
  return kernel;
}

std::shared_ptr<const runtime::CompiledKernel> Launcher::latest() const {
  const std::shared_lock lock(state_->mutex);
  return state_->latest;
}
std::string Launcher::why() const {
  const std::shared_lock lock(state_->mutex);
  return state_->why;
}
std::size_t Launcher::compiled() const {
  const std::shared_lock lock(state_->mutex);
  return state_->kernels.size();
}

}  // namespace tegula::dsl

namespace tegula::detail {

void launch(dsl::KernelInstance& instance, const Stream* stream, std::span<const HostArg> args) {
  const auto kernel = instance.launcher.prepare(instance, stream, args);
  const auto run_time = instance.run_time_args(args);
  std::array<runtime::LaunchArg, runtime::LaunchPlan::kMaxArguments> packed;
  for (std::size_t i = 0; i < run_time.size(); ++i) packed[i] = {run_time[i].tensor, run_time[i].bits};
  const Stream use = stream ? *stream : Stream(kernel->device);
  kernel->launch(use, std::span(packed.data(), run_time.size()));
}

std::string dump(dsl::KernelInstance& instance, std::string_view verb) {
  const auto kernel = instance.launcher.latest();
  if (!kernel) throw CompileError(Diagnostic{"", fmt::format("kernel {} has not been compiled yet", instance.name()), instance.loc(), {}, "call it once, or use trace()"});
  return kernel->dump(verb);
}

std::string explain(dsl::KernelInstance& instance) {
  const auto kernel = instance.launcher.latest();
  return kernel ? kernel->explain() + instance.launcher.why() : fmt::format("kernel {} has not been compiled yet\n", instance.name());
}

}  // namespace tegula::detail
