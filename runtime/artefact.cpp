#include "runtime/artefact.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/nvrtc.h"
#include "support/env.h"

namespace tegula::runtime {

std::span<const std::string_view> targets() {
  static constexpr std::string_view kTargets[] = {"sm_80", "sm_90a"};
  return kTargets;
}

std::string_view name(Backend b) { return b == Backend::Llvm ? "llvm" : "nvrtc"; }

Backend default_backend() {
  if (env().backend == "nvrtc") return Backend::Nvrtc;
  return Backend::Llvm;
}

void set_image(Artefact& artefact, std::vector<char> cubin) {
  artefact.kind = cubin.empty() ? ImageKind::ptx : ImageKind::cubin;
  if (cubin.empty() && artefact.backend == Backend::Llvm)
    artefact.image.assign(artefact.code.begin(), artefact.code.end());
  else
    artefact.image = std::move(cubin);
}

// Limits of compute capability 9.0, as the CUDA C programming guide has them.
int ctas_per_sm(const Artefact& artefact, const AssembleReport& report) {
  const int threads = std::max(32, artefact.threads);
  const int by_threads = 2048 / threads;
  const int registers = (report.registers + 7) / 8 * 8 * threads;
  const int by_registers = report.registers ? 65536 / std::max(1, registers) : 32;
  const auto by_shared = static_cast<int>(233472 / (artefact.shared_bytes + 1024));
  return std::min({32, by_threads, by_registers, by_shared});
}

std::string assembler_text(const AssembleReport& report, std::int64_t shared_bytes,
                           std::size_t cubin_bytes) {
  std::string text = fmt::format(
      "registers {}\nshared {}\nspills {} {}\nstack {}\ncubin {} bytes\n", report.registers,
      shared_bytes, report.spill_stores, report.spill_loads, report.stack, cubin_bytes);
  for (const std::string& w : report.warnings) text += w + "\n";
  return text;
}

std::string ptx_of(const Artefact& artefact) {
  if (artefact.backend == Backend::Llvm) return artefact.code;
  return compile_cuda({.source = artefact.code,
                       .name = artefact.name + ".cu",
                       .target = artefact.target,
                       .options = {},
                       .wants_ptx = true})
      .ptx;
}

}  // namespace tegula::runtime
