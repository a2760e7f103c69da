// The pool of intern(): strings that outlive every kernel, error and dump.
#include "tegula/location.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace tegula {

const char* intern(std::string_view text) {
  // Leaked on purpose: locations are printed by destructors of other statics.
  static auto* const pool = new std::unordered_set<std::string>;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  // Nodes of an unordered_set never move, so the characters stay where they are.
  return pool->emplace(text).first->c_str();
}

}  // namespace tegula
