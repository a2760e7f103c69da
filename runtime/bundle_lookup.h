#pragma once
// Lookup of traced kernels in the bundles of the process. A kernel that a bundle contains needs no
// compiler, and the disk cache is not searched for it.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bundle.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// Returns the folder to which `tegula cache import` copies bundles, a subfolder of the disk cache;
/// "" without a disk cache.
std::filesystem::path bundle_folder();

/// Bundles in search order: those of TEGULA_BUNDLES, the added ones, then those of bundle_folder().
class BundleLayers {
 public:
  /// Opens the bundles that the environment names, then `added`, then the imported ones. Files that
  /// are not bundles are reported by `faults`; nothing is thrown for them.
  explicit BundleLayers(const std::vector<std::filesystem::path>& added);

  std::optional<CacheEntry> find(const CacheKey& key, std::string* file = nullptr) const;
  /// Returns the entries of one key in all bundles.
  std::vector<CacheEntry> find_all(const CacheKey& key) const;
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void open(const std::filesystem::path& file);

  std::vector<std::unique_ptr<const Bundle>> bundles_;
  std::vector<std::string> faults_;
};

/// Adds a bundle to those of this process. Throws DeviceError if it cannot be used.
void add_bundle(const std::filesystem::path& file);

/// Returns the bundles of this process, which are opened by the first call and never closed.
const BundleLayers& bundle_layers();

/// Completes a traced kernel up to the verb `assemble` from a bundle; returns false if no bundle
/// has it. Bundles contain kernels for GPUs only. With TEGULA_DUMP, which shows every stage,
/// bundles are ignored.
bool load_from_bundle(Compilation& k, const CompileRequest& request, Artefact& artefact);

}  // namespace tegula::runtime
