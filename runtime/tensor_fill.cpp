// Values of tensors: constants, random numbers, conversions.
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/context.h"
#include "support/errors.h"
#include "tegula/tensor.h"

namespace tegula {
namespace {

/// Converts as kernels cast: rounds towards zero, saturates, and returns 0 for NaN.
template <std::integral To>
To to_integer(double value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<To>(value);
}

/// Returns true if `dtype` is an integer type that cannot represent the value.
template <class Number>
bool is_beyond(DType dtype, Number value) {
  return is_integer(dtype) && visit_dtype(dtype, [&](auto type) {
           using T = typename decltype(type)::type;
           if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>)
             return false;
           else if constexpr (std::is_integral_v<Number>)
             return !std::in_range<T>(value);
           else
             return !(std::trunc(value) == value &&
                      value >= static_cast<double>(std::numeric_limits<T>::min()) &&
                      value < std::ldexp(1.0, std::numeric_limits<T>::digits));
         });
}

template <Element To, Element From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>)
    return static_cast<double>(value) != 0;
  else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>)
    return to_integer<To>(static_cast<double>(value));
  else if constexpr (std::is_arithmetic_v<From>)
    return static_cast<To>(value);
  else
    return static_cast<To>(static_cast<float>(value));
}

/// A type that represents every value of T exactly, as an intermediate for conversions.
template <Element T>
using Wide =
    std::conditional_t<!std::is_integral_v<T>, double,
                       std::conditional_t<std::is_same_v<T, std::uint64_t>, T, std::int64_t>>;

/// Writes the values starting at position `first`.
template <class W>
using Values = std::function<void(std::uint64_t first, std::span<W> out)>;

/// Returns Values whose value at position i is make(i).
template <class Make, class W = std::invoke_result_t<Make, std::uint64_t>>
Values<W> each(Make make) {
  return [make](std::uint64_t i, std::span<W> out) {
    for (W& value : out) value = make(i++);
  };
}

template <class W>
void write(const Tensor& t, std::int64_t first, std::span<const W> values) {
  visit_dtype(t.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::ranges::transform(values, static_cast<T*>(t.data()) + first, convert<T, W>);
  });
}

/// Splits [0, count) over the host's cores and calls f(begin, end) for each part; small counts stay
/// on this thread.
void parallel_ranges(std::int64_t count,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& f) {
  constexpr std::int64_t kGrain = 1 << 20;
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t parts = std::clamp<std::int64_t>(count / kGrain, 1, cores);
  std::vector<std::jthread> workers;
  for (std::int64_t p = 1; p < parts; ++p)
    workers.emplace_back([&f, count, parts, p] {
      f(count / parts * p, p + 1 == parts ? count : count / parts * (p + 1));
    });
  f(std::int64_t{0}, parts == 1 ? count : count / parts);
}

/// Returns a row-major host tensor. Types are converted per chunk, outside the loop over elements:
/// a loop for each pair of types would be hundreds of loops to compile.
template <class W>
Tensor generate(const Dims& shape, DType dtype, const Values<W>& values, Loc made_at) {
  Tensor t = Tensor::empty(shape, dtype, Device::cpu(), made_at);
  parallel_ranges(t.numel(), [&](std::int64_t begin, std::int64_t end) {
    std::array<W, 1024> piece;
    for (std::int64_t at = begin; at < end; at += std::ssize(piece)) {
      const std::span<W> some(piece.data(), std::min<std::size_t>(piece.size(), end - at));
      values(static_cast<std::uint64_t>(at), some);
      write<W>(t, at, some);
    }
  });
  return t;
}

/// Returns 64 random bits for position `i` of stream `seed`: two rounds of the splitmix64
/// finaliser.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t i) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return mix(mix((seed + 1) * kGolden) + (i + 1) * kGolden);
}

/// Returns a value in [0, 1) from the upper 53 bits.
double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

Tensor Tensor::zeros(const Dims& shape, DType dtype, Device device, Loc at) {
  Tensor t = empty(shape, dtype, device, at);
  const std::size_t bytes = static_cast<std::size_t>(t.numel()) * size_bytes(dtype);
  if (bytes == 0) return t;
  if (device.on_host()) {
    std::memset(t.data(), 0, bytes);
    return t;
  }
  const runtime::ContextScope scope(device.index);
  const auto address = reinterpret_cast<runtime::cu::DevicePtr>(t.data());
  runtime::check(runtime::driver().set_bytes(address, 0, bytes, nullptr), "cuMemsetD8Async");
  runtime::check(runtime::driver().stream_synchronize(nullptr), "cuStreamSynchronize");
  return t;
}

Tensor Tensor::full(const Dims& shape, double value, DType dtype, Device device, Loc at) {
  if (is_beyond(dtype, value)) fail(ErrorId::value_range, at, {}, "full", value, name(dtype));
  return generate(shape, dtype, each([value](std::uint64_t) { return value; }), at).to(device, at);
}

Tensor Tensor::iota(const Dims& shape, DType dtype, Device device, Loc at) {
  const Tensor t = generate(shape, dtype,
                            each([](std::uint64_t i) { return static_cast<std::int64_t>(i); }), at);
  if (const std::int64_t last = t.numel() - 1; last > 0 && is_beyond(dtype, last))
    fail(ErrorId::value_range, at, {}, "iota", last, name(dtype));
  return t.to(device, at);
}

Tensor Tensor::uniform(const Dims& shape, DType dtype, double low, double high, std::uint64_t seed,
                       Device device, Loc at) {
  return generate(shape, dtype, each([=](std::uint64_t i) {
                    return low + (high - low) * unit(random_bits(seed, i));
                  }),
                  at)
      .to(device, at);
}

Tensor Tensor::normal(const Dims& shape, DType dtype, double mean, double deviation,
                      std::uint64_t seed, Device device, Loc at) {
  return generate(shape, dtype, each([=](std::uint64_t i) {
                    // Box-Muller transform; 1 - u is in (0, 1], for which the logarithm is finite.
                    const double radius =
                        std::sqrt(-2 * std::log(1 - unit(random_bits(seed, 2 * i))));
                    return mean +
                           deviation * radius *
                               std::cos(2 * std::numbers::pi * unit(random_bits(seed, 2 * i + 1)));
                  }),
                  at)
      .to(device, at);
}

Tensor Tensor::integers(const Dims& shape, DType dtype, std::int64_t low, std::int64_t high,
                        std::uint64_t seed, Device device, Loc at) {
  if (high <= low) fail(ErrorId::empty_range, at, {}, low, high);
  for (const std::int64_t end : {low, high - 1})
    if (is_beyond(dtype, end)) fail(ErrorId::value_range, at, {}, "integers", end, name(dtype));
  const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return generate(shape, dtype, each([=](std::uint64_t i) {
                    const auto scaled =
                        static_cast<unsigned __int128>(random_bits(seed, i)) * span >> 64;
                    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                                     static_cast<std::uint64_t>(scaled));
                  }),
                  at)
      .to(device, at);
}

Tensor Tensor::from_host(const void* values, std::size_t count, const Dims& shape, DType dtype,
                         Device device, Loc at) {
  static char nothing[1];  // an empty vector may have no address
  void* first = count == 0 ? nothing : const_cast<void*>(values);
  const Tensor view = borrow(first, shape, dtype, Device::cpu(), {}, nullptr, at);
  if (static_cast<std::size_t>(view.numel()) != count)
    fail(ErrorId::value_count, at, {}, count, shape.str());
  Tensor t = empty(shape, dtype, device, at);
  t.copy_from(view, at);
  return t;
}

void Tensor::fill(double value, Loc at) const {
  if (numel_ == 0) return;
  copy_from(
      full(Dims::filled(shape_.size(), 1), value, dtype_, Device::cpu(), at).broadcast_to(shape_),
      at);
}

Tensor Tensor::cast(DType dtype, Loc at) const {
  if (!defined_) fail(ErrorId::argument_undefined, at, {}, "the source of a cast");
  if (dtype == dtype_) return *this;
  const Tensor source = to(Device::cpu(), at).contiguous(at);
  const Tensor result = visit_dtype(dtype_, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto* in = static_cast<const T*>(source.data());
    return generate(shape_, dtype,
                    each([in](std::uint64_t i) { return static_cast<Wide<T>>(in[i]); }), {});
  });
  return device_.on_host() ? borrow(result.data_, shape_, dtype, device_, {}, result.owner_)
                           : result.to(device_, at);
}

std::vector<double> Tensor::to_doubles(Loc at) const {
  return cast(DType::f64, at).to_vector<double>(at);
}

}  // namespace tegula
