#include "runtime/launch_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/records.h"
#include "runtime/storage.h"
#include "support/errors.h"
#include "tegula/int_math.h"

namespace tegula::runtime {
namespace {

std::uint64_t bits(std::int64_t v) { return static_cast<std::uint64_t>(v); }
std::int64_t wrapped(std::uint64_t v) { return static_cast<std::int64_t>(v); }
/// Returns 0 for a division by zero, as the kernel itself does.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(0 - bits(a)) : a / b;
}
std::int64_t remainder(std::int64_t a, std::int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

using StepFn = std::int64_t (*)(const GridStep&, const std::int64_t*, std::span<const LaunchArg>);
constexpr StepFn kStepFns[] = {
#define TEGULA_GRID_OP(name, value)                                                               \
  [](const GridStep& s, const std::int64_t* r, std::span<const LaunchArg> args) -> std::int64_t { \
    (void)s, (void)r, (void)args;                                                                 \
    return value;                                                                                 \
  },
#include "runtime/grid_ops.def"
#undef TEGULA_GRID_OP
};

/// If the last axis repeats an earlier one, the kernel ends its boxes: the earlier dimension
/// becomes the rows of one box, the last one those of the tensor, and the base moves one box before
/// the tensor (docs/wgmma-pipeline.md). An empty tensor stays empty.
void end_boxes(const MapShape& shape, codegen::TensorMap& map) {
  const auto last = shape.order.begin() + (map.rank - 1);
  const auto ended = std::find(shape.order.begin(), last, *last) - shape.order.begin();
  if (ended == map.rank - 1 || map.dims[ended] == 0) return;
  const std::int64_t rows = map.box[ended];
  map.dims[ended] = rows;
  map.dims[map.rank - 1] += 1;
  map.base = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(map.base) -
                                     bits(rows * map.strides[ended]));
}

codegen::TensorMap tensor_map(const LaunchRecipe& recipe, const MachineArg& a,
                              std::span<const LaunchArg> args) {
  const MapShape& shape = recipe.maps[a.map];
  const Tensor& tensor = *args[a.arg].tensor;
  codegen::TensorMap map = shape.map;
  map.base = tensor.data();
  for (int d = 0; d < map.rank; ++d) {
    const std::size_t axis = shape.order[static_cast<std::size_t>(d)];
    map.dims[d] = tensor.shape()[axis];
    map.strides[d] = tensor.strides()[axis] * size_bytes(map.dtype);
  }
  for (const MapBound& bound : shape.bounds) {
    const std::int64_t end = bound.arg < 0
                                 ? bound.value
                                 : args[static_cast<std::size_t>(bound.arg)]
                                       .tensor->shape()[static_cast<std::size_t>(bound.value)];
    map.dims[bound.dim] = std::min(map.dims[bound.dim], end);
  }
  end_boxes(shape, map);
  return map;
}

std::int64_t value_of(const MachineArg& m, std::span<const LaunchArg> args,
                      std::uint32_t* counter) {
  if (m.component == ArgComponent::counter)
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(counter));
  const LaunchArg& a = args[m.arg];
  if (m.component == ArgComponent::dim) return a.tensor->shape()[m.axis];
  if (m.component == ArgComponent::stride) return a.tensor->strides()[m.axis];
  if (m.component == ArgComponent::pointer && a.tensor)
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(a.tensor->data()));
  return static_cast<std::int64_t>(a.bits);
}

/// Writes the encoded map. For an empty tensor writes zeros: the driver rejects such maps, and no
/// box of such a tensor is ever copied.
void write_map(const codegen::TensorMap& map, TensorMapCache& encoded, std::byte* to) {
  if (std::any_of(map.dims, map.dims + map.rank, [](std::int64_t d) { return d == 0; }))
    std::memset(to, 0, sizeof(cu::TensorMap));
  else
    encoded.get(map, to);
}

}  // namespace

std::array<std::int64_t, 3> grid_of(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                    std::int64_t max_ctas) {
  std::array<std::int64_t, LaunchRecipe::kMaxSteps> values;
  for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
    const GridStep& s = recipe.steps[i];
    values[i] = kStepFns[static_cast<std::size_t>(s.op)](s, values.data(), args);
  }
  // A persistent kernel counts its tiles in 32 bits. A number of programs that exceeds that is not
  // clamped, so that the launch rejects it.
  std::int64_t ctas = values[recipe.grid[0]];
  if (ctas >= 0 && ctas <= ir::kMaxPrograms[0])
    ctas = std::min(round_up(ctas, recipe.cluster), max_ctas);
  return {ctas, values[recipe.grid[1]], values[recipe.grid[2]]};
}

namespace {

/// Throws CompileError if an extent of the grid is divided by 0, which evaluates to 0.
void refuse_division_by_zero(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                             const std::string& kernel) {
  std::array<std::int64_t, LaunchRecipe::kMaxSteps> values;
  for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
    const GridStep& s = recipe.steps[i];
    if ((s.op == GridOp::div || s.op == GridOp::rem) && values[s.b] == 0)
      fail(ErrorId::grid_by_zero, {}, {}, kernel);
    values[i] = kStepFns[static_cast<std::size_t>(s.op)](s, values.data(), args);
  }
}

}  // namespace

std::array<unsigned, 3> checked_grid(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                     std::int64_t max_ctas, const std::string& kernel) {
  const std::array<std::int64_t, 3> grid = grid_of(recipe, args, max_ctas);
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) [[unlikely]]
    refuse_division_by_zero(recipe, args, kernel);
  for (int i = 0; i < 3; ++i)
    if (grid[i] < 0 || grid[i] > ir::kMaxPrograms[i]) [[unlikely]]
      fail(ErrorId::grid_too_large, {}, {}, kernel, grid[i], i, ir::kMaxPrograms[i]);
  return {static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
          static_cast<unsigned>(grid[2])};
}

EncodedMaps encoded_maps(const LaunchRecipe& recipe, const std::string& kernel) {
  EncodedMaps maps;
  for (const MapShape& m : recipe.maps)
    maps.push_back(std::make_unique<TensorMapCache>(
        fmt::format("argument {} of kernel {}", m.tensor, kernel)));
  return maps;
}

void pack(const LaunchRecipe& recipe, std::span<const LaunchArg> args, const EncodedMaps& encoded,
          std::byte* block, std::uint32_t* counter) {
  for (const MachineArg& a : recipe.args) {
    if (a.component == ArgComponent::map) {
      write_map(tensor_map(recipe, a, args), *encoded[a.map], block + a.offset);
      continue;
    }
    const std::int64_t v = value_of(a, args, counter);
    std::memcpy(block + a.offset, &v,
                static_cast<std::size_t>(size_bytes(a.dtype)));  // little-endian: the low bytes
  }
}

std::vector<sim::SimArg> sim_args(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                  std::vector<codegen::TensorMap>& maps, std::uint32_t* counter) {
  std::vector<sim::SimArg> out;
  maps.reserve(maps.size() + recipe.maps.size());
  for (const MachineArg& a : recipe.args) {
    if (a.component == ArgComponent::map) {
      maps.push_back(tensor_map(recipe, a, args));
      out.emplace_back(&maps.back());
      continue;
    }
    const ir::Cell c =
        ir::from_bits(static_cast<std::uint64_t>(value_of(a, args, counter)), a.dtype);
    out.push_back(is_float(a.dtype) ? sim::SimArg(c.f) : sim::SimArg(c.i));
  }
  return out;
}

namespace {

/// Returns the bytes that a pointer may access: the tensor that it was made from, or the live
/// tensor memory, or else the tensor among `all` arguments, that contains the address. Returns an
/// empty range for any other address.
ByteRange range_of_pointer(const LaunchArg& a, std::span<const LaunchArg> all) {
  if (is_record_buffer(a.bits)) return {a.bits, a.bits + 4 * std::uint64_t{kRecordWords}};
  if (a.tensor) return a.tensor->byte_range();
  if (const auto memory = host_memory_of(a.bits))
    return {memory->begin, memory->begin + memory->bytes};
  for (const LaunchArg& other : all) {
    const ByteRange range = other.tensor ? other.tensor->byte_range() : ByteRange{};
    if (range.begin <= a.bits && a.bits < range.end) return range;
  }
  return {a.bits, a.bits};
}

}  // namespace

std::vector<ir::EvalArg> eval_args(const ir::Kernel& tile, std::span<const LaunchArg> args) {
  std::vector<ir::EvalArg> out;
  for (std::size_t i = 0; i < tile.params().size(); ++i) {
    const ir::Type t = tile.type(tile.params()[i].value);
    const LaunchArg& a = args[i];
    if (t.is_view() && !a.tensor) {  // omitted argument: never accessed
      out.emplace_back(ir::TensorArg{nullptr, ir::Ints(t.shape().size(), 0),
                                     ir::Ints(t.shape().size(), 1), t.dtype()});
    } else if (t.is_view()) {
      ir::TensorArg tensor{a.tensor->data(), {}, {}, t.dtype()};
      tensor.dims.assign(a.tensor->shape().begin(), a.tensor->shape().end());
      tensor.strides.assign(a.tensor->strides().begin(), a.tensor->strides().end());
      out.emplace_back(std::move(tensor));
    } else if (t.is_pointer()) {
      ir::PointerArg p;
      p.base = a.tensor ? a.tensor->data() : reinterpret_cast<void*>(a.bits);
      const ByteRange range = range_of_pointer(a, args);
      p.begin = reinterpret_cast<void*>(range.begin);
      p.end = reinterpret_cast<void*>(range.end);
      out.emplace_back(p);
    } else {
      out.emplace_back(ir::from_bits(a.bits, t.dtype()));
    }
  }
  return out;
}

}  // namespace tegula::runtime
