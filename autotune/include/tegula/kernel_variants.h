#pragma once
#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "tegula/control.h"
#include "tegula/kernel.h"

namespace tegula {

/// In a kernel: the configuration that it is made in. `Config::visit_axes(config, visit)` calls
/// `visit(name, value, set)` for every number, bool or not, that the kernel gets by tune().
template <class Config>
Config tuned() {
  Config config;
  Config::visit_axes(config, [](const char* name, auto& value, std::initializer_list<int> set) {
    using Value = std::remove_cvref_t<decltype(value)>;
    value = static_cast<Value>(tune(name, set, static_cast<int>(value)));
  });
  return config;
}

/// The tune() values of such a configuration.
template <class Config>
Tuning tuning_of(const Config& config) {
  Tuning values;
  Config::visit_axes(config, [&](const char* name, auto value, std::initializer_list<int>) {
    values[name] = static_cast<int>(value);
  });
  return values;
}

namespace detail {

/// A kernel made anew for each configuration it is asked for, its parameters forgotten: one class
/// for all kernels of a `Config`. Several threads may ask.
template <class Config>
class ConfiguredInstances {
 public:
  explicit ConfiguredInstances(std::shared_ptr<dsl::KernelInstance> base)
      : base_(std::move(base)) {}

  std::shared_ptr<dsl::KernelInstance> of(const Config& config) {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(config);
    if (found != made_.end()) return found->second;
    return made_.try_emplace(config, with_tuning(*base_, tuning_of(config))).first->second;
  }
  /// The kernel without a configuration.
  dsl::KernelInstance* base() const { return base_.get(); }
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
    return text.empty() ? detail::explain(*base_) : text;
  }

 private:
  std::shared_ptr<dsl::KernelInstance> base_;
  mutable std::mutex mutex_;
  std::map<Config, std::shared_ptr<dsl::KernelInstance>> made_;
};

}  // namespace detail

/// A kernel in all the configurations it is asked for, each made once. A `Config` is ordered and
/// one of `tuned`. Several threads may ask.
template <class Body, class Config>
class KernelVariants {
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  KernelVariants(const char* name, Body body)
      : made_(kernel(name, std::move(body)).shared_instance()) {}

  KernelType of(const Config& config) { return KernelType(made_.of(config)); }
  /// Whether one of the configurations compiled so far `matches`.
  template <class Predicate>
  bool has(const Predicate& matches) const {
    return made_.has(matches);
  }
  /// Report on the configurations compiled so far. Throws CompileError if there are none.
  template <class Predicate>
  std::string explain(const Predicate& matches) const {
    return made_.explain(matches);
  }

 private:
  detail::ConfiguredInstances<Config> made_;
};

}  // namespace tegula
