#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "tegula/kernel.h"

namespace tegula {

/// A kernel in all the configurations it is asked for, each made once. `Config` is ordered, and
/// `tuning` says which values of tune() stand for one. Several threads may ask.
template <class Body, class Config>
class Configured {
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  Configured(const char* name, Body body, std::function<Tuning(const Config&)> tuning)
      : base_(kernel(name, std::move(body))), tuning_(std::move(tuning)) {}

  const KernelType& of(const Config& config) {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(config);
    if (found != made_.end()) return found->second;
    return made_.try_emplace(config, base_.with(tuning_(config))).first->second;
  }

 private:
  KernelType base_;
  std::function<Tuning(const Config&)> tuning_;
  std::mutex mutex_;
  std::map<Config, KernelType> made_;
};

}  // namespace tegula
