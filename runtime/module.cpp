#include "runtime/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/driver_api.h"
#include "support/errors.h"
#include "support/text.h"

namespace tegula::runtime {
namespace {

constexpr unsigned kDefaultSharedBytes = 48 * 1024;  // more requires an attribute

void* as_value(std::size_t number) { return reinterpret_cast<void*>(number); }

std::string log_text(const std::vector<char>& buffer) {
  return buffer.empty() ? std::string()
                        : std::string(buffer.data(), ::strnlen(buffer.data(), buffer.size()));
}

/// Returns the version that a PTX text requires, as in ".version 8.5", or "".
std::string ptx_version(std::string_view ptx) {
  constexpr std::string_view kDirective = ".version";
  const std::size_t at = ptx.find(kDirective);
  if (at == std::string_view::npos) return {};
  const std::size_t end = ptx.find('\n', at);
  return std::string(trim(ptx.substr(at + kDirective.size(), end - at - kDirective.size())));
}

[[noreturn]] void throw_compile_fault(cu::Result result, const std::string& ptx,
                                      const std::string& log) {
  if (result == cu::kErrorUnsupportedPtxVersion)
    throw DeviceError(
        diagnostic(ErrorId::device_missing, {}, {},
                   fmt::format("this NVIDIA driver (CUDA {}) does not understand PTX {}\n{}",
                               cuda_version_text(driver().version), ptx_version(ptx), log),
                   "update the driver, or install ptxas, whose cubins it may still accept"),
        result, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
  if (result == cu::kErrorInvalidPtx) throw InternalError("the driver refused our PTX:\n" + log);
  throw_driver_error(result, "cuLibraryLoadData");
}

KernelResources read_resources(cu::Function function) {
  const auto get = [&](cu::FunctionAttribute which) {
    int value = 0;
    check(driver().function_attribute(&value, which, function), "cuFuncGetAttribute");
    return value;
  };
  return {get(cu::kFuncRegisters), get(cu::kFuncLocalBytes), get(cu::kFuncSharedBytes),
          get(cu::kFuncMaxThreadsPerBlock)};
}

/// Keeps a loaded module until the process ends, as the driver does: it may read an image, and
/// write a log, at any time.
std::shared_ptr<Module> kept(std::shared_ptr<Module> module) {
  struct Modules {
    std::mutex mutex;
    std::vector<std::shared_ptr<const Module>> all;
  };
  static auto* const modules = new Modules;  // the driver may outlive statics
  const std::lock_guard lock(modules->mutex);
  modules->all.push_back(module);
  return module;
}

}  // namespace

std::shared_ptr<Module> Module::load_cubin(std::span<const char> cubin) {
  // The driver may read the image as late as the first use of a kernel.
  if (!std::string_view(cubin.data(), cubin.size())
           .starts_with("\x7f"
                        "ELF"))
    throw InternalError("the driver would not recognise a cubin: it is not an ELF file");
  const std::shared_ptr<Module> module(new Module());
  module->image_.assign(cubin.begin(), cubin.end());
  const RelaxedCaptureScope relaxed;
  cu::LibraryOption option = cu::kLibraryBinaryIsPreserved;
  void* yes = as_value(1);
  const cu::Result result = driver().library_load(&module->library_, module->image_.data(), nullptr,
                                                  nullptr, 0, &option, &yes, 1);
  if (result == cu::kErrorInvalidImage)
    throw InternalError("the driver does not recognise a cubin as one");
  check(result, "cuLibraryLoadData");
  return kept(module);
}

std::shared_ptr<Module> Module::load_ptx(std::string ptx, int context_ordinal) {
  const ContextScope scope(context_ordinal);
  const RelaxedCaptureScope relaxed;
  const std::shared_ptr<Module> module(new Module());
  module->image_.assign(ptx.begin(), ptx.end());
  module->image_.push_back(0);
  module->info_log_.resize(64 << 10);
  module->error_log_.resize(64 << 10);
  module->jit_options_ = {cu::kJitInfoLog, cu::kJitInfoLogBytes, cu::kJitErrorLog,
                          cu::kJitErrorLogBytes, cu::kJitLogVerbose};
  module->jit_values_ = {module->info_log_.data(), as_value(module->info_log_.size()),
                         module->error_log_.data(), as_value(module->error_log_.size()),
                         as_value(1)};
  const cu::Result result = driver().library_load(
      &module->library_, module->image_.data(), module->jit_options_.data(),
      module->jit_values_.data(), module->jit_options_.size(), nullptr, nullptr, 0);
  if (result != cu::kSuccess) throw_compile_fault(result, ptx, module->compiler_log());
  return kept(module);
}

std::string Module::compiler_log() const { return log_text(info_log_) + log_text(error_log_); }

AssembleReport Module::report() const {
  AssembleReport report = parse_assembler_log(compiler_log());
  if (report.registers != 0) return report;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : kernels_) {
    const KernelResources& r = entry.kernel.resources;
    report.registers = std::max(report.registers, r.registers);
    report.stack = std::max(report.stack, r.local_bytes);
    report.smem = std::max(report.smem, r.static_shared_bytes);
  }
  return report;
}

LoadedKernel Module::kernel(const std::string& name, int ordinal, const KernelNeeds& needs) const {
  const std::lock_guard lock(mutex_);
  Entry& entry = kernels_[{name, ordinal}];
  const bool is_new = entry.kernel.function == nullptr;
  const bool needs_more = needs.dynamic_shared_bytes > entry.needs.dynamic_shared_bytes ||
                          (needs.large_cluster && !entry.needs.large_cluster);
  if (is_new || needs_more) {
    const ContextScope scope(ordinal);
    const RelaxedCaptureScope relaxed;
    const Driver& d = driver();
    cu::Kernel kernel = nullptr;
    cu::Result found = d.library_kernel(&kernel, library_, name.c_str());
    if (found == cu::kErrorNotFound) {
      const std::string in_cuda = name + std::string(codegen::kCudaNameSuffix);
      found = d.library_kernel(&kernel, library_, in_cuda.c_str());
    }
    constexpr int kInvalidPtx = 218;  // CUDA_ERROR_INVALID_PTX: compiled at the first use
    if (static_cast<int>(found) == kInvalidPtx)
      throw_compile_fault(found, std::string(image_.data()), compiler_log());
    if (found == cu::kErrorNotFound)
      throw InternalError(fmt::format("the machine code has no kernel called '{}'", name));
    if (found == cu::kErrorNoBinaryForGpu)
      throw DeviceError(
          diagnostic(
              ErrorId::device_missing, {}, {},
              fmt::format("the cubin of '{}' is not for cuda:{} ({}, compute capability {}.{})",
                          name, ordinal, device_properties(ordinal).name,
                          device_properties(ordinal).compute_major,
                          device_properties(ordinal).compute_minor),
              "compile the kernel for this GPU, or run it on another"),
          found, "CUDA_ERROR_NO_BINARY_FOR_GPU");
    check(found, "cuLibraryGetKernel");
    cu::Device device = 0;
    check(d.device_get(&device, ordinal), "cuDeviceGet");
    entry.needs.dynamic_shared_bytes =
        std::max(entry.needs.dynamic_shared_bytes, needs.dynamic_shared_bytes);
    entry.needs.large_cluster |= needs.large_cluster;
    if (entry.needs.dynamic_shared_bytes > kDefaultSharedBytes)
      check(d.kernel_set_attribute(cu::kFuncMaxDynamicShared,
                                   static_cast<int>(entry.needs.dynamic_shared_bytes), kernel,
                                   device),
            "cuKernelSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    if (entry.needs.large_cluster)
      check(d.kernel_set_attribute(cu::kFuncNonPortableCluster, 1, kernel, device),
            "cuKernelSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)");
    check(d.kernel_function(&entry.kernel.function, kernel), "cuKernelGetFunction");
    if (d.has("cuFuncLoad")) check(d.function_load(entry.kernel.function), "cuFuncLoad");
    entry.kernel.resources = read_resources(entry.kernel.function);
    entry.kernel.ordinal = ordinal;
    entry.kernel.name = name;
  }
  LoadedKernel taken = entry.kernel;
  taken.module = shared_from_this();
  return taken;
}

}  // namespace tegula::runtime
