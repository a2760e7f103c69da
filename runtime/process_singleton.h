#pragma once
// Objects that live until the process ends, one per key.
#include <map>
#include <mutex>

namespace tegula::runtime {

/// Returns the T of `key`, which the first call creates. It is never destroyed: graphs and queued
/// work may outlive static destructors, which must not call the driver.
template <class T, class Key>
T& process_singleton(const Key& key) {
  static std::mutex mutex;
  static auto* all = new std::map<Key, T>();
  const std::lock_guard lock(mutex);
  return (*all)[key];
}

}  // namespace tegula::runtime
