#include "dsl/call_key.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "dsl/at_kernel.h"
#include "dsl/errors.h"
#include "dsl/instance.h"

namespace tegula::dsl {
namespace {

/// Adds an argument to the key; `position` is among the run-time arguments.
void add_argument(CallKey& key, const HostArg& a, const Specialization& known,
                  std::size_t position) {
  if (a.kind == ParamKind::Constant) return key.add(a.bits);
  if (a.kind == ParamKind::Scalar) return;
  key.add(MemoryClass::of(a));
  if (a.kind != ParamKind::View || !a.tensor) return;
  const Tensor& t = *a.tensor;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    DimClass d = DimClass::of(t.shape()[i], t.strides()[i]);
    if (known.is_any_extent(position, i)) d.apply(ExtentKey::Any, t.shape()[i]);
    if (known.is_any_stride(position, i)) d.apply(ExtentKey::AnyStride, t.shape()[i]);
    key.add(d);
  }
}

}  // namespace

void CallArgs::add(const HostArg& a, const ParamInfo& info) {
  if (count == kMax) throw InternalError("a call passes more than 64 run-time arguments");
  // A pointer keeps the tensor that it was made from, which is its bounds on cpu and sim.
  args[count] = {a.tensor, a.bits};
  is_pointer[count] = info.kind == ParamKind::Pointer;
  access[count++] = info.access;
}

void check_equal_extents(const KernelInstance& k, const CallArgs& a) {
  for (const EqualExtents& e : k.equal_extents()) {
    if (!a.args[e.arg[0]].tensor || !a.args[e.arg[1]].tensor) continue;
    const auto extent = [&](int i) {
      return a.args[e.arg[i]].tensor->shape()[static_cast<std::size_t>(e.axis[i])];
    };
    if (extent(0) != extent(1)) [[unlikely]]
      fail(ErrorId::extents_differ, place_of_call(k.loc()), {}, e.name, extent(0), e.text[0],
           extent(1), e.text[1]);
  }
}

CallKey make_call_key(const KernelInstance& k, std::span<const HostArg> args, Device device,
                      CallArgs& out) {
  CallKey key;
  bool wide = false;
  const Specialization& known = k.known();
  key.add(static_cast<std::uint64_t>(device.kind) << 32 | static_cast<std::uint64_t>(device.index));
  const auto take = [&](const HostArg& a, const ParamInfo& info, std::size_t position) {
    check_argument(k.callee(), position, a, info);
    if (a.tensor && a.tensor->device() != device) [[unlikely]]
      fail(ErrorId::other_device, place_of_call(k.loc()), {}, k.callee().argument(position),
           a.tensor->device().str(), device.str());
    add_argument(key, a, known, out.count);
    wide |= a.tensor && needs_wide_index(*a.tensor);
    if (info.kind != ParamKind::Constant) out.add(a, info);
  };
  k.check_argument_count(k.run_time_params() + known.captures.size());
  for (std::size_t i = 0; i < args.size(); ++i) take(args[i], k.params()[i], i);
  for (std::size_t i = 0; i < known.captures.size(); ++i)
    take(known.captures[i].read(), known.captures[i].info, args.size() + i);
  for (const SpecializationRequest& r : known.requests) {
    const Tensor* t = r.arg < out.count ? out.args[r.arg].tensor : nullptr;
    if (!t || r.key == ExtentKey::Any || r.key == ExtentKey::AnyStride) continue;
    DimClass d;
    d.apply(r.key, t->shape()[static_cast<std::size_t>(r.axis)]);
    key.add(d);
  }
  check_equal_extents(k, out);
  key.add(wide);
  return key;
}

namespace {

/// Returns the bytes from the first element to the end of the last one, over the dimensions whose
/// stride is less than `stride` bytes; nothing if one of the other strides is not a multiple of it.
std::optional<std::int64_t> row_bytes(const Tensor& t, std::int64_t stride) {
  std::int64_t bytes = size_bytes(t.dtype());
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    const std::int64_t step = std::abs(t.strides()[i]) * size_bytes(t.dtype());
    if (t.shape()[i] == 1) continue;
    if (step < stride)
      bytes += (t.shape()[i] - 1) * step;
    else if (step % stride != 0)
      return std::nullopt;
  }
  return bytes;
}

/// Returns true if both have rows of the same stride and use different parts of them, such as
/// columns of one matrix.
bool are_interleaved(const Tensor& a, const Tensor& b) {
  for (std::size_t i = 0; i < a.shape().size(); ++i) {
    const std::int64_t stride = std::abs(a.strides()[i]) * size_bytes(a.dtype());
    if (stride == 0) continue;
    const auto row_a = row_bytes(a, stride), row_b = row_bytes(b, stride);
    if (!row_a || !row_b) continue;
    const auto apart = static_cast<std::int64_t>(b.byte_range().begin - a.byte_range().begin);
    const std::int64_t at = (apart % stride + stride) % stride;
    if (at >= *row_a && at + *row_b <= stride) return true;
  }
  return false;
}

}  // namespace

bool share_memory(const Tensor& a, const Tensor& b) {
  const ByteRange x = a.byte_range(), y = b.byte_range();
  return x.begin < y.end && y.begin < x.end && !are_interleaved(a, b);
}

void check_overlap(const KernelInstance& k, const CallArgs& a) {
  if (k.may_alias()) return;
  const Specialization& known = k.known();
  for (std::size_t i = 0; i < a.count; ++i) {
    if (!a.args[i].tensor || a.access[i] == detail::ViewAccess::In) continue;
    if (a.is_pointer[i] && !known.is_stored_through(i)) continue;
    for (std::size_t j = 0; j < a.count; ++j)
      if (j != i && a.args[j].tensor && share_memory(*a.args[i].tensor, *a.args[j].tensor))
          [[unlikely]]
        fail(ErrorId::overlap, place_of_call(k.loc()), {}, std::min(i, j), std::max(i, j), k.name(),
             i);
  }
}

}  // namespace tegula::dsl
