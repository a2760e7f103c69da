// Memory regions of the arguments: their addresses and bounds, and the element at an address.
#include "ir/eval/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "ir/access.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace interp {
namespace {

// A virtual address is kVirtual + (region + 1) * kSpacing + offset. The low bits of the host
// address are kept, so that the alignment is that of the host. Addresses below kVirtual are host
// addresses (read from a table in memory).
constexpr std::int64_t kVirtual = std::int64_t{1} << 62;
constexpr std::int64_t kSpacing = std::int64_t{1} << 40;
constexpr std::int64_t kKeptLowBits = 0xfff;

/// Returns the offsets, in elements, of the lowest element and one past the highest; {0, 0} for an
/// empty view.
std::pair<std::int64_t, std::int64_t> span_of(const TensorArg& t) {
  std::int64_t low = 0, high = 1;
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    if (t.dims[d] == 0) return {0, 0};
    const std::int64_t reach = (t.dims[d] - 1) * t.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

/// Returns the index of the element at `offset` from the view's first element, or nothing if the
/// offset is between elements.
std::optional<Ints> index_of(const TensorArg& t, std::int64_t offset) {
  std::vector<std::size_t> by_stride(t.dims.size());
  std::iota(by_stride.begin(), by_stride.end(), std::size_t{0});
  std::ranges::sort(by_stride, [&](std::size_t a, std::size_t b) {
    return std::abs(t.strides[a]) > std::abs(t.strides[b]);
  });
  std::int64_t rest = offset - span_of(t).first;
  Ints index(t.dims.size(), 0);
  for (const std::size_t d : by_stride) {
    const std::int64_t stride = std::abs(t.strides[d]);
    if (stride == 0) continue;
    const std::int64_t steps = std::min(rest / stride, t.dims[d] - 1);
    index[d] = t.strides[d] > 0 ? steps : t.dims[d] - 1 - steps;
    rest -= steps * stride;
  }
  return rest == 0 ? std::optional(index) : std::nullopt;
}

}  // namespace
}  // namespace interp

std::optional<Ints> index_of_address(const TensorArg& tensor, std::uint64_t address) {
  const std::int64_t bytes =
      static_cast<std::int64_t>(address - reinterpret_cast<std::uintptr_t>(tensor.base));
  const std::int64_t size = size_bytes(tensor.dtype);
  if (tensor.dims.empty()) return bytes == 0 ? std::optional(Ints()) : std::nullopt;
  return bytes % size == 0 ? interp::index_of(tensor, bytes / size) : std::nullopt;
}

namespace interp {
namespace {

DType element_of(Type t) { return t.is_view() || t.is_scalar() ? t.dtype() : DType::u8; }

/// Returns the parameters whose memory some program may write.
std::unordered_set<Value> written_params(const Kernel& k) {
  std::unordered_set<Value> written, by_address;
  bool writes_by_address = false;
  for (const Param& p : k.params())
    if (k.type(p.value).is_pointer()) by_address.insert(p.value);
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (d.is(Opcode::StoreView, Opcode::AtomicView)) written.insert(accessed_view(d));
    if (d.opcode == Opcode::ViewPtr) by_address.insert(d.operands[0]);
    using enum Opcode;
    const bool is_by_address =
        d.is(Store, AtomicRmw, AtomicCas, AtomicStore, FetchTile, ArriveAndTestLast) ||
        (d.is(StoreView, AtomicView) && k.type(accessed_view(d)).view_facts().is_made);
    writes_by_address = writes_by_address || is_by_address;
  });
  if (writes_by_address) written.insert(by_address.begin(), by_address.end());
  return written;
}

}  // namespace

std::size_t arg_index(const Param& param, std::size_t i) {
  return static_cast<std::size_t>(param.attrs.i(AttrName::arg, static_cast<std::int64_t>(i)));
}

Memory::Memory(const Kernel& kernel, std::span<const EvalArg> args,
               std::span<const HostMemory> reachable, bool track_races) {
  const auto& params = kernel.params();
  regions_.resize(params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    add_region(i, params[i], element_of(kernel.type(params[i].value)),
               args[arg_index(params[i], i)]);
  add_reachable(reachable);
  if (track_races) make_shadows(kernel);
}

/// An address in an argument's memory belongs to that argument.
void Memory::add_reachable(std::span<const HostMemory> all) {
  for (const HostMemory& m : all) {
    auto* const begin = reinterpret_cast<std::byte*>(m.begin);
    auto& [name, region] = reachable_.emplace_back(fmt::format("the tensor at {:#x}", m.begin),
                                                   MemoryRegion{.name = {}, .dtype = DType::u8});
    region.name = name;
    region.base = region.begin = begin;
    region.end = begin + m.bytes;
    region.address = static_cast<std::int64_t>(m.begin);
  }
}

void Memory::add_region(std::size_t i, const Param& param, DType dtype, const EvalArg& arg) {
  MemoryRegion r{.name = param.name, .dtype = dtype};
  if (const auto* t = std::get_if<TensorArg>(&arg)) {
    const auto [low, high] = span_of(*t);
    const std::int64_t size = size_bytes(t->dtype);
    r.tensor = t;
    r.base = static_cast<std::byte*>(t->base);
    r.begin = r.base + low * size;
    r.end = r.base + high * size;
  } else if (const auto* p = std::get_if<PointerArg>(&arg)) {
    r.base = static_cast<std::byte*>(p->base);
    r.begin = static_cast<std::byte*>(p->begin);
    r.end = static_cast<std::byte*>(p->end);
  } else {
    return;
  }
  r.address = kVirtual + static_cast<std::int64_t>(i + 1) * kSpacing +
              (static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(r.base)) & kKeptLowBits);
  regions_[i] = r;
}

void Memory::make_shadows(const Kernel& kernel) {
  const auto written = written_params(kernel);
  struct Candidate {
    MemoryRegion* region;
    bool is_written;
  };
  std::vector<Candidate> order;
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (regions_[i] && regions_[i]->begin != regions_[i]->end)
      order.push_back({&*regions_[i], written.contains(kernel.params()[i].value)});
  for (auto& [name, region] : reachable_) order.push_back({&region, true});
  std::ranges::sort(order, {}, [](const Candidate& c) { return c.region->begin; });
  const auto address = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); };
  for (std::size_t first = 0, last; first < order.size(); first = last) {
    auto block = std::make_unique<ShadowBlock>();
    block->begin = address(order[first].region->begin);
    bool is_written = false;
    for (last = first; last < order.size(); ++last) {
      const MemoryRegion& r = *order[last].region;
      if (last > first && address(r.begin) >= block->end) break;
      block->end = std::max(block->end, address(r.end));
      is_written |= order[last].is_written;
      // Bytes of the smallest accessible element, if all elements have the same alignment.
      const auto size = static_cast<std::size_t>(size_bytes(r.dtype));
      block->granule = last == first ? size : std::gcd(block->granule, size);
      block->granule = std::gcd(block->granule, address(r.begin) - block->begin);
    }
    if (!is_written) continue;
    block->allocate();
    for (std::size_t i = first; i < last; ++i) order[i].region->shadow = block.get();
    blocks_.push_back(std::move(block));
  }
}

const MemoryRegion* Memory::owner(std::int64_t address) const {
  if (address >= kVirtual) {
    const auto i = static_cast<std::size_t>((address - kVirtual + kSpacing / 2) / kSpacing) - 1;
    return i < regions_.size() ? region_of_param(i) : nullptr;
  }
  for (const auto& r : regions_)
    if (r && address >= static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(r->begin)) &&
        address < static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(r->end)))
      return &*r;
  for (const auto& [name, r] : reachable_)
    if (address >= r.address && address < r.address + (r.end - r.begin)) return &r;
  return nullptr;
}

const MemoryRegion* Memory::holding(const std::byte* begin, const std::byte* end) const {
  const auto holds = [&](const MemoryRegion& r) { return r.begin <= begin && end <= r.end; };
  for (const auto& r : regions_)
    if (r && holds(*r)) return &*r;
  for (const auto& [name, r] : reachable_)
    if (holds(r)) return &r;
  return nullptr;
}

std::byte* Memory::resolve(std::int64_t address, std::size_t size,
                           const MemoryRegion*& region) const {
  region = owner(address);
  if (region == nullptr) return nullptr;
  const std::int64_t from =
      address >= kVirtual
          ? region->address
          : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(region->base));
  const std::int64_t offset = address - from;
  if (offset < region->begin - region->base) return nullptr;
  if (offset + static_cast<std::int64_t>(size) > region->end - region->base) return nullptr;
  return region->base + offset;
}

std::string Memory::describe(const MemoryRegion& region, std::int64_t address) const {
  const std::int64_t from =
      address >= kVirtual
          ? region.address
          : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(region.base));
  const std::int64_t bytes = address - from;
  const std::int64_t size = size_bytes(region.dtype);
  if (bytes % size != 0) return fmt::format("{} + {} bytes", region.name, bytes);
  const std::byte* element = region.base + bytes;
  if (region.tensor != nullptr && element >= region.begin && element < region.end)
    if (const auto index = index_of(*region.tensor, bytes / size))
      return fmt::format("{}[{}]", region.name, fmt::join(*index, ", "));
  return fmt::format("{}[{}]", region.name, bytes / size);
}

}  // namespace interp
}  // namespace tegula::ir
