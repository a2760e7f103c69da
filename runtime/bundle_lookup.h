#pragma once
// The bundles of the process, seen from the verbs: a traced kernel that a bundle holds needs no
// compiler, and the disk cache is not asked for it.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bundle.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// The folder of the bundles that `tegula cache import` copies: below the disk cache's. Empty where
/// there is no disk cache.
std::filesystem::path bundle_folder();

/// Bundles in the order in which they are asked: those of TEGULA_BUNDLES, then the folder's.
class BundleLayers {
 public:
  /// Opens what the environment names, then `added`. Files that are no bundles are told by
  /// `faults`, not thrown.
  explicit BundleLayers(const std::vector<std::filesystem::path>& added);

  std::optional<CacheEntry> find(const CacheKey& key, std::string* file = nullptr) const;
  /// The entries of one key in all bundles.
  std::vector<CacheEntry> find_all(const CacheKey& key) const;
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void open(const std::filesystem::path& file);

  std::vector<std::unique_ptr<const Bundle>> bundles_;
  std::vector<std::string> faults_;
};

/// Adds a bundle to those of this process, from now on. Throws DeviceError where it cannot be used.
void add_bundle(const std::filesystem::path& file);

/// The bundles of this process, opened at the first call and kept to its end.
const BundleLayers& bundle_layers();

/// Completes a traced kernel up to the verb `assemble` from a bundle. Bundles hold kernels of GPUs;
/// TEGULA_DUMP, which is to show every stage, passes them by.
bool load_from_bundle(Compilation& k, const CompileRequest& request, Artefact& artefact);

}  // namespace tegula::runtime
