#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tegula/kernel.h"

/// Kernels of one family, one per configuration.
namespace tegula {
namespace detail {

/// Type-erased cache of one kernel per requested configuration, shared by all kernels with the same
/// `Config`, which must be ordered. Thread-safe.
template <class Config>
class ConfiguredInstances {
 public:
  /// Returns the kernel of `config`; calls `make()` if it does not exist yet.
  template <class Make>
  std::shared_ptr<dsl::KernelInstance> of(const Config& config, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<dsl::KernelInstance>& made = made_[config];
    if (!made) made = make();
    return made;
  }
  template <class Predicate>
  bool has(const Predicate& matches) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(made_, matches, [](const auto& made) { return made.first; });
  }
  template <class Predicate>
  std::string explain(const Predicate& matches) const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [config, made] : made_)
      if (matches(config)) text += detail::explain(*made);
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Config, std::shared_ptr<dsl::KernelInstance>> made_;
};

}  // namespace detail

/// Kernels made from a body. The member `config` of the body is the configuration that it is traced
/// with; its `plan()`, if present, returns preferred plan fields. Each kernel is created once.
/// Thread-safe.
template <class Body>
class ConfiguredKernel {
  using Config = decltype(Body::config);
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  /// Creates no kernel yet. `name` must outlive the object.
  ConfiguredKernel(const char* name, Body body) : name_(name), body_(std::move(body)) {}

  /// Returns the kernel of this configuration.
  KernelType of(const Config& config) {
    return KernelType(made_.of(config, [&] { return make(config).shared_instance(); }));
  }
  /// Returns true if a configuration requested so far satisfies `matches`.
  template <class Predicate>
  bool has(const Predicate& matches) const {
    return made_.has(matches);
  }
  /// Returns a report on the configurations compiled so far. Throws CompileError if there are none.
  template <class Predicate>
  std::string explain(const Predicate& matches) const {
    const std::string text = made_.explain(matches);
    return text.empty() ? make(body_.config).explain() : text;
  }

 private:
  KernelType make(const Config& config) const {
    Body body = body_;
    body.config = config;
    KernelType made = kernel(name_, body);
    if constexpr (requires { body.plan(); }) return made.prefer(body.plan());
    return made;
  }

  const char* name_;
  Body body_;
  detail::ConfiguredInstances<Config> made_;
};

}  // namespace tegula
