#include "autotune/user/call_candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/user/code_hash.h"

namespace tegula::autotune {

std::string defects_of(const std::vector<Warning>& warnings) {
  std::string text;
  for (const Warning& w : warnings)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", w.code, w.text);
  return text;
}

void add_code(Prepared& out, const runtime::CompiledKernel& kernel, Device device) {
  const std::string code = code_hash(kernel);
  out.code = out.code.empty() ? code : hash128(out.code + code).hex();
  const runtime::Artefact& artefact = kernel.artefact();
  out.shared_bytes = std::max<std::int64_t>(out.shared_bytes, artefact.shared_bytes);
  out.registers = std::max(out.registers, artefact.report.registers);
  const std::string defects = defects_of(kernel.warnings_on(device));
  if (defects.empty()) return;
  out.why += (out.why.empty() ? "" : "; ") + defects;
  out.is_degraded = true;
}

}  // namespace tegula::autotune
