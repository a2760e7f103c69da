#include "autotune/user/compiled_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "autotune/user/code_hash.h"
#include "support/hash.h"

namespace tegula::autotune {

void on_all_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t threads =
      std::min<std::size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(take);
  take();
}

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
  out.threads = std::max(out.threads, artefact.threads);
  const std::string defects = defects_of(kernel.warnings_on(device));
  if (defects.empty()) return;
  out.why += (out.why.empty() ? "" : "; ") + defects;
  out.is_degraded = true;
}

}  // namespace tegula::autotune
