#include "runtime/nvrtc.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>

#include "runtime/shared_library.h"
#include "support/env.h"
#include "support/errors.h"

namespace tegula::runtime {
namespace {

using Program = struct ProgramOpaque*;
constexpr int kSuccess = 0;

/// NVRTC's entry points; all of them exist since CUDA 11.3.
struct Api {
  const char* (*error_text)(int);
  int (*version)(int*, int*);
  int (*target_count)(int*);
  int (*targets)(int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
};

struct LoadedNvrtc {
  std::optional<Api> api;
  NvrtcInfo info;
  std::string why_not;
};

std::vector<std::string> python_folders() {
  std::vector<std::string> roots{"/usr/local/lib", "/usr/lib"};
  if (!env().virtual_env.empty()) roots.insert(roots.begin(), env().virtual_env.string() + "/lib");
  if (!env().home.empty()) roots.push_back(env().home.string() + "/.local/lib");
  return roots;
}

std::vector<std::string> candidates() {
  if (!env().nvrtc.empty()) return {env().nvrtc.string()};
  std::vector<std::string> files{"libnvrtc.so.13", "libnvrtc.so.12"};
  for (const std::string& folder : toolkit_folders("lib64")) {
    files.push_back(folder + "/libnvrtc.so.13");
    files.push_back(folder + "/libnvrtc.so.12");
  }
  for (const std::string& root : python_folders())
    for (const char* package : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
      for (const std::string& file :
           glob_files(fmt::format("{}/python3*/*-packages/{}/libnvrtc.so.1[23]", root, package)))
        files.push_back(file);
  return files;
}

template <class Entry>
bool bind(const SharedLibrary& library, const char* name, Entry& entry, std::string& missing) {
  entry = reinterpret_cast<Entry>(library.symbol(name));
  if (entry == nullptr) missing = name;
  return entry != nullptr;
}

bool bind_all(const SharedLibrary& lib, Api& api, std::string& missing) {
  return bind(lib, "nvrtcGetErrorString", api.error_text, missing) &&
         bind(lib, "nvrtcVersion", api.version, missing) &&
         bind(lib, "nvrtcGetNumSupportedArchs", api.target_count, missing) &&
         bind(lib, "nvrtcGetSupportedArchs", api.targets, missing) &&
         bind(lib, "nvrtcCreateProgram", api.create, missing) &&
         bind(lib, "nvrtcDestroyProgram", api.destroy, missing) &&
         bind(lib, "nvrtcCompileProgram", api.compile, missing) &&
         bind(lib, "nvrtcGetCUBINSize", api.cubin_size, missing) &&
         bind(lib, "nvrtcGetCUBIN", api.cubin, missing) &&
         bind(lib, "nvrtcGetPTXSize", api.ptx_size, missing) &&
         bind(lib, "nvrtcGetPTX", api.ptx, missing) &&
         bind(lib, "nvrtcGetProgramLogSize", api.log_size, missing) &&
         bind(lib, "nvrtcGetProgramLog", api.log, missing);
}

LoadedNvrtc load() {
  LoadedNvrtc loaded;
  const SharedLibrary library = SharedLibrary::open(candidates());
  if (!library) {
    loaded.why_not = "NVRTC (libnvrtc.so.13 or .12) could not be loaded:\n" + library.failures() +
                     "It comes with NVIDIA's package cuda-nvrtc-13-0 or with pip's "
                     "nvidia-cuda-nvrtc; TEGULA_NVRTC names a "
                     "file elsewhere. Without it the back end 'nvrtc' is off; 'llvm' and the "
                     "simulator still work.";
    return loaded;
  }
  Api api{};
  std::string missing;
  if (!bind_all(library, api, missing)) {
    loaded.why_not =
        fmt::format("NVRTC at {} has no {}: CUDA 12 or later is needed", library.path(), missing);
    return loaded;
  }
  loaded.info.path = library.path();
  auto& [major, minor] = loaded.info.version;
  api.version(&major, &minor);
  // NVRTC opens its built-ins by name, which finds them outside the loader's folders only if they
  // are loaded.
  SharedLibrary::open({std::filesystem::path(library.path()).parent_path() /
                       fmt::format("libnvrtc-builtins.so.{}.{}", major, minor)});
  int count = 0;
  api.target_count(&count);
  std::vector<int> targets(static_cast<std::size_t>(count));
  api.targets(targets.data());
  for (int target : targets) loaded.info.targets.push_back(fmt::format("sm_{}", target));
  loaded.api = api;
  return loaded;
}

/// Returns the library for the current TEGULA_NVRTC. A process uses one value; tests use several.
const LoadedNvrtc& loaded_nvrtc() {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, LoadedNvrtc>();
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known->try_emplace(env().nvrtc.string());
  if (is_new) at->second = load();
  return at->second;
}

const Api& nvrtc() {
  const LoadedNvrtc& loaded = loaded_nvrtc();
  if (!loaded.api)
    throw DeviceError(diagnostic(ErrorId::device_missing, {}, {}, loaded.why_not,
                                 "set TEGULA_NVRTC to its path, or use the back end llvm"));
  return *loaded.api;
}

constexpr const char* kNvrtcHint =
    "install NVRTC 12.5 or later, or use the back end llvm; `tegula doctor` names what is found";

class OwnedProgram {
 public:
  OwnedProgram(const Api& api, const NvrtcJob& job) : api_(api) {
    check(api.create(&program_, job.source.c_str(), job.name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  ~OwnedProgram() { api_.destroy(&program_); }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;

  void check(int result, const char* call) const {
    if (result != kSuccess)
      throw DeviceError(
          diagnostic(ErrorId::driver_call, {}, {}, call, api_.error_text(result), kNvrtcHint),
          result, {});
  }
  bool compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    for (const std::string& o : options) texts.push_back(o.c_str());
    constexpr int kRefused = 6;  // NVRTC_ERROR_COMPILATION
    const int result = api_.compile(program_, static_cast<int>(texts.size()), texts.data());
    if (result == kRefused) return false;
    if (result != kSuccess)
      throw DeviceError(
          diagnostic(ErrorId::driver_call, {}, {}, "nvrtcCompileProgram",
                     fmt::format("{}\n{}", api_.error_text(result), log()), kNvrtcHint),
          result, {});
    return true;
  }
  std::string log() const { return text(api_.log_size, api_.log); }
  std::string ptx() const { return text(api_.ptx_size, api_.ptx); }
  std::vector<char> cubin() const {
    std::size_t bytes = 0;
    check(api_.cubin_size(program_, &bytes), "nvrtcGetCUBINSize");
    std::vector<char> out(bytes);
    check(api_.cubin(program_, out.data()), "nvrtcGetCUBIN");
    return out;
  }

 private:
  /// Returns a text without its terminating zero, which NVRTC includes in the size.
  std::string text(int (*size)(Program, std::size_t*), int (*read)(Program, char*)) const {
    std::size_t bytes = 0;
    check(size(program_, &bytes), "size of an NVRTC text");
    std::string out(bytes, 0);
    check(read(program_, out.data()), "reading an NVRTC text");
    if (!out.empty() && out.back() == 0) out.pop_back();
    return out;
  }

  const Api& api_;
  Program program_ = nullptr;
};

/// Returns the options of every compilation for `target`.
std::vector<std::string> nvrtc_standard_options(const std::string& target) {
  // Contraction is one of our passes, and both back ends must round alike.
  return {"--gpu-architecture=" + target,
          "--std=c++20",
          "-fmad=false",
          "--device-as-default-execution-space",
          "--diag-suppress=550",  // a loop may yield unused values
          "--ptxas-options=-v",
          "--ptxas-options=--warn-on-spills",
          "--ptxas-options=--warn-on-local-memory-usage"};
}

std::vector<std::string> options_for(const NvrtcJob& job, const std::string& architecture) {
  std::vector<std::string> options = nvrtc_standard_options(architecture);
  // NVRTC's own disk cache (12.9 and later) would hide the cost of a compilation and the effect of
  // a replaced tool.
  const NvrtcVersion version = loaded_nvrtc().info.version;
  if (version.major > 12 || (version.major == 12 && version.minor >= 9))
    options.emplace_back("--no-cache");
  options.insert(options.end(), job.options.begin(), job.options.end());
  return options;
}

[[noreturn]] void refused(const NvrtcJob& job, const std::string& log) {
  throw InternalError(fmt::format("NVRTC refused {} for {}:\n{}", job.name, job.target, log));
}

}  // namespace

std::optional<NvrtcInfo> find_nvrtc(std::string* why) {
  const LoadedNvrtc& loaded = loaded_nvrtc();
  if (why != nullptr) *why = loaded.why_not;
  if (!loaded.api) return std::nullopt;
  return loaded.info;
}

NvrtcResult compile_cuda(const NvrtcJob& job) {
  const Api& api = nvrtc();
  const auto start = std::chrono::steady_clock::now();
  NvrtcResult result;
  OwnedProgram program(api, job);
  const bool accepted = program.compile(options_for(job, job.target));
  result.log = program.log();
  if (!accepted) refused(job, result.log);
  result.cubin = program.cubin();
  result.report = parse_assembler_log(result.log);
  result.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string ptx_of_cuda(const NvrtcJob& job) {
  OwnedProgram program(nvrtc(), job);
  if (!program.compile(options_for(job, "compute" + job.target.substr(2))))
    refused(job, program.log());
  return program.ptx();
}

}  // namespace tegula::runtime
