#include "runtime/disk_cache.h"

#include <fmt/format.h>

#include "codegen/emit.h"
#include "runtime/kernel_entry.h"
#include "runtime/nvrtc.h"
#include "runtime/shared_library.h"
#include "runtime/tool_hash.h"
#include "support/env.h"
#include "support/errors.h"

namespace tegula::runtime {
namespace {

constexpr std::chrono::seconds kPatience{2};  // wait for a process that compiles the same kernel

// ---- key

/// Returns the file from which this code was loaded. It contains the passes, the lowering, the CUDA
/// C++ emitter and the layout of the entries.
std::filesystem::path own_file() { return file_of(reinterpret_cast<const void*>(&disk_key)); }

class ToolFields {
 public:
  ToolFields(CacheKey& key, const std::filesystem::path& memos) : key_(key), memos_(memos) {}

  void file(std::string_view field, const std::filesystem::path& file) {
    key_.add(field, tool_hash(file, memos_).hex());
  }

  /// Adds every file that could be the LLVM module. Only opening it would show which one the loader
  /// takes, and a kernel found on disk must not open it.
  void llvm() {
    bool any = false;
    std::error_code ignored;
    for (const std::string& place : codegen::llvm_module_places())
      if (std::filesystem::is_regular_file(place, ignored)) {
        file("llvm", place);
        any = true;
      }
    if (!any)
      throw DeviceError(diagnostic(ErrorId::device_missing, {}, {},
                                   "the file of the LLVM back end is unknown",
                                   "set TEGULA_LLVM to its path"));
    const auto ptxas = find_ptxas();
    if (ptxas)
      file("ptxas", *ptxas);
    else
      key_.add("ptxas", "the driver");
  }

  void nvrtc() {
    std::string why;
    const auto library = find_nvrtc(&why);
    if (!library)
      throw DeviceError(
          diagnostic(ErrorId::device_missing, {}, {}, why, "set TEGULA_NVRTC to its path"));
    file("nvrtc", library->path);
    for (const std::string& builtins :
         glob_files((library->path.parent_path() / "libnvrtc-builtins.so*").string()))
      file("nvrtc builtins", builtins);
  }

 private:
  CacheKey& key_;
  const std::filesystem::path& memos_;
};

}  // namespace

CacheKey disk_key(const Compilation& k, const CompileRequest& request,
                  const std::filesystem::path& memos) {
  CacheKey key = kernel_key(k, request);
  key.add("back end", name(k.backend));
  ToolFields tools(key, memos);
  tools.file("tegula", own_file());
  if (k.device.kind != DeviceKind::cuda) return key;
  if (k.backend == Backend::Llvm)
    tools.llvm();
  else
    tools.nvrtc();
  return key;
}

DiskCacheLookup::DiskCacheLookup(Compilation& k, const CompileRequest& request)
    : k_(k), request_(request), with_lines_(keeps_lines(k, request)) {}

void DiskCacheLookup::open() {
  if (env().cache == "off" || !env().dump.empty()) return;
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) return;
  try {
    cache_ = std::make_unique<KernelCache>(
        CacheOptions{folder, env().cache == "readonly", CacheOptions::kMaxBytes,
                     [this](const std::string& line) { note(line); }, &Vfs::posix()});
    key_ = disk_key(k_, request_, cache_->memo_folder());
  } catch (const std::exception& e) {
    note(fmt::format("not looked up: {}", e.what()));
    cache_ = nullptr;
  }
}

void DiskCacheLookup::note(std::string text) { notes_.push_back(std::move(text)); }

bool DiskCacheLookup::load(Artefact& artefact) {
  open();
  if (!cache_) return false;
  auto entry = cache_->find(key_);
  if (!entry) {
    lock_ = cache_->lock_for_build(key_, kPatience);
    if (lock_) entry = cache_->find(key_);  // the process that held the lock may have published it
  }
  if (!entry || !restore(*entry, artefact)) return false;
  lock_ = nullptr;
  note("taken from the disk cache");
  for (std::string& text : notes_)
    k_.remarks.push_back({"cache", {}, ir::Remark::Kind::Analysis, std::move(text), {}});
  return true;
}

/// Restores the kernel from an entry; returns false and discards the entry if that fails. Its
/// checksum was verified, so only an entry written by a bug or another program can fail.
bool DiskCacheLookup::restore(const CacheEntry& entry, Artefact& artefact) try {
  artefact = restore_kernel(entry, k_, with_lines_, k_.backend);
  return true;
} catch (const std::exception& e) {
  note(
      fmt::format("{} is unusable ({}): compiled again", cache_->path_of(key_).string(), e.what()));
  cache_->discard(key_);
  return false;
}

void DiskCacheLookup::save(const Artefact& artefact) {
  if (cache_) try {
      cache_->store(key_, kernel_entry(k_, artefact, with_lines_));
    } catch (const std::exception& e) {
      note(fmt::format("not kept: {}", e.what()));
    }
  lock_ = nullptr;
  for (std::string& text : notes_)
    k_.remarks.push_back({"cache", {}, ir::Remark::Kind::Missed, std::move(text), {}});
}

}  // namespace tegula::runtime
