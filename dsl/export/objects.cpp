// Calls with tensors of a Python library, which are read through the C functions of its DLPack
// exchange table. Python's own API is not used, so that no version of it is linked.
#include <tegula.h>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

#include "dsl/export/exported.h"
#include "dsl/export/failure.h"
#include "dsl/export/run.h"
#include "support/errors.h"

using namespace tegula;

namespace {

/// DLPackExchangeAPI of dlpack.h 1.2. Functions that return a nonzero number set a Python
/// exception.
struct ExchangeTable {
  std::uint32_t major, minor;
  const ExchangeTable* older;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DLTensor* out);
  int (*current_stream)(DLDeviceType type, std::int32_t device, void** stream);
};
static_assert(offsetof(ExchangeTable, tensor_from_object) == 40 &&
              offsetof(ExchangeTable, current_stream) == 48);

}  // namespace

TegulaCode tegula_call_objects(const TegulaCallable* callable, const TegulaArg* args,
                               std::int32_t count, const void* exchange) {
  return c::guarded([&] {
    const detail::Exported& callee = c::checked(callable);
    const auto given = c::args_of(callee, args, count);
    const auto& table = *static_cast<const ExchangeTable*>(exchange);
    std::array<std::byte, 4096> room;
    std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
    std::pmr::vector<TegulaArg> converted(given.begin(), given.end(), &memory);
    std::pmr::vector<DLTensor> tensors(&memory);
    tensors.reserve(given.size());
    for (TegulaArg& arg : converted) {
      if (arg.kind != TEGULA_OBJECT) continue;
      DLTensor& tensor = tensors.emplace_back();
      if (table.tensor_from_object(const_cast<void*>(arg.value.pointer), &tensor) != 0)
        fail(ErrorId::export_object, callee.loc(), {}, callee.name());
      arg = {TEGULA_TENSOR, 0, {.tensor = &tensor}};
    }
    c::run(callee, converted, [&](Device device) {
      void* stream = nullptr;
      if (table.current_stream(kDLCUDA, device.index, &stream) != 0)
        fail(ErrorId::export_object, callee.loc(), {}, callee.name());
      return stream;
    });
  });
}
