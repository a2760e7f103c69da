#pragma once
// Calls compiled ahead of time, in one block of bytes: for each call its class of arguments, and
// its launches as data, with the kernels' artefacts. A program links the block and needs no
// compiler.
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
  /// Strides of each argument, empty for a number. A kernel serves any strides: its class has an
  /// empty vector.
  std::vector<Dims> strides = {};
};

/// Returns true if a call of class `made` may have arguments of class `given`.
bool serves(const AheadClass& made, const AheadClass& given);

struct AheadCall {
  std::size_t callable = 0;
  AheadClass of;
  CallPlan plan;  ///< its slots are the callable's parameters; all its views are fixed
};

/// Two dimensions with the same name. A kernel relies on their extents being equal.
struct EqualDims {
  std::string name;
  std::size_t param[2];
  std::size_t axis[2];
};

struct AheadCallable {
  std::string name;
  std::vector<ExportParam> params;
  /// A kernel serves all arguments with at least the divisibility and alignment that it was
  /// compiled for, and any numbers. A library callable bases decisions on extents, strides and
  /// numbers, and serves only the values that it was compiled for.
  bool is_kernel = true;
  std::vector<EqualDims> equal = {};  ///< equal dimensions of a kernel, checked in each call
};

/// Returns each further use of a dimension's name, paired with the first use. Throws
/// std::runtime_error if the number of a tensor's dimension names differs from its rank.
std::vector<EqualDims> equal_dims_of(std::span<const ExportParam> params);

/// Returns the class of a call's arguments, one for each parameter. Throws CompileError if an
/// argument does not fit.
AheadClass class_of(std::span<const HostArg> args, const AheadCallable& callable);

class AheadTable {
 public:
  AheadTable() = default;
  /// Throws CompileError if the bytes are not a table of this version, or are damaged.
  explicit AheadTable(std::string_view bytes);

  /// Compiles the exported kernel for the target and for arguments such as these. Throws
  /// CompileError if the kernel captures Scalars or Tensors.
  void add(const std::string& name, std::span<const ExportParam> params, KernelInstance& kernel,
           std::string_view target, std::span<const HostArg> args);
  /// Compiles the launches of a call of another callable, for arguments of these shapes, strides
  /// and types, and these numbers, with the decisions that it makes on GPU 0
  /// (runtime/described_gpu.h). Throws CompileError if the call needs memory that belongs neither
  /// to its arguments nor to a plan.
  void add(const std::string& name, const Exportable& callable, std::string_view target,
           std::span<const HostArg> args);
  /// Returns the table's bytes, with the most specialized calls first.
  std::string encode() const;

  /// Throws CompileError if no callable has this name.
  const AheadCallable& callable(std::string_view name) const;
  /// Returns the number of the first call that serves the arguments, or -1 if there is none.
  int find(const AheadCallable& callable, std::span<const HostArg> args) const;
  const AheadCall& call(int number) const { return calls_[static_cast<std::size_t>(number)]; }
  std::span<const AheadCallable> callables() const { return callables_; }
  std::size_t size() const { return calls_.size(); }
  /// Returns each kernel of the calls once, in the order of their first launch.
  std::vector<std::shared_ptr<const runtime::CompiledKernel>> kernels() const;

 private:
  void add(AheadCallable callable, AheadClass of, CallPlan plan);

  std::vector<AheadCallable> callables_;
  std::vector<AheadCall> calls_;
};

}  // namespace tegula::dsl
