#include "autotune/user/argument_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "autotune/user/compiled_candidates.h"
#include "runtime/context.h"
#include "runtime/driver_api.h"

namespace tegula::autotune {
namespace {

constexpr std::int64_t kAlignment = 256;  // of driver allocations
constexpr unsigned char kRedByte = 0xa5, kPoison = 0xff;

Tensor bytes_at(std::uintptr_t begin, std::int64_t bytes, Device device,
                std::shared_ptr<void> owner = nullptr) {
  return Tensor::borrow(reinterpret_cast<void*>(begin), {bytes}, DType::u8, device, {},
                        std::move(owner));
}

std::int64_t size_of(const ByteRange& range) {
  return static_cast<std::int64_t>(range.end - range.begin);
}

/// Allocates bytes on the host, page-locked if a GPU writes them and the driver supports it.
Tensor host_bytes(std::int64_t bytes, Device source) {
  if (source.on_host() || !runtime::driver().has("cuMemHostAlloc"))
    return Tensor::empty({bytes}, DType::u8, Device::cpu());
  const runtime::ContextScope scope(source.index);
  void* memory = nullptr;
  runtime::check(runtime::driver().host_alloc(&memory, static_cast<std::size_t>(bytes), 0),
                 "cuMemHostAlloc");
  const std::shared_ptr<void> owner(memory, [source](void* p) {
    const runtime::ContextScope at_end(source.index);
    runtime::driver().host_free(p);
  });
  return Tensor::borrow(memory, {bytes}, DType::u8, Device::cpu(), {}, owner);
}

/// Returns the tolerance for results that are rounded in a different order, relative to the largest
/// element.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1.0, -40);
    case DType::f32:
      return std::ldexp(1.0, -13);
    case DType::f16:
      return std::ldexp(1.0, -9);
    case DType::bf16:
      return std::ldexp(1.0, -6);
    default:
      return is_float(dtype) ? 0.25 : 0;
  }
}

/// Compares with all cores: a result may have hundreds of megabytes, and a race has little time.
bool has_same_bytes(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t kShare = std::int64_t{8} << 20;
  std::atomic<bool> is_same = true;
  std::vector<std::jthread> others;
  for (std::int64_t at = 0; at < a.numel(); at += kShare) {
    const auto compare = [&, at] {
      const auto count = static_cast<std::size_t>(std::min(kShare, a.numel() - at));
      if (std::memcmp(static_cast<const char*>(a.data()) + at,
                      static_cast<const char*>(b.data()) + at, count) != 0)
        is_same = false;
    };
    if (at + kShare < a.numel())
      others.emplace_back(compare);
    else
      compare();
  }
  others.clear();
  return is_same;
}

/// Splits a large tensor into parts whose elements are consecutive in row-major order.
std::vector<Tensor> parts_of(const Tensor& t) {
  constexpr std::int64_t kParts = 64, kLarge = std::int64_t{1} << 18;
  std::vector<Tensor> parts{t};
  for (int d = 0; d + 1 < t.rank() && t.numel() >= kLarge; ++d) {
    const std::int64_t extent = t.size(d), step = (extent + kParts - 1) / kParts;
    std::vector<Tensor> finer;
    for (const Tensor& part : parts)
      for (std::int64_t at = 0; at < extent; at += step)
        finer.push_back(part.slice(d, at, std::min(at + step, extent)));
    parts = std::move(finer);
    if (step > 1 || std::ssize(parts) >= kParts) break;
  }
  return parts;
}

/// Tensor::to_doubles() with all cores: a result may have many millions of elements.
std::vector<double> doubles_of(const Tensor& t) {
  const std::vector<Tensor> parts = parts_of(t);
  std::vector<std::vector<double>> of(parts.size());
  on_all_threads(parts.size(), [&](std::size_t i) { of[i] = parts[i].to_doubles(); });
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(t.numel()));
  for (const std::vector<double>& part : of) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void compare_elements(const std::vector<double>& found, const std::vector<double>& wanted,
                      double tolerance, Difference& out) {
  double squares = 0;
  std::size_t finite = 0;
  for (const double w : wanted)
    if (std::isfinite(w)) {
      squares += w * w;
      ++finite;
    }
  const double rms = finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double f = found[i], w = wanted[i];
    const bool is_same = f == w || (std::isnan(f) && std::isnan(w));
    if (is_same) continue;
    const bool is_close = std::abs(f - w) <= tolerance * std::max(std::abs(w), rms);
    if (out.text.empty() || (out.is_close && !is_close))
      out.text = fmt::format("element {} is {}, not {}", i, f, w);
    out.is_close = out.is_close && is_close;
  }
}

}  // namespace

void fill_bytes(const Tensor& bytes, unsigned char value, const Stream& stream) {
  const auto count = static_cast<std::size_t>(bytes.numel());
  if (bytes.device().on_host()) {
    std::memset(bytes.data(), value, count);
    return;
  }
  const runtime::ContextScope scope(bytes.device().index);
  runtime::check(
      runtime::driver().set_bytes(reinterpret_cast<runtime::cu::DevicePtr>(bytes.data()), value,
                                  count, static_cast<runtime::cu::Stream>(stream.handle())),
      "cuMemsetD8Async");
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

Tensor bytes_in(const Tensor& tensor) {
  const ByteRange range = tensor.byte_range();
  return bytes_at(range.begin, size_of(range), tensor.device());
}

void ArgumentCopy::add(const MeasuredTensors& tensors, const Stream& stream) {
  for (std::size_t i = tensors_.size(); i < tensors.size(); ++i) {
    const Tensor& t = tensors[i].tensor;
    if (t.numel() == 0) {
      tensors_.push_back(t);
      continue;
    }
    const ByteRange range = t.byte_range();
    const std::int64_t bytes = size_of(range);
    const auto at = kRedZone + static_cast<std::int64_t>(range.begin % kAlignment);
    const Tensor block = Tensor::empty({at + bytes + kRedZone}, DType::u8, t.device());
    fill_bytes(block, kRedByte, stream);
    const auto owner = std::make_shared<Tensor>(block);
    const auto begin =
        reinterpret_cast<std::uintptr_t>(block.data()) + static_cast<std::uintptr_t>(at);
    const auto first = reinterpret_cast<std::uintptr_t>(t.data()) - range.begin;
    tensors_.push_back(Tensor::borrow(reinterpret_cast<void*>(begin + first), t.shape(), t.dtype(),
                                      t.device(), t.strides(), owner));
    copied_.push_back({tensors[i], block, bytes_at(begin, bytes, t.device(), owner)});
    copied_.back().bytes.copy_from(bytes_in(t), stream);
  }
}

BoundArgs ArgumentCopy::bind(const MeasuredArgs& args, const std::vector<Tensor>& made) const {
  BoundArgs out;
  for (const MeasuredArg& a : args) {
    const Tensor* t = a.made >= 0     ? &made.at(static_cast<std::size_t>(a.made))
                      : a.tensor >= 0 ? &tensors_.at(static_cast<std::size_t>(a.tensor))
                                      : nullptr;
    if (t != nullptr && a.view)
      t = &out.views.emplace_back(Tensor::borrow(static_cast<char*>(t->data()) + a.view->first,
                                                 a.view->shape, a.view->dtype, t->device(),
                                                 a.view->strides));
    out.args.push_back({t, t != nullptr && a.is_address
                               ? detail::bits_of(static_cast<const void*>(t->data()))
                               : a.bits});
  }
  return out;
}

void ArgumentCopy::reset(const Stream& stream) const {
  for (const Copied& c : copied_) {
    if (c.original.access == detail::ViewAccess::Out) fill_bytes(c.bytes, kPoison, stream);
    if (c.original.access == detail::ViewAccess::InOut)
      c.bytes.copy_from(bytes_in(c.original.tensor), stream);
  }
}

void ArgumentCopy::outputs(const Stream& stream, std::vector<Tensor>& out) const {
  std::size_t next = 0;
  for (const Copied& c : copied_) {
    if (c.original.access == detail::ViewAccess::In) continue;
    if (next == out.size()) out.push_back(host_bytes(c.bytes.numel(), c.bytes.device()));
    out[next++].copy_from(c.bytes, stream);
  }
}

std::string ArgumentCopy::red_zone_damage(const Stream& stream) const {
  for (const Copied& c : copied_) {
    const std::int64_t before =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(c.bytes.data()) -
                                  reinterpret_cast<std::uintptr_t>(c.block.data()));
    const std::int64_t behind = before + c.bytes.numel();
    for (const auto& [begin, end] :
         {std::pair(std::int64_t{0}, before), std::pair(behind, c.block.numel())}) {
      const Tensor zone = Tensor::empty({end - begin}, DType::u8, Device::cpu());
      zone.copy_from(c.block.slice(0, begin, end), stream);
      const auto* bytes = static_cast<const unsigned char*>(zone.data());
      const auto* bad =
          std::find_if(bytes, bytes + zone.numel(), [](auto b) { return b != kRedByte; });
      if (bad != bytes + zone.numel())
        return fmt::format("it writes {} byte {} of argument {}", begin == 0 ? "before" : "behind",
                           begin == 0 ? bad - bytes - before : bad - bytes + c.bytes.numel(),
                           c.original.position);
    }
  }
  return {};
}

std::int64_t bytes_of(const MeasuredTensors& tensors) {
  std::int64_t bytes = 0;
  for (const MeasuredTensor& t : tensors) bytes += size_of(t.tensor.byte_range());
  return bytes;
}

Difference compare(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                   const MeasuredTensors& tensors) {
  Difference out;
  std::size_t next = 0;
  for (const MeasuredTensor& measured : tensors) {
    const Tensor& t = measured.tensor;
    if (t.numel() == 0 || measured.access == detail::ViewAccess::In) continue;
    const Tensor &f = found[next], &w = wanted[next];
    ++next;
    if (has_same_bytes(f, w)) continue;
    out.is_equal = false;
    const auto first = reinterpret_cast<std::uintptr_t>(t.data()) - t.byte_range().begin;
    const auto elements = [&](const Tensor& bytes) {
      return doubles_of(Tensor::borrow(static_cast<char*>(bytes.data()) + first, t.shape(),
                                       t.dtype(), Device::cpu(), t.strides()));
    };
    compare_elements(elements(f), elements(w), tolerance_of(t.dtype()), out);
    if (out.text.empty()) {  // elements are equal: the difference is in the bytes between them
      out.is_close = false;
      out.text = "bytes between the elements are written";
    }
    out.text = fmt::format("argument {}: {}", measured.position, out.text);
    if (!out.is_close) return out;
  }
  return out;
}

}  // namespace tegula::autotune
