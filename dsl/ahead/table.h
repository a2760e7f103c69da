#pragma once
// Kernels compiled ahead of time, in one block of bytes: what each takes, the class of arguments
// that it is for, and its artefact. A program links the block and needs no compiler.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/signature.h"
#include "runtime/compiled_kernel.h"
#include "tegula/export.h"

namespace tegula::dsl {

/// The class of arguments that one compiled kernel serves.
struct AheadClass {
  std::vector<ArgClass> args;  ///< run-time arguments
  std::vector<std::uint64_t> constants;
  bool is_wide = false;  ///< indices are computed in 64 bits
};

/// Whether a kernel of class `made` may be called with arguments of class `given`.
bool serves(const AheadClass& made, const AheadClass& given);
struct AheadKernel {
  std::size_t callable = 0;
  AheadClass of;
  std::shared_ptr<const runtime::CompiledKernel> kernel;
};

struct AheadCallable {
  std::string name;
  std::vector<ExportParam> params;
};

/// The class of the arguments of a call, one for each parameter. Throws CompileError where one does
/// not fit.
AheadClass class_of(std::span<const HostArg> args, const AheadCallable& callable);

class AheadTable {
 public:
  AheadTable() = default;
  /// Throws CompileError where the bytes are no table of this version, or damaged.
  explicit AheadTable(std::string_view bytes);

  /// Compiles the exported kernel for the target and arguments such as these. Throws CompileError
  /// for a kernel that captures Scalars or Tensors.
  void add(const std::string& name, std::span<const ExportParam> params, KernelInstance& kernel,
           std::string_view target, std::span<const HostArg> args);
  /// The table's bytes, kernels from special to general.
  std::string encode() const;

  /// Throws CompileError where there is no callable of this name.
  const AheadCallable& callable(std::string_view name) const;
  /// Number of the first kernel that serves the arguments; -1 for none.
  int find(const AheadCallable& callable, std::span<const HostArg> args) const;
  const AheadKernel& kernel(int number) const { return kernels_[static_cast<std::size_t>(number)]; }
  std::span<const AheadCallable> callables() const { return callables_; }
  std::size_t size() const { return kernels_.size(); }

 private:
  std::vector<AheadCallable> callables_;
  std::vector<AheadKernel> kernels_;
};

}  // namespace tegula::dsl
