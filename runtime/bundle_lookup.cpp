#include "runtime/bundle_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/cache.h"
#include "runtime/kernel_entry.h"
#include "support/env.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

std::vector<std::filesystem::path> imported_bundles() {
  std::vector<std::filesystem::path> files;
  std::error_code stop;
  for (const auto& file : std::filesystem::directory_iterator(bundle_folder(), stop))
    if (file.path().extension() == ".tgb") files.push_back(file.path());
  std::ranges::sort(files);  // directory order depends on the file system
  return files;
}

/// Returns the back end that a bundle's kernel must have; nothing if any back end is acceptable.
std::optional<Backend> wanted_backend(const Compilation& k, const CompileRequest& request) {
  if (request.backend || !env().backend.empty()) return k.backend;
  return std::nullopt;
}

}  // namespace

std::filesystem::path bundle_folder() {
  const std::filesystem::path folder = default_cache_folder();
  return folder.empty() ? folder : folder / "bundles";
}

BundleLayers::BundleLayers(const std::vector<std::filesystem::path>& added) {
  for (const std::string& file : env().bundles) open(file);
  for (const std::filesystem::path& file : added) open(file);
  if (env().cache == "off") return;
  for (const std::filesystem::path& file : imported_bundles()) open(file);
}

void BundleLayers::open(const std::filesystem::path& file) {
  try {
    bundles_.push_back(std::make_unique<const Bundle>(file));
  } catch (const DeviceError& e) {
    faults_.push_back(e.diagnostic().message);
  }
}

std::optional<CacheEntry> BundleLayers::find(const CacheKey& key, std::string* file) const {
  for (const auto& bundle : bundles_)
    if (auto entry = bundle->find(key)) {
      if (file != nullptr) *file = bundle->file().string();
      return entry;
    }
  return std::nullopt;
}

std::vector<CacheEntry> BundleLayers::find_all(const CacheKey& key) const {
  std::vector<CacheEntry> found;
  for (const auto& bundle : bundles_)
    if (auto entry = bundle->find(key)) found.push_back(std::move(*entry));
  return found;
}

namespace {

/// Tests replace the environment, so there is one BundleLayers per environment.
struct ProcessLayers {
  std::mutex mutex;
  std::vector<std::filesystem::path> added;
  std::map<std::string, std::unique_ptr<const BundleLayers>> by_environment;
};
ProcessLayers& process_layers() {
  static auto* const layers = new ProcessLayers;
  return *layers;
}

}  // namespace

void add_bundle(const std::filesystem::path& file) {
  const Bundle checked(file);
  ProcessLayers& all = process_layers();
  const std::lock_guard lock(all.mutex);
  all.added.push_back(file);
}

const BundleLayers& bundle_layers() {
  ProcessLayers& all = process_layers();
  const std::lock_guard lock(all.mutex);
  const std::string seen = fmt::format("{}\n{}\n{}\n{}", fmt::join(env().bundles, "\n"),
                                       bundle_folder().string(), env().cache, all.added.size());
  auto& layers = all.by_environment[seen];
  if (!layers) layers = std::make_unique<const BundleLayers>(all.added);
  return *layers;
}

bool load_from_bundle(Compilation& k, const CompileRequest& request, Artefact& artefact) {
  if (k.device.kind != DeviceKind::cuda || !env().dump.empty()) return false;
  const auto note = [&](std::string text) {
    k.remarks.push_back({"cache", {}, ir::Remark::Kind::Analysis, std::move(text), {}});
  };
  std::string file;
  const auto entry = bundle_layers().find(kernel_key(k, request), &file);
  if (entry) try {
      artefact = restore_kernel(*entry, k, keeps_lines(k, request), wanted_backend(k, request));
      note(fmt::format("taken from the bundle {}", file));
      return true;
    } catch (const std::exception& e) {
      note(fmt::format("its entry in the bundle {} is unusable: {}", file, e.what()));
    }
  for (const std::string& fault : bundle_layers().faults()) note(fault);
  return false;
}

}  // namespace tegula::runtime
