#include "runtime/artefact.h"

#include <fmt/format.h>

#include "runtime/nvrtc.h"
#include "support/env.h"

namespace tegula::runtime {

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

int ctas_per_sm(const Artefact& artefact, const AssembleReport& report) {
  return ir::ctas_per_sm(*artefact.target, {.threads = artefact.threads,
                                            .registers = report.registers,
                                            .shared_bytes = artefact.shared_bytes});
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
  if (artefact.backend == Backend::Llvm || artefact.code.empty()) return artefact.code;
  return ptx_of_cuda({.source = artefact.code,
                      .name = artefact.name + ".cu",
                      .target = std::string(artefact.target.name()),
                      .options = {}});
}

}  // namespace tegula::runtime
