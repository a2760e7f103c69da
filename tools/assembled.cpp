#include "tools/assembled.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "ir/text.h"
#include "runtime/doctor.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::tools {
namespace {

/// A temporary folder, removed by the destructor.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tegula-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw DeviceError("cannot make a folder like " + pattern);
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

ir::Kernel traced(const std::string& name, const std::function<void()>& run) {
  const ScratchFolder folder;
  Env with_dump = env();
  with_dump.dump = "trace:" + folder.path().string();
  {
    const EnvOverride dumping(with_dump);
    run();
  }
  const std::filesystem::path file = folder.path() / name / "01-trace.tir";
  return ir::parse(read_file(file), file.string());
}

std::shared_ptr<const runtime::CompiledKernel> compiled_for(const ir::Kernel& tile,
                                                            ir::Target target,
                                                            runtime::Backend backend) {
  runtime::Compilation k;
  runtime::CompileRequest request;
  request.device = Device::cuda();  // the GPU need not be present
  request.target = target;
  request.backend = backend;
  runtime::key(k, request);
  k.tile = ir::clone(tile);
  runtime::optimize(k, request);
  runtime::emit(k, request);
  runtime::assemble(k, request);
  return runtime::finish(std::move(k));
}

std::string size_line(const runtime::Artefact& a) {
  const std::string text = fmt::format(
      "{} {} bytes", a.backend == runtime::Backend::Llvm ? "PTX" : "CUDA C++", a.code.size());
  const std::string threads =
      fmt::format("threads {}, shared memory {} bytes", a.threads, a.shared_bytes);
  if (a.kind != runtime::ImageKind::cubin)
    return fmt::format("{}, {}, registers and occupancy unknown without ptxas", text, threads);
  const int ctas = runtime::ctas_per_sm(a, a.report);
  return fmt::format(
      "{}, {}, registers {}, spilled {} bytes, {} CTAs per SM ({:.0f} % of its warps), cubin {} "
      "bytes",
      text, threads, a.report.registers, a.report.spill_stores + a.report.spill_loads, ctas,
      100.0 * ctas * a.threads / a.target->max_threads_per_sm, a.image.size());
}

std::string missing_parts() {
  const runtime::Diagnosis d = runtime::diagnose();
  std::string text;
  for (const char* part : {"LLVM", "ptxas", "NVRTC", "GPU"}) {
    const runtime::DoctorCheck& f = d.finding(part);
    if (f.present) continue;
    text += fmt::format("  missing: {} ({})\n    needed for {}\n    to fix: {}\n", f.part,
                        headline(f.detail), f.enables, f.remedy);
  }
  if (text.empty()) return text;
  return text + fmt::format("  still works: tracing, all passes, the devices cpu and sim{}{}\n",
                            d.makes_ptx ? ", PTX" : "",
                            d.makes_cubins ? ", cubins with registers and occupancy" : "");
}

std::string headline(std::string_view text) {
  std::string_view line = split(trim(text), '\n').front();
  if (line.ends_with(':')) line.remove_suffix(1);
  return std::string(line);
}

runtime::Backend backend_of(const std::string& name) {
  return name == runtime::name(runtime::Backend::Nvrtc) ? runtime::Backend::Nvrtc
                                                        : runtime::Backend::Llvm;
}

ir::Target target_of(const std::string& name) { return ir::Target::find(name).value(); }

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const ir::Target target : ir::Target::all()) names.emplace_back(target.name());
  return names;
}

std::vector<std::string> backend_names() { return {"llvm", "nvrtc"}; }

}  // namespace tegula::tools
