// Marks memory without contents.
#include "tegula/poison.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/context.h"
#include "runtime/place_of_call.h"
#include "runtime/released_memory.h"
#include "runtime/storage.h"
#include "runtime/strided.h"
#include "support/errors.h"

namespace tegula {
namespace {

/// Calls f(address, bytes) for the contiguous parts of a tensor, of which no two overlap unless the
/// tensor's elements do.
template <class F>
void for_each_part(const Tensor& t, const F& f) {
  std::vector<std::pair<std::int64_t, std::int64_t>> lines;  // stride and extent, in elements
  auto first = static_cast<std::uintptr_t>(t.byte_range().begin);
  for (std::size_t d = 0; d < t.shape().size(); ++d)
    if (const std::int64_t stride = std::abs(t.strides()[d]); stride != 0 && t.shape()[d] > 1)
      lines.emplace_back(stride, t.shape()[d]);
  std::ranges::sort(lines);
  std::int64_t run = 1;
  Dims shape, strides;
  for (const auto& [stride, extent] : lines)
    if (stride == run && shape.empty())
      run *= extent;
    else
      shape.push_back(extent), strides.push_back(stride);
  shape.push_back(run), strides.push_back(1);
  const auto size = static_cast<std::int64_t>(size_bytes(t.dtype()));
  runtime::for_each_row(shape, strides, strides, [&](std::int64_t, std::int64_t at, std::int64_t) {
    f(first + static_cast<std::uintptr_t>(at * size), static_cast<std::size_t>(run * size));
  });
}

void fill_on_host(const Tensor& rows) {
  const auto size = static_cast<std::size_t>(size_bytes(rows.dtype()));
  const bool is_listed = runtime::host_memory_of(rows.byte_range().begin).has_value();
  for_each_part(rows, [&](std::uintptr_t first, std::size_t bytes) {
    std::memset(reinterpret_cast<void*>(first), runtime::kUninitialisedByte, bytes);
    if (is_listed) runtime::mark_released({first, first + bytes, size});
  });
}

}  // namespace

void poison(const Tensor& rows, const Stream& stream, Loc at) {
  if (!rows.defined()) fail(ErrorId::argument_undefined, at, {}, "the tensor of poison");
  if (!is_float(rows.dtype()))
    fail(ErrorId::argument_type, at, {}, "the tensor of poison", name(rows.dtype()),
         "a floating-point type");
  if (rows.device() != stream.device())
    fail(ErrorId::other_device, at, {}, "the tensor of poison", rows.device().str(),
         stream.device().str());
  if (rows.numel() == 0) return;
  if (rows.device().on_host()) return fill_on_host(rows);
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(rows.device().index);
  for_each_part(rows, [&](std::uintptr_t first, std::size_t bytes) {
    runtime::check(runtime::driver().set_bytes(static_cast<runtime::cu::DevicePtr>(first),
                                               runtime::kUninitialisedByte, bytes,
                                               static_cast<runtime::cu::Stream>(stream.handle())),
                   "cuMemsetD8Async");
  });
}

void poison(const Tensor& rows, Loc at) { poison(rows, Stream(rows.device()), at); }

}  // namespace tegula
