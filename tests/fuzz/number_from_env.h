#pragma once
// Numbers that a run of random tests is given: how many, and which seed comes first.
#include <cstdint>
#include <cstdlib>

namespace tegula::fuzz {

inline std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace tegula::fuzz
