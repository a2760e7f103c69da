// Calls compiled ahead of time.
#include <tegula.h>

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>

#include "dsl/ahead/table.h"
#include "dsl/export/arguments.h"
#include "dsl/export/failure.h"
#include "support/errors.h"

using namespace tegula;

namespace {

/// Returns the table at an address. Tables are linked into the process and are never freed.
const dsl::AheadTable& table_at(const void* bytes, std::uint64_t count) {
  static std::mutex mutex;
  static auto* const tables =
      new std::map<std::pair<const void*, std::uint64_t>, std::unique_ptr<const dsl::AheadTable>>;
  if (bytes == nullptr)
    fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", "its address", "null",
         "that of one");
  const std::lock_guard lock(mutex);
  auto& table = (*tables)[{bytes, count}];
  if (!table)
    table = std::make_unique<const dsl::AheadTable>(
        std::string_view(static_cast<const char*>(bytes), count));
  return *table;
}

std::span<const TegulaArg> span_of(std::string_view name, const TegulaArg* args,
                                   std::int32_t count) {
  if (count < 0 || (count > 0 && !args)) fail(ErrorId::export_array, {}, {}, name, count);
  return {args, static_cast<std::size_t>(count)};
}

}  // namespace

std::int32_t tegula_ahead_find(const void* table, std::uint64_t bytes, const char* name,
                               const TegulaArg* args, std::int32_t count) {
  std::int32_t found = -1;
  c::guarded([&] {
    const dsl::AheadTable& all = table_at(table, bytes);
    const dsl::AheadCallable& callable = all.callable(name ? name : "");
    const c::Arguments arguments({callable.name, {}}, callable.params,
                                 span_of(callable.name, args, count), true);
    found = all.find(callable, arguments.host());
  });
  return found;
}

TegulaCode tegula_ahead_call(const void* table, std::uint64_t bytes, const char* name,
                             const TegulaArg* args, std::int32_t count, void* stream) {
  return c::guarded([&] {
    const dsl::AheadTable& all = table_at(table, bytes);
    const dsl::AheadCallable& callable = all.callable(name ? name : "");
    const c::Arguments arguments({callable.name, {}}, callable.params,
                                 span_of(callable.name, args, count));
    const Device device = arguments.device();
    if (device.on_host())
      fail(ErrorId::kernel_argument, {}, {}, callable.name, "the device", device.str(),
           "tensors of a GPU");
    const int number = all.find(callable, arguments.host());
    if (number < 0)
      fail(ErrorId::kernel_argument, {}, {}, callable.name, "the call",
           fmt::format("one that is not among the {} of the table", all.size()),
           "such shapes, types and alignment to `tegula aot`");
    for (std::size_t i = 0; i < callable.params.size(); ++i)
      if (const Tensor* t = arguments.host()[i].tensor; t != nullptr && t->device() != device)
        fail(ErrorId::other_device, {}, {}, callable.params[i].name, t->device().str(),
             device.str());
    all.call(number).plan.run(Stream::wrap(stream, device), arguments.host(), {});
  });
}
