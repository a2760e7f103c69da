#pragma once
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tegula/control.h"
#include "tegula/kernel.h"

namespace tegula {

/// In a kernel: the configuration that it is made in. `Config::each_value(config, visit)` calls
/// `visit(name, value, set)` for every number, bool or not, that the kernel gets by tune().
template <class Config>
Config tuned() {
  Config config;
  Config::each_value(config, [](const char* name, auto& value, std::initializer_list<int> set) {
    value = tune(name, set, value);
  });
  return config;
}

/// Of such a configuration the values of tune().
template <class Config>
Tuning tuning_of(const Config& config) {
  Tuning values;
  Config::each_value(config, [&](const char* name, int value, std::initializer_list<int>) {
    values[name] = value;
  });
  return values;
}

/// A kernel in all the configurations it is asked for, each made once. A `Config` is ordered and
/// one of `tuned`. Several threads may ask.
template <class Body, class Config>
class Configured {
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  Configured(const char* name, Body body) : base_(kernel(name, std::move(body))) {}

  const KernelType& of(const Config& config) {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(config);
    if (found != made_.end()) return found->second;
    return made_.try_emplace(config, base_.with(tuning_of(config))).first->second;
  }
  /// Whether some configuration of those asked for before `is_meant`.
  template <class Predicate>
  bool has(const Predicate& is_meant) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [config, made] : made_)
      if (is_meant(config)) return true;
    return false;
  }
  /// What was compiled of these, and why. Throws CompileError if nothing was.
  template <class Predicate>
  std::string explain(const Predicate& is_meant) const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [config, made] : made_)
      if (is_meant(config)) text += made.explain();
    return text.empty() ? base_.explain() : text;
  }

 private:
  KernelType base_;
  mutable std::mutex mutex_;
  std::map<Config, KernelType> made_;
};

}  // namespace tegula
