// The launch recipe: the grid program and the argument block.
#include "runtime/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "support/quotients.h"
#include "tegula/error.h"

namespace tegula::runtime {

namespace {
constexpr std::uint32_t kTensorMapAlignment = 64;  // of a kernel parameter
}

using ir::AttrName;
using ir::Opcode;

/// Turns the ops of a launch region into steps.
struct GridCompiler {
  using Step = LaunchRecipe::Step;
  using Args = std::span<const LaunchArg>;
  using Fn = std::int64_t (*)(const Step&, const std::int64_t*, Args);
  struct Row {
    Opcode opcode;
    Fn fn;
  };
  static constexpr Row kRows[] = {
      {Opcode::Const, [](const Step& s, const std::int64_t*, Args) { return s.immediate; }},
      {Opcode::ViewDim,
       [](const Step& s, const std::int64_t*, Args a) { return a[s.arg].tensor->shape()[s.axis]; }},
      {Opcode::ViewStride, [](const Step& s, const std::int64_t*,
                              Args a) { return a[s.arg].tensor->strides()[s.axis]; }},
      {Opcode::Add, [](const Step& s, const std::int64_t* r, Args) { return r[s.a] + r[s.b]; }},
      {Opcode::Sub, [](const Step& s, const std::int64_t* r, Args) { return r[s.a] - r[s.b]; }},
      {Opcode::Mul, [](const Step& s, const std::int64_t* r, Args) { return r[s.a] * r[s.b]; }},
      {Opcode::Div, [](const Step& s, const std::int64_t* r,
                       Args) { return r[s.b] == 0 ? 0 : r[s.a] / r[s.b]; }},
      {Opcode::Rem, [](const Step& s, const std::int64_t* r,
                       Args) { return r[s.b] == 0 ? 0 : r[s.a] % r[s.b]; }},
      {Opcode::Min,
       [](const Step& s, const std::int64_t* r, Args) { return std::min(r[s.a], r[s.b]); }},
      {Opcode::Max,
       [](const Step& s, const std::int64_t* r, Args) { return std::max(r[s.a], r[s.b]); }},
      {Opcode::Cast, [](const Step& s, const std::int64_t* r, Args) { return r[s.a]; }},
  };

  const ir::Kernel& tile;
  LaunchRecipe& recipe;
  std::unordered_map<ir::Value, std::uint16_t> at{};

  std::uint8_t param_index(ir::Value v) const {
    for (std::size_t i = 0; i < tile.params().size(); ++i)
      if (tile.params()[i].value == v) return static_cast<std::uint8_t>(i);
    throw InternalError("launch region uses a value that is no parameter");
  }

  /// A scalar parameter enters as its integer value.
  std::uint16_t operand(ir::Value v) {
    if (const auto it = at.find(v); it != at.end()) return it->second;
    Step load;
    load.arg = param_index(v);
    load.op = [](const Step& s, const std::int64_t*, Args a) {
      return static_cast<std::int64_t>(static_cast<std::int32_t>(a[s.arg].bits));
    };
    if (size_bits(tile.type(v).dtype()) == 64)
      load.op = [](const Step& s, const std::int64_t*, Args a) {
        return static_cast<std::int64_t>(a[s.arg].bits);
      };
    return push(v, load);
  }
  std::uint16_t push(ir::Value v, const Step& s) {
    if (recipe.steps_.size() >= LaunchRecipe::kMaxSteps)
      throw InternalError("launch region is too long");
    recipe.steps_.push_back(s);
    return at[v] = static_cast<std::uint16_t>(recipe.steps_.size() - 1);
  }

  void op(ir::OpId id) {
    const ir::OpData& d = tile[id];
    if (d.opcode == Opcode::Yield) {
      for (std::size_t i = 0; i < 3; ++i) recipe.grid_[i] = operand(d.operands[i]);
      return;
    }
    const auto row = std::ranges::find(kRows, d.opcode, &Row::opcode);
    if (row == std::end(kRows))
      throw InternalError(fmt::format("launch region: {} is not evaluated on the host",
                                      ir::info(d.opcode).mnemonic));
    Step s;
    s.op = row->fn;
    if (d.opcode == Opcode::Const) s.immediate = d.attrs.i(AttrName::value);
    if (d.opcode == Opcode::ViewDim || d.opcode == Opcode::ViewStride) {
      s.arg = param_index(d.operands[0]);
      s.axis = static_cast<std::uint8_t>(d.attrs.i(AttrName::axis));
    } else {
      if (!d.operands.empty()) s.a = operand(d.operands[0]);
      if (d.operands.size() > 1) s.b = operand(d.operands[1]);
    }
    push(d.results[0], s);
  }
};

void LaunchRecipe::compile_grid(const ir::Kernel& tile) {
  GridCompiler compiler{tile, *this};
  for (ir::OpId op : tile.ops(tile.launch())) compiler.op(op);
}

std::uint8_t LaunchRecipe::add_map(const ir::AttrList& attrs, DType dtype,
                                   const std::string& tensor) {
  const auto order = attrs.ints(AttrName::order), box = attrs.ints(AttrName::box);
  if (order.size() > codegen::kMaxTensorRank || box.size() != order.size())
    throw InternalError("a tensor map of no possible rank");
  MapShape shape;
  shape.map.dtype = dtype;
  shape.map.rank = static_cast<std::int32_t>(order.size());
  shape.map.swizzle = static_cast<std::int32_t>(attrs.i(AttrName::swizzle));
  for (std::size_t d = 0; d < order.size(); ++d) {
    shape.order[d] = static_cast<std::uint8_t>(order[d]);
    shape.map.box[d] = static_cast<std::int32_t>(box[d]);
  }
  const auto clips = attrs.ints(AttrName::clip);
  for (std::size_t i = 0; i + 2 < clips.size(); i += 3) {
    const auto at = std::ranges::find(order, clips[i]) - order.begin();
    shape.clips.push_back({static_cast<std::size_t>(at), clips[i + 1], clips[i + 2]});
  }
  shape.encoded = std::make_unique<TensorMapCache>(tensor);
  maps_.push_back(std::move(shape));
  return static_cast<std::uint8_t>(maps_.size() - 1);
}

codegen::TensorMap LaunchRecipe::tensor_map(const Field& f, std::span<const LaunchArg> args) const {
  const MapShape& shape = maps_[f.map];
  const Tensor& tensor = *args[f.arg].tensor;
  codegen::TensorMap map = shape.map;
  map.base = tensor.data();
  for (int d = 0; d < map.rank; ++d) {
    const std::size_t axis = shape.order[static_cast<std::size_t>(d)];
    map.dims[d] = tensor.shape()[axis];
    map.strides[d] = tensor.strides()[axis] * size_bytes(map.dtype);
  }
  for (const Clip& clip : shape.clips) {
    const std::int64_t end = clip.arg < 0
                                 ? clip.value
                                 : args[static_cast<std::size_t>(clip.arg)]
                                       .tensor->shape()[static_cast<std::size_t>(clip.value)];
    map.dims[clip.dim] = std::min(map.dims[clip.dim], end);
  }
  return map;
}

namespace {

/// A kernel may come from the disk: what its parameter names is among the call's arguments.
void check_argument(const ir::Kernel& tile, const ir::Param& p, bool is_counter, bool has_axis) {
  if (is_counter) return;
  const std::int64_t arg = p.attrs.i(AttrName::arg), axis = p.attrs.i(AttrName::axis);
  const bool known = arg >= 0 && arg < std::ssize(tile.params());
  const ir::Type of =
      known ? tile.type(tile.params()[static_cast<std::size_t>(arg)].value) : ir::Type();
  if (!known || (has_axis && (!of.is_view() || axis < 0 || axis >= of.rank())))
    throw InternalError(fmt::format("parameter {} is of no argument", p.name));
}

}  // namespace

void LaunchRecipe::lay_out(const ir::Kernel& tile, const ir::Kernel& simt) {
  static constexpr std::pair<std::string_view, Part> kParts[] = {
      {"ptr", Part::Pointer}, {"dim", Part::Dim}, {"stride", Part::Stride},
      {"value", Part::Value}, {"map", Part::Map}, {"counter", Part::Counter}};
  for (const ir::Param& p : simt.params()) {
    const auto part = std::ranges::find(kParts, p.attrs.s(AttrName::part),
                                        &std::pair<std::string_view, Part>::first);
    if (part == std::end(kParts))
      throw InternalError(
          fmt::format("parameter {} has part '{}'", p.name, p.attrs.s(AttrName::part)));
    check_argument(tile, p, part->second == Part::Counter,
                   part->second == Part::Dim || part->second == Part::Stride);
    const auto arg = static_cast<std::uint8_t>(p.attrs.i(AttrName::arg));
    const ir::Type t = simt.type(p.value);
    if (part->second == Part::Map) {
      const ir::Param& tensor = tile.params()[arg];
      const DType dtype = tile.type(tensor.value).dtype();
      fields_.push_back(
          {Part::Map, arg, 0, dtype, layout_.add(sizeof(cu::TensorMap), kTensorMapAlignment),
           add_map(p.attrs, dtype,
                   fmt::format("argument {} of kernel {}", tensor.name, tile.info.name))});
      continue;
    }
    needs_counter_ = needs_counter_ || part->second == Part::Counter;
    const auto bytes = static_cast<std::uint32_t>(t.is_pointer() ? 8 : size_bytes(t.dtype()));
    fields_.push_back({part->second, arg, static_cast<std::uint8_t>(p.attrs.i(AttrName::axis)),
                       t.is_pointer() ? DType::u64 : t.dtype(), layout_.add(bytes, bytes)});
  }
}

LaunchRecipe LaunchRecipe::make(const ir::Kernel& tile, const ir::Kernel& simt) {
  LaunchRecipe r;
  r.compile_grid(tile);
  // The clusters of a persistent kernel share the tiles of its grid, and make no more of them.
  if (!simt.info.persistent) r.splits_ = simt.info.cluster / tile.info.cluster;
  r.lay_out(tile, simt);
  return r;
}

std::array<std::int64_t, 3> LaunchRecipe::grid(std::span<const LaunchArg> args) const {
  std::array<std::int64_t, kMaxSteps> registers;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    registers[i] = steps_[i].op(steps_[i], registers.data(), args);
  const std::int64_t programs = round_up(registers[grid_[0]] * splits_, cluster_);
  return {std::min(programs, most_programs_), registers[grid_[1]], registers[grid_[2]]};
}

std::int64_t LaunchRecipe::value(const Field& f, std::span<const LaunchArg> args,
                                 std::uint32_t* counter) const {
  if (f.part == Part::Counter)
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(counter));
  const LaunchArg& a = args[f.arg];
  if (f.part == Part::Dim) return a.tensor->shape()[f.axis];
  if (f.part == Part::Stride) return a.tensor->strides()[f.axis];
  if (f.part == Part::Pointer && a.tensor)
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(a.tensor->data()));
  return static_cast<std::int64_t>(a.bits);
}

namespace {

/// The driver refuses maps of empty tensors; no box of one is ever copied.
void write_map(const codegen::TensorMap& map, TensorMapCache& encoded, std::byte* to) {
  if (std::any_of(map.dims, map.dims + map.rank, [](std::int64_t d) { return d == 0; }))
    std::memset(to, 0, sizeof(cu::TensorMap));
  else
    encoded.get(map, to);
}

}  // namespace

void LaunchRecipe::pack(std::span<const LaunchArg> args, std::byte* block,
                        std::uint32_t* counter) const {
  for (const Field& f : fields_) {
    if (f.part == Part::Map) {
      write_map(tensor_map(f, args), *maps_[f.map].encoded, block + f.offset);
      continue;
    }
    const std::int64_t v = value(f, args, counter);
    std::memcpy(block + f.offset, &v,
                static_cast<std::size_t>(size_bytes(f.dtype)));  // little-endian: the low bytes
  }
}

std::vector<sim::SimArg> LaunchRecipe::sim_args(std::span<const LaunchArg> args,
                                                std::vector<codegen::TensorMap>& maps,
                                                std::uint32_t* counter) const {
  std::vector<sim::SimArg> out;
  maps.reserve(maps.size() + maps_.size());
  for (const Field& f : fields_) {
    if (f.part == Part::Map) {
      maps.push_back(tensor_map(f, args));
      out.emplace_back(&maps.back());
      continue;
    }
    const ir::Cell c = ir::from_bits(static_cast<std::uint64_t>(value(f, args, counter)), f.dtype);
    out.push_back(is_float(f.dtype) ? sim::SimArg(c.f) : sim::SimArg(c.i));
  }
  return out;
}

std::string LaunchRecipe::str() const {
  static constexpr const char* kNames[] = {"ptr", "dim", "stride", "value", "map", "counter"};
  std::string out = fmt::format("grid: {} steps{}\n", steps_.size(),
                                splits_ > 1 ? fmt::format(", {} programs each", splits_) : "");
  for (const Field& f : fields_)
    out += fmt::format("+{:<4} {} of argument {} axis {} as {}\n", f.offset,
                       kNames[static_cast<int>(f.part)], f.arg, f.axis, name(f.dtype));
  return out;
}

std::vector<ir::EvalArg> eval_args(const ir::Kernel& tile, std::span<const LaunchArg> args) {
  std::vector<ir::EvalArg> out;
  for (std::size_t i = 0; i < tile.params().size(); ++i) {
    const ir::Type t = tile.type(tile.params()[i].value);
    const LaunchArg& a = args[i];
    if (t.is_view() && !a.tensor) {  // left out: never touched
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
      const ByteRange range =
          a.tensor ? a.tensor->byte_range() : ByteRange{a.bits, a.bits + (std::uint64_t{1} << 40)};
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
