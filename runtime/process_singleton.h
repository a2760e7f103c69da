#pragma once
// Objects that the process keeps to its end, one per key.
#include <map>
#include <mutex>

namespace tegula::runtime {

/// The T of `key`, made when it is first asked for. Never destroyed: graphs and queued work may
/// outlive static destructors, and these must not call the driver.
template <class T, class Key>
T& process_singleton(const Key& key) {
  static std::mutex mutex;
  static auto* all = new std::map<Key, T>();
  const std::lock_guard lock(mutex);
  return (*all)[key];
}

}  // namespace tegula::runtime
