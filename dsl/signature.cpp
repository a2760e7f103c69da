// Arguments -> classes -> key. A class contains only the facts that the compiler may rely on, so
// that lengths may vary without recompilation.
#include "dsl/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dsl/at_kernel.h"
#include "dsl/errors.h"
#include "runtime/records.h"

namespace tegula::dsl {
namespace {

/// Returns the distance in elements between the first and the last element, or the largest extent
/// if that is larger.
std::int64_t span_of(const Tensor& t) {
  std::int64_t span = 0, largest = 0;
  for (std::size_t i = 0; i < t.shape().size(); ++i) {
    span += std::max<std::int64_t>(t.shape()[i] - 1, 0) * std::abs(t.strides()[i]);
    largest = std::max(largest, t.shape()[i]);
  }
  return std::max(span, largest);
}

}  // namespace

bool needs_wide_index(const Tensor& t) { return span_of(t) >= kSmallSpan; }

std::string Callee::argument(std::size_t position) const {
  if (position >= params) return fmt::format("a tensor captured by {}", kernel);
  if (position < names.size())
    return fmt::format("argument {} of {}", names[position].name, kernel);
  return fmt::format("argument {} of {}", position, kernel);
}

void check_argument(const Callee& callee, std::size_t position, const HostArg& arg,
                    const ParamInfo& info) {
  // An argument without a tensor is a number, an address or a view that the call omits.
  if (!arg.tensor) return;
  const Tensor& t = *arg.tensor;
  const bool is_view = info.kind == ParamKind::View;
  if (!t.defined()) [[unlikely]]
    fail(ErrorId::argument_undefined, place_of_call(callee.loc), {}, callee.argument(position));
  if (is_view && t.rank() != info.rank) [[unlikely]]
    fail(ErrorId::argument_rank, place_of_call(callee.loc), {}, callee.argument(position), t.rank(),
         info.rank);
  if (t.dtype() != info.dtype) [[unlikely]]
    fail(ErrorId::argument_type, place_of_call(callee.loc), {}, callee.argument(position),
         name(t.dtype()), name(info.dtype));
  if (!is_view && !t.is_contiguous()) [[unlikely]]
    fail(ErrorId::pointer_strides, place_of_call(callee.loc), {}, callee.argument(position));
}

std::int64_t bucket_of(std::int64_t extent) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1))));
}

ArgClass classify(const HostArg& arg, const ParamInfo& info) {
  ArgClass c;
  c.info = info;
  if (info.kind == ParamKind::Scalar) return c;
  static_cast<MemoryClass&>(c) = MemoryClass::of(arg);
  if (info.kind != ParamKind::View || c.absent) return c;
  c.sample = arg.tensor->shape();
  for (std::size_t i = 0; i < c.sample.size(); ++i)
    c.dims[i] = DimClass::of(c.sample[i], arg.tensor->strides()[i]);
  return c;
}

DType index_type_of(std::span<const HostArg> args) {
  for (const HostArg& a : args)
    if (a.tensor && needs_wide_index(*a.tensor)) return DType::i64;
  return DType::i32;
}

void apply_request(const SpecializationRequest& request, ArgClass& arg) {
  const auto axis = static_cast<std::size_t>(request.axis);
  if (axis < arg.sample.size()) arg.dims[axis].apply(request.key, arg.sample[axis]);
}

Signature signature_of(const Callee& callee, std::span<const HostArg> args,
                       std::span<const ParamInfo> params, const Specialization& known) {
  Signature s;
  std::vector<HostArg> run_time;
  for (std::size_t i = 0; i < args.size(); ++i) {
    check_argument(callee, i, args[i], params[i]);
    if (params[i].kind == ParamKind::Constant) {
      s.constants.push_back(args[i].bits);
    } else {
      s.args.push_back(classify(args[i], params[i]));
      run_time.push_back(args[i]);
    }
  }
  for (const Capture& c : known.captures) {
    run_time.push_back(c.read());
    check_argument(callee, params.size(), run_time.back(), c.info);
    s.args.push_back(classify(run_time.back(), c.info));
  }
  for (const SpecializationRequest& r : known.requests)
    if (r.arg < s.args.size()) apply_request(r, s.args[r.arg]);
  s.index_type = index_type_of(run_time);
  return s;
}

void Specialization::add(const SpecializationRequest& request) {
  if (std::ranges::find(requests, request) != requests.end()) return;
  requests.push_back(request);
  if (request.key != ExtentKey::Any && request.key != ExtentKey::AnyStride) return;
  auto& bits = request.key == ExtentKey::Any ? any_extents : any_strides;
  bits.resize(std::max<std::size_t>(bits.size(), request.arg + 1));
  bits[request.arg] |= static_cast<std::uint8_t>(1 << request.axis);
}

HostArg Capture::read() const {
  if (is_records) return {ParamKind::Pointer, DType::u32, nullptr, runtime::record_buffer()};
  if (cell) return {ParamKind::Scalar, cell->dtype, nullptr, cell->bits};
  return {ParamKind::View, info.dtype, tensor ? tensor : &copy, 0};
}

std::string Signature::text() const {
  static constexpr std::string_view kAccess[] = {"in", "out", "inout"};
  std::string out = fmt::format("index {}\n", name(index_type));
  for (std::uint64_t c : constants) out += fmt::format("constant {:#x}\n", c);
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgClass& a = args[i];
    if (a.info.kind == ParamKind::Scalar) {
      out += fmt::format("arg{} scalar {}\n", i, name(a.info.dtype));
    } else if (a.info.kind == ParamKind::Pointer) {
      out += fmt::format("arg{} pointer {} align {}\n", i, name(a.info.dtype), a.align);
    } else {
      out += fmt::format("arg{} {} {} align {}{}", i, kAccess[static_cast<int>(a.info.access)],
                         name(a.info.dtype), a.align,
                         a.absent  ? " absent"
                         : a.empty ? " empty"
                                   : "");
      for (int d = 0; d < a.info.rank; ++d) {
        const DimClass& c = a.dims[static_cast<std::size_t>(d)];
        const std::string stride = c.unit_stride ? "1" : fmt::format("{}n", c.stride_div);
        const std::string extent = c.fixed >= 0    ? fmt::format("{}", c.fixed)
                                   : c.bucket >= 0 ? fmt::format("{}n <= {}", c.div, c.bucket)
                                                   : fmt::format("{}n", c.div);
        out += fmt::format(" [{} by {}]", extent, stride);
      }
      out += '\n';
    }
  }
  return out;
}

ir::Type type_of(const ArgClass& arg) {
  if (arg.info.kind == ParamKind::Scalar) return ir::Type::scalar(arg.info.dtype);
  if (arg.info.kind == ParamKind::Pointer) return ir::Type::pointer(arg.info.dtype);
  std::vector<std::int64_t> shape;
  ir::ViewFacts facts;
  for (int i = 0; i < arg.info.rank; ++i) {
    const DimClass& d = arg.dims[static_cast<std::size_t>(i)];
    shape.push_back(d.fixed >= 0 ? d.fixed : ir::kDynamic);
    facts.strides.push_back(d.unit_stride ? 1 : ir::kDynamic);
    facts.dim_div.push_back(d.div);
    facts.stride_div.push_back(d.stride_div);
  }
  facts.align = arg.align;
  facts.access = static_cast<ir::Access>(arg.info.access);
  return ir::Type::view(arg.info.dtype, shape, std::move(facts));
}

}  // namespace tegula::dsl
