#include "runtime/compile_records.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "support/env.h"

namespace tegula {
namespace runtime {
namespace {

constexpr std::array<std::string_view, 3> kSourceNames{"bundle", "disk cache", "compiled"};

/// Never destroyed: kernels may be compiled while statics are.
struct Records {
  std::mutex mutex;
  std::vector<CompileRecord> all;
};

Records& records() {
  static auto* one = new Records();
  return *one;
}

void write_report() { std::fputs(compile_report().c_str(), stderr); }

}  // namespace

void record_compile(CompileRecord record) {
  const std::lock_guard lock(records().mutex);
  if (records().all.empty() && env().report) std::atexit(write_report);
  records().all.push_back(std::move(record));
}

}  // namespace runtime

std::string compile_report() {
  using namespace runtime;
  const std::lock_guard lock(records().mutex);
  std::string text;
  std::array<int, kSourceNames.size()> counts{};
  double sum = 0;
  for (const CompileRecord& r : records().all) {
    const auto source = static_cast<std::size_t>(r.source);
    text += fmt::format("{:<32} {:<8} {:<10} {:<6} {:9.2f} ms\n", r.kernel, r.target,
                        kSourceNames[source], r.by, r.ms);
    ++counts[source];
    sum += r.ms;
  }
  return text + fmt::format(
                    "{} kernels: {} from bundles, {} from the disk cache, {} compiled; "
                    "{:.2f} ms\n",
                    records().all.size(), counts[0], counts[1], counts[2], sum);
}

}  // namespace tegula
