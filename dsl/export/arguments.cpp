#include "dsl/export/arguments.h"

#include <fmt/format.h>

#include <string>

#include "dsl/export/exported.h"
#include "runtime/storage.h"
#include "support/env.h"
#include "support/errors.h"

namespace tegula::c {
namespace {

using detail::Exported;
using detail::HostArg;
using detail::ParamKind;

static_assert(sizeof(DLTensor) == sizeof(dlpack::Tensor) &&
              offsetof(DLTensor, device) == offsetof(dlpack::Tensor, device) &&
              offsetof(DLTensor, ndim) == offsetof(dlpack::Tensor, ndim) &&
              offsetof(DLTensor, dtype) == offsetof(dlpack::Tensor, dtype) &&
              offsetof(DLTensor, shape) == offsetof(dlpack::Tensor, shape) &&
              offsetof(DLTensor, strides) == offsetof(dlpack::Tensor, strides) &&
              offsetof(DLTensor, byte_offset) == offsetof(dlpack::Tensor, byte_offset));

/// Placeholder address, aligned to 16 bytes. It is never dereferenced.
void* const kNowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40);

const char* kind_name(std::uint32_t kind) {
  static constexpr std::array kNames{"nothing", "a tensor", "an integer", "a float", "a pointer"};
  return kind < kNames.size() ? kNames[kind] : "of an unknown kind";
}

std::string text_of(const CalleeName& callee, const ExportParam& param) {
  return fmt::format("argument {} of {}", param.name, callee.name);
}

[[noreturn]] void refuse_kind(const CalleeName& callee, const ExportParam& param,
                              const TegulaArg& arg) {
  fail(ErrorId::export_kind, callee.loc, {}, text_of(callee, param), kind_name(arg.kind),
       kind_name(kind_of(param)));
}

/// Returns true if calls on tensors in host memory run in the simulator (TEGULA_DEVICE=sim). DLPack
/// has a single device for host memory, so the tensors cannot select it.
bool host_means_sim() {
  static const bool chosen = env().device == "sim";
  return chosen;
}

Tensor borrow_tensor(const DLTensor& given, Loc at) {
  const runtime::UnlistedScope of_call;
  Tensor t = Tensor::borrow(reinterpret_cast<const dlpack::Tensor&>(given), at);
  if (t.device() == Device::cpu() && host_means_sim())
    t = Tensor::borrow(t.data(), t.shape(), t.dtype(), Device::sim(), t.strides(), nullptr, at);
  return t;
}

/// The bits of a number of host type T, if it holds the value.
template <class T>
std::optional<std::uint64_t> bits_in(const TegulaArg& arg) {
  const std::optional<T> held = arg.kind == TEGULA_FLOAT ? detail::converted<T>(arg.value.f)
                                                         : detail::converted<T>(arg.value.i);
  return held ? std::optional(detail::bits_of(*held)) : std::nullopt;
}

HostArg number_arg(const CalleeName& callee, const ExportParam& param, const TegulaArg& arg) {
  const DType dtype = param.info.dtype;
  if (arg.kind != TEGULA_INT && !(arg.kind == TEGULA_FLOAT && is_float(dtype)))
    refuse_kind(callee, param, arg);
  const auto bits =
      visit_dtype(dtype, [&](auto type) { return bits_in<typename decltype(type)::type>(arg); });
  if (!bits)
    fail(ErrorId::export_range, callee.loc, {}, text_of(callee, param),
         arg.kind == TEGULA_FLOAT ? fmt::format("{}", arg.value.f) : fmt::format("{}", arg.value.i),
         name(dtype));
  if (param.info.kind == ParamKind::Constant)
    return {ParamKind::Constant, DType::i64, nullptr, *bits};
  return {ParamKind::Scalar, dtype, nullptr, *bits};
}

}  // namespace

std::span<const TegulaArg> args_of(const Exported& callee, const TegulaArg* args,
                                   std::int32_t count) {
  if (count < 0 || (count > 0 && !args))
    fail(ErrorId::export_array, callee.loc(), {}, callee.name(), count);
  return {args, static_cast<std::size_t>(count)};
}

void check_count(const CalleeName& callee, std::span<const ExportParam> params,
                 std::span<const TegulaArg> args) {
  std::size_t least = params.size();
  while (least > 0 && params[least - 1].info.optional) --least;
  if (args.size() > params.size() || args.size() < least)
    fail(ErrorId::export_count, callee.loc, {}, callee.name, params.size(), args.size());
}

Arguments::Arguments(const CalleeName& callee, std::span<const ExportParam> params,
                     std::span<const TegulaArg> args, bool may_lack_memory) {
  check_count(callee, params, args);
  tensors_.reserve(params.size());  // pointers to them must stay valid
  host_.reserve(params.size());
  const auto borrow = [&](const ExportParam& param, const TegulaArg& arg) {
    if (!arg.value.tensor) fail(ErrorId::export_null, callee.loc, {}, text_of(callee, param));
    DLTensor given = *arg.value.tensor;
    if (may_lack_memory && given.data == nullptr) given.data = kNowhere;
    return &tensors_.emplace_back(borrow_tensor(given, callee.loc));
  };
  for (std::size_t i = 0; i < params.size(); ++i) {
    const ExportParam& param = params[i];
    const TegulaArg arg = i < args.size() ? args[i] : TegulaArg{};
    const DType dtype = param.info.dtype;
    const TegulaKind kind = kind_of(param);
    if (kind == TEGULA_TENSOR) {
      const bool is_left_out = arg.kind == TEGULA_NONE && param.info.optional;
      if (arg.kind != TEGULA_TENSOR && !is_left_out) refuse_kind(callee, param, arg);
      host_.push_back({ParamKind::View, dtype, is_left_out ? nullptr : borrow(param, arg),
                       is_left_out ? 0u : 1u});
    } else if (kind == TEGULA_POINTER) {
      if (arg.kind != TEGULA_POINTER && arg.kind != TEGULA_TENSOR) refuse_kind(callee, param, arg);
      const Tensor* tensor = arg.kind == TEGULA_TENSOR ? borrow(param, arg) : nullptr;
      const void* address = tensor ? tensor->data() : arg.value.pointer;
      host_.push_back({ParamKind::Pointer, dtype, tensor, detail::bits_of(address)});
    } else {
      host_.push_back(number_arg(callee, param, arg));
    }
  }
}

Device Arguments::device() const {
  return tensors_.empty() ? Device::best() : tensors_.front().device();
}

}  // namespace tegula::c
