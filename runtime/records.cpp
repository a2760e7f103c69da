#include "runtime/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "ir/eval/cell.h"
#include "runtime/context.h"
#include "runtime/driver_api.h"
#include "support/errors.h"
#include "tegula/device.h"
#include "tegula/print_sink.h"

namespace tegula::runtime {
namespace {

constexpr unsigned kPortableAndMapped = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE, .._DEVICEMAP

struct RecordRegistry {
  std::mutex mutex;
  std::vector<RecordSite> sites;
  std::function<void(std::string_view)> sink;
};

RecordRegistry& record_registry() {
  static auto* records = new RecordRegistry();  // leaked: kernels may end after static destructors
  return *records;
}

std::atomic<std::uint32_t*> buffer{nullptr};

/// Allocates the buffer. Page-locked memory has the same address on the host and on all GPUs.
std::uint32_t* make_buffer() {
  constexpr std::size_t kBytes = std::size_t{kRecordWords} * sizeof(std::uint32_t);
  void* memory = nullptr;
  if (Device::cuda_count() > 0) {
    const ContextScope scope(0);  // any GPU will do: the memory is portable
    check(driver().host_alloc(&memory, kBytes, kPortableAndMapped), "cuMemHostAlloc");
  } else {
    memory = std::aligned_alloc(4096, kBytes);
  }
  if (memory == nullptr)
    throw DeviceError(diagnostic(ErrorId::no_memory, {}, {}, "print", kBytes, "host",
                                 "use smaller tensors, or free others"));
  std::memset(memory, 0, kBytes);
  return static_cast<std::uint32_t*>(memory);
}

/// One record as stored in the buffer.
struct Record {
  const RecordSite* site = nullptr;
  std::uint32_t program = 0;
  const std::uint32_t* elements = nullptr;
};

std::string element_text(const std::uint32_t* words, DType d) {
  if (words[2] == 0) return "-";
  const std::uint64_t bits = words[0] | std::uint64_t{words[1]} << 32;
  const ir::Cell c = ir::from_bits(bits, d);
  if (is_bool(d)) return c.i != 0 ? "true" : "false";
  if (is_float(d)) return fmt::format("{}", d == DType::f64 ? c.f : static_cast<float>(c.f));
  return is_signed(d) ? fmt::format("{}", c.i) : fmt::format("{}", static_cast<std::uint64_t>(c.i));
}

/// Returns the elements in nested brackets, one pair per row.
std::string value_text(const RecordedValue& v, const std::uint32_t*& words, std::size_t dim = 0) {
  if (dim == v.shape.size()) {
    const std::string text = element_text(words, v.dtype);
    words += kElementWords;
    return text;
  }
  std::string text = "[";
  for (std::int64_t i = 0; i < v.shape[dim]; ++i)
    text += (i == 0 ? "" : ", ") + value_text(v, words, dim + 1);
  return text + "]";
}

std::string record_text(const Record& r) {
  std::string out;
  std::size_t next = 0;
  const std::string& format = r.site->format;
  const std::uint32_t* words = r.elements;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format.compare(at, 2, "{}") == 0 && next < r.site->values.size()) {
      out += value_text(r.site->values[next++], words);
      ++at;
    } else {
      out += format[at];
    }
  }
  return out;
}

/// Returns the complete records and the number of words that they take.
std::pair<std::vector<Record>, std::uint32_t> complete_records(const std::vector<RecordSite>& sites,
                                                               const std::uint32_t* words) {
  std::vector<Record> found;
  const std::uint32_t used = std::min(words[0], kRecordWords - kRecordHead);
  std::uint32_t at = 0;
  while (at + kRecordHeader <= used) {
    const std::uint32_t* record = words + kRecordHead + at;
    const std::uint32_t length = record[0];
    if (length == 0 || at + length > used || record[1] >= sites.size()) break;
    found.push_back({&sites[record[1]], record[2], record + kRecordHeader});
    at += length;
  }
  std::ranges::stable_sort(found, {}, &Record::program);
  return {std::move(found), used};
}

Diagnostic finding_of(const Record& r) {
  return {"T1316",
          fmt::format("kernel {}: assertion failed: {} (program {})", r.site->kernel,
                      record_text(r), r.program),
          r.site->loc,
          {},
          ""};
}

}  // namespace

std::uint32_t record_site(const RecordSite& site) {
  RecordRegistry& r = record_registry();
  const std::lock_guard lock(r.mutex);
  const auto same = [&](const RecordSite& s) {
    return s.kind == site.kind && s.kernel == site.kernel && s.format == site.format &&
           s.loc == site.loc && s.values == site.values;
  };
  const auto known = std::ranges::find_if(r.sites, same);
  const auto number = static_cast<std::uint32_t>(known - r.sites.begin());
  if (known == r.sites.end()) r.sites.push_back(site);
  return number;
}

std::uint64_t record_buffer() {
  const std::lock_guard lock(record_registry().mutex);
  if (buffer == nullptr) buffer = make_buffer();
  return reinterpret_cast<std::uintptr_t>(buffer.load());
}

bool is_record_buffer(std::uint64_t address) {
  return address != 0 && address == reinterpret_cast<std::uintptr_t>(buffer.load());
}

void read_records() {
  std::uint32_t* const words = buffer;
  if (words == nullptr || words[0] == 0) return;
  RecordRegistry& r = record_registry();
  const std::lock_guard lock(r.mutex);
  const auto [found, used] = complete_records(r.sites, words);
  const auto say = [&](const std::string& line) {
    if (r.sink)
      r.sink(line);
    else
      std::fputs(line.c_str(), stdout);
  };
  std::vector<Diagnostic> failed;
  for (const Record& record : found) {
    if (record.site->kind == RecordKind::Assert)
      failed.push_back(finding_of(record));
    else
      say(fmt::format("{}({}): {}\n", record.site->kernel, record.program, record_text(record)));
  }
  if (words[1] != 0) say(fmt::format("{} more records did not fit\n", words[1]));
  std::memset(words, 0, (std::size_t{kRecordHead} + used) * sizeof(std::uint32_t));
  constexpr std::size_t kShown = 16;
  if (failed.size() > kShown) failed.resize(kShown);
  if (!failed.empty()) throw ProgramError(std::move(failed));
}

}  // namespace tegula::runtime

namespace tegula {

void set_print_sink(std::function<void(std::string_view line)> sink) {
  runtime::RecordRegistry& r = runtime::record_registry();
  const std::lock_guard lock(r.mutex);
  r.sink = std::move(sink);
}

}  // namespace tegula
