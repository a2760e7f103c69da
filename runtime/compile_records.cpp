#include "runtime/compile_records.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>

#include "support/env.h"

namespace tegula {
namespace runtime {
namespace {

constexpr std::array<std::string_view, 3> kSourceNames{"bundle", "disk cache", "compiled"};

/// Never destroyed: kernels may be compiled during static destruction.
struct CompileRecords {
  std::mutex mutex;
  std::deque<CompileRecord> latest;
  /// Counts and total time of all records, including those no longer kept.
  std::array<std::size_t, kSourceNames.size()> counts{};
  std::size_t all = 0;
  double ms = 0;
};

CompileRecords& compile_records() {
  static auto* one = new CompileRecords();
  return *one;
}

void write_report() { std::fputs(compile_report().c_str(), stderr); }

}  // namespace

void record_compile(CompileRecord record) {
  CompileRecords& r = compile_records();
  const std::lock_guard lock(r.mutex);
  if (r.all == 0 && env().report) std::atexit(write_report);
  ++r.all, ++r.counts[static_cast<std::size_t>(record.source)], r.ms += record.ms;
  if (r.latest.size() == kMaxCompileRecords) r.latest.pop_front();
  r.latest.push_back(std::move(record));
}

}  // namespace runtime

std::string compile_report() {
  using namespace runtime;
  const CompileRecords& all = compile_records();
  const std::lock_guard lock(compile_records().mutex);
  std::string text;
  if (const std::size_t earlier = all.all - all.latest.size(); earlier > 0)
    text = fmt::format("{} kernels before these\n", earlier);
  for (const CompileRecord& r : all.latest)
    text += fmt::format("{:<32} {:<8} {:<10} {:<6} {:9.2f} ms\n", r.kernel, r.target,
                        kSourceNames[static_cast<std::size_t>(r.source)], r.by, r.ms);
  return text + fmt::format(
                    "{} kernels: {} from bundles, {} from the disk cache, {} compiled; "
                    "{:.2f} ms\n",
                    all.all, all.counts[0], all.counts[1], all.counts[2], all.ms);
}

}  // namespace tegula
