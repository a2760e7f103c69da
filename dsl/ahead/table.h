#pragma once
// Calls compiled ahead of time, in one block of bytes: for each the class of arguments that it is
// for, and its launches as data, with the kernels' artefacts. A program links the block and needs
// no compiler.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/call_plan.h"
#include "dsl/signature.h"
#include "tegula/export.h"

namespace tegula::dsl {

/// The class of arguments that one compiled call serves.
struct AheadClass {
  std::vector<ArgClass> args;  ///< run-time arguments
  std::vector<std::uint64_t> constants;
  bool is_wide = false;  ///< indices are computed in 64 bits
  /// Strides of the arguments, none of a number. Those of a kernel's class are empty: it serves
  /// any.
  std::vector<Dims> strides = {};
};

/// Whether a call of class `made` may have arguments of class `given`.
bool serves(const AheadClass& made, const AheadClass& given);

struct AheadCall {
  std::size_t callable = 0;
  AheadClass of;
  CallPlan plan;  ///< its slots are the callable's parameters; all its views are fixed
};

/// Two dimensions of one name. A kernel relies on their extents being equal.
struct EqualDims {
  std::string name;
  std::size_t param[2];
  std::size_t axis[2];
};

struct AheadCallable {
  std::string name;
  std::vector<ExportParam> params;
  /// A kernel serves whatever is as regular as what it was compiled for, and takes any numbers. A
  /// callable of the library decides by extents, strides and numbers, and serves these alone.
  bool is_kernel = true;
  std::vector<EqualDims> equal = {};  ///< a kernel's, that each call is checked for
};

/// Each further use of a dimension's name, with the first. Throws std::runtime_error for a tensor
/// that has names of another number of dimensions than its own.
std::vector<EqualDims> equal_dims_of(std::span<const ExportParam> params);

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
  /// Compiles what a call of another callable launches with arguments of these shapes, strides and
  /// types, and these numbers, by what it decides on GPU 0 (runtime/described_gpu.h). Throws
  /// CompileError for a call that needs memory which is neither of its arguments nor of a plan.
  void add(const std::string& name, const Exportable& callable, std::string_view target,
           std::span<const HostArg> args);
  /// The table's bytes, calls from special to general.
  std::string encode() const;

  /// Throws CompileError where there is no callable of this name.
  const AheadCallable& callable(std::string_view name) const;
  /// Number of the first call that serves the arguments; -1 for none.
  int find(const AheadCallable& callable, std::span<const HostArg> args) const;
  const AheadCall& call(int number) const { return calls_[static_cast<std::size_t>(number)]; }
  std::span<const AheadCallable> callables() const { return callables_; }
  std::size_t size() const { return calls_.size(); }
  /// Each kernel of the calls once, in the order of their first launch.
  std::vector<std::shared_ptr<const runtime::CompiledKernel>> kernels() const;

 private:
  void add(AheadCallable callable, AheadClass of, CallPlan plan);

  std::vector<AheadCallable> callables_;
  std::vector<AheadCall> calls_;
};

}  // namespace tegula::dsl
