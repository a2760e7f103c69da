#include "runtime/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "codegen/emit.h"
#include "runtime/assemble.h"
#include "runtime/cache.h"
#include "runtime/driver_api.h"
#include "runtime/nvrtc.h"
#include "runtime/subprocess.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

DoctorCheck examine_driver() {
  DoctorCheck f{"driver", false, {}, "devices cuda:N", {}};
  std::string why;
  const Driver* driver = try_driver(&why);
  f.present = driver != nullptr;
  if (!f.present) {
    f.detail = std::string(trim(why));
    f.remedy = "install the NVIDIA driver, 555 or later, which understands PTX 8.5";
    return f;
  }
  f.detail = fmt::format("{}, CUDA {}", driver->path, cuda_version_text(driver->version));
  for (const MissingEntry& row : driver->missing)
    f.detail += fmt::format("\nwithout {}: no {}", row.symbol, row.feature);
  return f;
}

std::string describe(const DeviceProperties& p) {
  return fmt::format(
      "cuda:{} {}, compute capability {}.{}, {} SMs, {:.1f} GiB, {} KiB shared memory a block",
      p.ordinal, p.name, p.compute_major, p.compute_minor, p.sm_count,
      static_cast<double>(p.memory_bytes) / (1 << 30), p.shared_bytes_per_block / 1024);
}

/// Returns true if the GPU runs the code of some target.
bool has_target(const DeviceProperties& p) {
  return p.compute() >= ir::Target::of_capability(p.compute())->capability;
}

std::string path_for(const DeviceProperties& p) {
  const ir::Target target = ir::Target::of_capability(p.compute());
  if (!has_target(p)) return fmt::format("is too old: the oldest target is {}", target.name());
  return fmt::format("runs {} code{}", target.name(),
                     target->has_wgmma ? ": wgmma, TMA, clusters" : ", assembled by the driver");
}

DoctorCheck examine_gpus(std::vector<DeviceProperties>& gpus) {
  DoctorCheck f{"GPU", false, {}, "running kernels on a GPU", {}};
  std::vector<std::string> lines;
  for (int i = 0; i < cuda_device_count(); ++i) {
    try {
      gpus.push_back(device_properties(i));
      lines.push_back(describe(gpus.back()) + "; " + path_for(gpus.back()));
      f.present |= has_target(gpus.back());
    } catch (const Error& e) {
      lines.push_back(e.what());
    }
  }
  f.detail = lines.empty() ? "the driver lists none" : fmt::format("{}", fmt::join(lines, "\n"));
  if (!f.present)
    f.remedy = fmt::format(
        "use the devices 'sim' and 'cpu', or a machine with compute capability {}.{} or later",
        ir::Target::all()[0]->capability / 10, ir::Target::all()[0]->capability % 10);
  return f;
}

/// Returns the first line of `ptxas --version` that names a release.
std::string ptxas_version(const std::string& program) {
  const ProcessResult run = run_process({program, "--version"}, {}, std::chrono::seconds(10));
  for (std::string_view line : split(run.output, '\n'))
    if (line.find("release") != std::string_view::npos) return std::string(trim(line));
  return "of unknown version (" + run.how_it_ended() + ")";
}

DoctorCheck examine_ptxas() {
  DoctorCheck f{
      "ptxas", false, {}, "cubins that are kept, and checks for spills and serialised wgmma", {}};
  try {
    if (const auto program = find_ptxas()) {
      f.present = true;
      f.detail = fmt::format("{}, {}", program->string(), ptxas_version(program->string()));
    } else {
      f.detail = "neither on PATH nor in a CUDA toolkit";
    }
  } catch (const DeviceError& e) {
    f.detail = e.diagnostic().message;
  }
  if (!f.present) f.remedy = "install cuda-nvcc-13-0 from NVIDIA's repository, or set TEGULA_PTXAS";
  return f;
}

DoctorCheck examine_nvrtc() {
  DoctorCheck f{
      "NVRTC", false, {}, "the back end 'nvrtc': readable CUDA C++ straight to cubin", {}};
  std::string why;
  if (const auto nvrtc = find_nvrtc(&why)) {
    f.present = true;
    f.detail = fmt::format("{}, version {}.{}", nvrtc->path.string(), nvrtc->version.major,
                           nvrtc->version.minor);
  } else {
    f.detail = std::string(trim(why));
    f.remedy =
        "install cuda-nvrtc-13-0 from NVIDIA's repository, or pip's nvidia-cuda-nvrtc, or set "
        "TEGULA_NVRTC";
  }
  return f;
}

/// Does not open the module: loading 40 MB only to check that a file exists would be wasteful.
DoctorCheck examine_llvm() {
  DoctorCheck f{"LLVM", false, {}, "the back end 'llvm': PTX in milliseconds", {}};
  std::error_code ignored;
  for (const std::string& place : codegen::llvm_module_places()) {
    if (!std::filesystem::is_regular_file(place, ignored)) continue;
    f.present = true;
    f.detail = place;
    return f;
  }
  f.detail =
      fmt::format("libtegula_llvm.so is not at {}", fmt::join(codegen::llvm_module_places(), ", "));
  f.remedy =
      "build with TEGULA_LLVM=ON (Debian: llvm-19-dev) or copy the library next to libtegula.so";
  return f;
}

DoctorCheck examine_cache() {
  DoctorCheck f{"cache", false, {}, "starting without compiling again", {}};
  const std::filesystem::path folder = default_cache_folder();
  if (env().cache == "off" || folder.empty()) {
    f.detail = folder.empty() ? "there is no home directory" : "TEGULA_CACHE=off";
    f.remedy = folder.empty() ? "set TEGULA_CACHE_DIR" : "unset TEGULA_CACHE";
    return f;
  }
  std::vector<std::string> complaints;
  const KernelCache cache({folder, env().cache == "readonly", std::size_t{2} << 30,
                           [&](const std::string& line) { complaints.push_back(line); },
                           &Vfs::posix()});
  f.present = complaints.empty();
  f.detail = folder.string() + (cache.writes() ? "" : " (not written)");
  for (const std::string& c : complaints) f.detail += "\n" + c;
  if (!f.present) f.remedy = "chmod 700 the folder, or set TEGULA_CACHE_DIR to another";
  return f;
}

DoctorCheck examine_environment() {
  DoctorCheck f{"environment", true, "every TEGULA_ variable is known", "settings that act", {}};
  const std::vector<std::string> unknown = unknown_variables(environment_entries());
  if (unknown.empty()) return f;
  f.present = false;
  f.detail = fmt::format("unknown: {}", fmt::join(unknown, ", "));
  f.remedy = "docs/env.md lists the variables";
  return f;
}

/// Returns `text` with its continuation lines indented by `spaces`.
std::string hanging(std::string_view text, int spaces) {
  std::string out;
  for (std::string_view line : split(text, '\n')) {
    if (!out.empty()) out += "\n" + std::string(static_cast<std::size_t>(spaces), ' ');
    out += line;
  }
  return out;
}

}  // namespace

const DoctorCheck& Diagnosis::finding(const std::string& part) const {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const DoctorCheck& f) { return f.part == part; });
  if (found == findings.end()) throw InternalError("the doctor does not check '" + part + "'");
  return *found;
}

Diagnosis diagnose() {
  Diagnosis d;
  d.findings.push_back(examine_driver());
  d.findings.push_back(examine_gpus(d.gpus));
  d.findings.push_back(examine_llvm());
  d.findings.push_back(examine_ptxas());
  d.findings.push_back(examine_nvrtc());
  d.findings.push_back(examine_cache());
  d.findings.push_back(examine_environment());
  d.launches = d.finding("GPU").present;
  d.makes_ptx = d.finding("LLVM").present;
  d.makes_cubins = (d.makes_ptx && d.finding("ptxas").present) || d.finding("NVRTC").present;
  try {
    d.default_device = Device::best();
  } catch (const DeviceError& e) {
    DoctorCheck& environment = d.findings.back();
    environment.present = false;
    environment.detail += "\n" + e.diagnostic().message;
    environment.remedy = "correct TEGULA_DEVICE";
  }
  return d;
}

std::string Diagnosis::str() const {
  std::string text;
  for (const DoctorCheck& f : findings) {
    text += fmt::format("{:<4}{:<13}{}\n", f.present ? "ok" : "--", f.part, hanging(f.detail, 17));
    if (f.present) continue;
    text += fmt::format("{:17}needed for {}\n", "", f.enables);
    if (!f.remedy.empty()) text += fmt::format("{:17}to mend: {}\n", "", f.remedy);
  }
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  text += fmt::format(
      "\ncompiles to PTX: {}; to cubin: {}; launches on a GPU: {}; default device: {}\n",
      yes(makes_ptx), yes(makes_cubins), yes(launches), default_device.str());
  return text;
}

}  // namespace tegula::runtime
