// Copies of tensors: on the host, between host and GPU, and between element types.
#include <fmt/format.h>

#include <cstring>

#include "runtime/context.h"
#include "runtime/place_of_call.h"
#include "runtime/records.h"
#include "runtime/strided.h"
#include "support/errors.h"
#include "tegula/tensor.h"

namespace tegula {

using runtime::check;
using runtime::ContextScope;
using runtime::driver;
namespace cu = runtime::cu;

namespace runtime {

namespace {
template <class Word>
void copy_row(char* to, std::int64_t to_stride, const char* from, std::int64_t from_stride,
              std::int64_t count) {
  auto* out = reinterpret_cast<Word*>(to);
  const auto* in = reinterpret_cast<const Word*>(from);
  for (std::int64_t i = 0; i < count; ++i) out[i * to_stride] = in[i * from_stride];
}
}  // namespace

void copy_strided(void* to, const Dims& to_strides, const void* from, const Dims& from_strides,
                  const Dims& shape, int bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const std::size_t last = shape.empty() ? 0 : shape.size() - 1;
  const std::int64_t row = shape.empty() ? 1 : shape[last];
  const std::int64_t out_step = shape.empty() ? 1 : to_strides[last];
  const std::int64_t in_step = shape.empty() ? 1 : from_strides[last];
  for_each_row(shape, to_strides, from_strides,
               [&](std::int64_t, std::int64_t at_out, std::int64_t at_in) {
                 char* o = out + at_out * bytes;
                 const char* i = in + at_in * bytes;
                 if (out_step == 1 && in_step == 1)
                   std::memcpy(o, i, static_cast<std::size_t>(row * bytes));
                 else if (bytes == 1)
                   copy_row<std::uint8_t>(o, out_step, i, in_step, row);
                 else if (bytes == 2)
                   copy_row<std::uint16_t>(o, out_step, i, in_step, row);
                 else if (bytes == 4)
                   copy_row<std::uint32_t>(o, out_step, i, in_step, row);
                 else
                   copy_row<std::uint64_t>(o, out_step, i, in_step, row);
               });
}

}  // namespace runtime

namespace {

std::size_t packed_bytes(const Tensor& t) {
  return static_cast<std::size_t>(t.numel()) * size_bytes(t.dtype());
}

cu::DevicePtr address(const Tensor& t) { return reinterpret_cast<cu::DevicePtr>(t.data()); }

/// Copies between two row-major tensors, at least one of them on a GPU. Waits for the copy.
void copy_packed(const Tensor& to, const Tensor& from, const Stream& stream) {
  const std::size_t bytes = packed_bytes(to);
  if (bytes == 0) return;
  auto* queue = static_cast<cu::Stream>(stream.handle());
  const ContextScope scope(to.device().on_host() ? from.device().index : to.device().index);
  if (from.device().on_host())
    check(driver().copy_to_device(address(to), from.data(), bytes, queue), "cuMemcpyHtoDAsync");
  else if (to.device().on_host())
    check(driver().copy_to_host(to.data(), address(from), bytes, queue), "cuMemcpyDtoHAsync");
  else if (to.device() == from.device())
    check(driver().copy_on_device(address(to), address(from), bytes, queue), "cuMemcpyDtoDAsync");
  else
    check(driver().copy_any(address(to), address(from), bytes, queue), "cuMemcpyAsync");
  check(driver().stream_synchronize(queue), "cuStreamSynchronize");
  runtime::read_records();
}

/// Returns a host tensor with the values and the stride pattern of one on a GPU: copies the whole
/// byte range of the tensor.
Tensor fetch_strided(const Tensor& t, const Stream& stream) {
  const ByteRange range = t.byte_range();
  const auto bytes = static_cast<std::int64_t>(range.end - range.begin);
  const Tensor image = Tensor::empty({bytes}, DType::u8, Device::cpu());
  const Tensor source =
      Tensor::borrow(reinterpret_cast<void*>(range.begin), {bytes}, DType::u8, t.device());
  copy_packed(image, source, stream);
  const auto offset = reinterpret_cast<std::uintptr_t>(t.data()) - range.begin;
  const auto owner = std::make_shared<Tensor>(image);
  return Tensor::borrow(static_cast<char*>(image.data()) + offset, t.shape(), t.dtype(),
                        Device::cpu(), t.strides(), owner);
}

/// Returns the default queue for a copy: that of the GPU involved.
Stream queue_between(const Tensor& a, const Tensor& b) {
  return Stream(a.device().on_host() ? b.device() : a.device());
}

}  // namespace

Tensor Tensor::clone(Loc at) const {
  if (!defined_) return {};
  Tensor copy = empty(shape_, dtype_, device_, at);
  copy.copy_from(*this, at);
  return copy;
}

Tensor Tensor::contiguous(Loc at) const { return is_contiguous() ? *this : clone(at); }

Tensor Tensor::to(Device device, Loc at) const {
  return to(device, Stream(device_.on_host() ? device : device_), at);
}

Tensor Tensor::to(Device device, const Stream& stream, Loc at) const {
  if (!defined_ || device == device_) return *this;
  Tensor moved = empty(shape_, dtype_, device, at);
  moved.copy_from(*this, stream, at);
  return moved;
}

void Tensor::copy_from(const Tensor& source, Loc at) const {
  copy_from(source, queue_between(*this, source), at);
}

void Tensor::copy_from(const Tensor& source, const Stream& stream, Loc at) const {
  if (shape_ != source.shape_ || dtype_ != source.dtype_)
    fail(ErrorId::copy_shape, at, {}, source.str(), str());
  if (numel_ == 0) return;
  if (device_.on_host() && source.device_.on_host()) {
    runtime::copy_strided(data_, strides_, source.data_, source.strides_, shape_,
                          size_bytes(dtype_));
    return;
  }
  const runtime::PlaceOfCall here(at);
  if (is_contiguous() && source.is_contiguous()) return copy_packed(*this, source, stream);
  if (!source.device_.on_host()) return copy_from(fetch_strided(source, stream), stream);
  if (is_contiguous()) return copy_packed(*this, source.clone(), stream);
  // Strided on a GPU: fetch the bytes, overwrite the elements on the host, and copy the bytes back.
  const Tensor image = fetch_strided(*this, stream);
  image.copy_from(source);
  const ByteRange ours = byte_range();
  const auto bytes = static_cast<std::int64_t>(ours.end - ours.begin);
  copy_packed(
      borrow(reinterpret_cast<void*>(ours.begin), {bytes}, DType::u8, device_),
      borrow(reinterpret_cast<void*>(image.byte_range().begin), {bytes}, DType::u8, Device::cpu()),
      stream);
}

}  // namespace tegula
