#pragma once
// Lookup of traced kernels in the disk cache. The key is everything that the machine code depends
// on; a kernel that is found skips optimize, emit and assemble.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cache.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// Returns the key of everything that the result of compiling a traced kernel depends on: its IR,
/// target, back end, plan, options and the content of every tool. `memos` is the folder in which
/// hashes of tools are cached, or "". Throws DeviceError if a tool is missing or cannot be read.
CacheKey disk_key(const Compilation& k, const CompileRequest& request,
                  const std::filesystem::path& memos = {});

/// Access to one kernel's entry of the disk cache, from the lookup to the publication. Does not
/// throw: every failure is a miss, reported in the kernel's remarks.
class DiskCacheLookup {
 public:
  /// `k` is traced; it and the request must outlive this object. With TEGULA_CACHE=off or
  /// TEGULA_DUMP, which shows every stage, all other functions do nothing.
  DiskCacheLookup(Compilation& k, const CompileRequest& request);

  /// Completes the kernel up to the verb `assemble` from the disk; returns false if it must be
  /// compiled.
  bool load(Artefact& artefact);
  /// Publishes the compiled kernel.
  void save(const Artefact& artefact);

 private:
  void open();
  bool restore(const CacheEntry& entry, Artefact& artefact);
  void note(std::string text);

  Compilation& k_;
  const CompileRequest& request_;
  bool with_lines_;  ///< the kernel's result contains source lines
  std::vector<std::string> notes_;
  std::unique_ptr<KernelCache> cache_;
  CacheKey key_;
  std::unique_ptr<BuildLock> lock_;
};

}  // namespace tegula::runtime
