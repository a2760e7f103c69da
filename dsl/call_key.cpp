#include "dsl/call_key.h"

#include <algorithm>

#include "dsl/errors.h"
#include "dsl/instance.h"

namespace tegula::dsl {
namespace {

std::uint64_t class_of_address(const void* address) {
  return divisor_class(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address)));
}

void add_tensor(CallKey& key, const Tensor& t, const Known& known, std::size_t position,
                bool& wide) {
  key.add(static_cast<std::uint64_t>(t.dtype()) << 16 | static_cast<std::uint64_t>(t.rank()) << 8 |
          (t.numel() == 0 ? 0x80u : 0u) | class_of_address(t.data()));
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    const std::int64_t stride = t.strides()[i];
    const std::int64_t extent = known.is_any_extent(position, i) ? 1 : t.shape()[i];
    const std::int64_t step = known.is_any_stride(position, i) ? 1 : stride;
    key.add(static_cast<std::uint64_t>(divisor_class(extent)) << 16 |
            static_cast<std::uint64_t>(divisor_class(step)) << 8 | (stride == 1));
  }
  wide |= needs_wide_index(t);
}

/// `position` among the run-time arguments.
void add_argument(CallKey& key, const HostArg& a, const Known& known, std::size_t position,
                  bool& wide) {
  constexpr std::uint64_t kLeftOut = 0xff;  // no tensor's first word
  if (a.kind == ParamKind::View && !a.tensor) key.add(kLeftOut);
  if (a.kind == ParamKind::View && a.tensor) add_tensor(key, *a.tensor, known, position, wide);
  if (a.kind == ParamKind::Constant) key.add(a.bits);
  if (a.kind != ParamKind::Pointer) return;
  key.add(divisor_class(static_cast<std::int64_t>(a.bits)));
  if (a.tensor) wide |= needs_wide_index(*a.tensor);
}

}  // namespace

void CallArgs::add(const HostArg& a, const ParamInfo& info) {
  if (count == kMax) throw InternalError("a kernel has more than 64 run-time arguments");
  // A pointer keeps the tensor it was made from: that bounds it on cpu and sim.
  args[count] = {a.tensor, a.bits};
  access[count++] = info.access;
}

CallKey examine(const KernelInstance& k, std::span<const HostArg> args, Device device,
                CallArgs& out) {
  CallKey key;
  bool wide = false;
  const Known& known = k.known();
  key.add(static_cast<std::uint64_t>(device.kind) << 32 | static_cast<std::uint64_t>(device.index));
  const auto take = [&](const HostArg& a, const ParamInfo& info, std::size_t position) {
    check_argument(k.callee(), position, a, info);
    if (a.tensor && a.tensor->device() != device) [[unlikely]]
      fail(Mistake::other_device, k.loc(), {}, k.callee().argument(position),
           a.tensor->device().str(), device.str());
    add_argument(key, a, known, out.count, wide);
    if (info.kind != ParamKind::Constant) out.add(a, info);
  };
  for (std::size_t i = 0; i < args.size(); ++i) take(args[i], k.params()[i], i);
  for (std::size_t i = 0; i < known.captures.size(); ++i)
    take(known.captures[i].read(), known.captures[i].info, args.size() + i);
  for (const Request& r : known.requests) {
    const Tensor* t = r.arg < out.count ? out.args[r.arg].tensor : nullptr;
    if (!t || r.key == ExtentKey::Any || r.key == ExtentKey::AnyStride) continue;
    const std::int64_t extent = t->shape()[static_cast<std::size_t>(r.axis)];
    key.add(static_cast<std::uint64_t>(r.key == ExtentKey::Exact ? extent : bucket_of(extent)));
    key.add(extent == bucket_of(extent));
  }
  for (const EqualExtents& e : k.equal_extents()) {
    if (!out.args[e.arg[0]].tensor || !out.args[e.arg[1]].tensor) continue;
    const auto extent = [&](int i) {
      return out.args[e.arg[i]].tensor->shape()[static_cast<std::size_t>(e.axis[i])];
    };
    if (extent(0) != extent(1)) [[unlikely]]
      fail(Mistake::extents_differ, k.loc(), {}, e.name, extent(0), e.text[0], extent(1),
           e.text[1]);
  }
  key.add(wide);
  return key;
}

void check_overlap(const KernelInstance& k, const CallArgs& a) {
  if (k.may_alias()) return;
  for (std::size_t i = 0; i < a.count; ++i) {
    if (!a.args[i].tensor || a.access[i] != detail::ViewAccess::Out) continue;
    const ByteRange mine = a.args[i].tensor->byte_range();
    for (std::size_t j = 0; j < a.count; ++j) {
      if (j == i || !a.args[j].tensor) continue;
      const ByteRange other = a.args[j].tensor->byte_range();
      if (mine.begin < other.end && other.begin < mine.end) [[unlikely]]
        fail(Mistake::overlap, k.loc(), {}, std::min(i, j), std::max(i, j), k.name(), i);
    }
  }
}

}  // namespace tegula::dsl
