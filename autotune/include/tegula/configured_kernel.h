#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tegula/kernel.h"

/// The kernels of a family, one for each of its configurations.
namespace tegula {
namespace detail {

/// A kernel for each configuration that was asked for, its parameters forgotten: one class for all
/// kernels of a `Config`, which is ordered. Several threads may ask.
template <class Config>
class ConfiguredInstances {
 public:
  /// `make()` is called where there is none yet.
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

/// The kernels of a body, whose member `config` is the configuration that it is traced in; its
/// `plan()`, if it has one, gives the fields of the plan that this prefers. Each is made once.
/// Several threads may ask.
template <class Body>
class ConfiguredKernel {
  using Config = decltype(Body::config);
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  ConfiguredKernel(const char* name, Body body) : name_(name), body_(std::move(body)) {}

  KernelType of(const Config& config) {
    return KernelType(made_.of(config, [&] { return make(config).shared_instance(); }));
  }
  /// Whether one of the configurations asked for so far `matches`.
  template <class Predicate>
  bool has(const Predicate& matches) const {
    return made_.has(matches);
  }
  /// Report on the configurations compiled so far. Throws CompileError if there are none.
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
