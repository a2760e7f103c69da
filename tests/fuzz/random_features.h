#pragma once
// Features that random programs may have in addition to the common ones. A feature is in the
// standard set once every device gives it the same meaning; TEGULA_FUZZ_FEATURES names others:
// "memory,carries", or "all".
#include <cstdlib>
#include <string>

namespace tegula::fuzz {

struct Features {
  /// Views that the program writes and reads again, by boxes, elements, atomics and pointers: needs
  /// barriers where another thread's access comes before (docs/language/memory.md).
  bool memory = false;
  /// Carries of loops and results of branches whose elements are absent at times.
  bool carries = false;
  /// Reshapes of any extents, of tiles with absent elements too.
  bool reshape = false;
  /// `arg_reduce` and `reduce_with` along dimensions where all may be absent.
  bool folds = false;
  /// Clusters of two and four programs, which gather each other's tiles.
  bool clusters = false;
  /// Loads and stores through pointers that promise neighbours (attr align).
  bool promises = false;
};

/// The features that every device agrees on today.
inline constexpr Features kStandardFeatures{
    .memory = true, .carries = true, .reshape = true, .folds = true};

inline Features features_from_env() {
  const char* const text = std::getenv("TEGULA_FUZZ_FEATURES");
  if (text == nullptr) return kStandardFeatures;
  const std::string list = std::string(",") + text + ",";
  const auto has = [&](const char* name) {
    return list.find(std::string(",") + name + ",") != std::string::npos ||
           list.find(",all,") != std::string::npos;
  };
  return {has("memory"), has("carries"),  has("reshape"),
          has("folds"),  has("clusters"), has("promises")};
}

}  // namespace tegula::fuzz
