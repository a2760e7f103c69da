#pragma once
// The disk cache of compiled kernels, seen from the verbs: after the trace a kernel is looked up by
// everything its machine code depends on; found, it needs no optimize, emit and assemble.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cache.h"
#include "runtime/compilation.h"

namespace tegula::runtime {

/// Key of everything that the result of compiling a traced kernel depends on: its IR, target, back
/// end, plan, options and the content of every tool. `memos` is the folder in which hashes of tools
/// are remembered, or empty. Throws DeviceError if a tool cannot be read or is not there.
CacheKey disk_key(const Compilation& k, const CompileRequest& request,
                  const std::filesystem::path& memos = {});

/// The place of one kernel in the disk cache, from the look-up to the publishing. Nothing here
/// throws: whatever goes wrong is a miss, told in the kernel's remarks.
class DiskCacheLookup {
 public:
  /// `k` is traced; it and the request must outlive this. TEGULA_CACHE=off and TEGULA_DUMP, which
  /// is to show every stage, make all that follows do nothing.
  DiskCacheLookup(Compilation& k, const CompileRequest& request);

  /// Completes the kernel up to the verb `assemble` from the disk; false where it must be compiled.
  bool load(Artefact& artefact);
  /// Publishes the compiled kernel.
  void save(const Artefact& artefact);

 private:
  void open();
  bool restore(const CacheEntry& entry, Artefact& artefact);
  void note(std::string text);

  Compilation& k_;
  const CompileRequest& request_;
  bool with_lines_;  ///< the kernel's result names lines of the source
  std::vector<std::string> notes_;
  std::unique_ptr<KernelCache> cache_;
  CacheKey key_;
  std::unique_ptr<BuildLock> lock_;
};

}  // namespace tegula::runtime
