// The callables of `tegula.kernels`: kernels of the library, exported for Python.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/export.h>
#include <tegula/kernels/masks.h>
#include <tegula/kernels/matmul.h>
#include <tegula/kernels/norm.h>
#include <tegula/kernels/softmax.h>
#include <tegula/tegula.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

using namespace tegula;
using namespace tegula::kernels;

namespace {

using detail::HostArg;
using detail::ParamKind;
using detail::ViewAccess;
using Args = std::span<const HostArg>;

ExportParam view(const char* name, const char* dims, ViewAccess access) {
  const int rank = 1 + static_cast<int>(std::ranges::count(std::string_view(dims), ' '));
  return {.info = {ParamKind::View, DType::bf16, rank, access},
          .any_dtype = true,
          .name = name,
          .dims = dims};
}

/// Returns a tensor parameter. All of them have one element type, which the caller chooses.
ExportParam input(const char* name, const char* dims) { return view(name, dims, ViewAccess::In); }
ExportParam output(const char* name, const char* dims) { return view(name, dims, ViewAccess::Out); }

ExportParam optional(ExportParam p) {
  p.info.optional = true;
  return p;
}

/// Returns a parameter of type f32 and shape [M].
ExportParam row_numbers(const char* name, ViewAccess access, bool optional) {
  return {.info = {ParamKind::View, DType::f32, 1, access, optional}, .name = name, .dims = "M"};
}

ExportParam number(const char* name) {
  return {.info = {ParamKind::Scalar, DType::f32}, .name = name};
}

/// Returns the tensor of an argument; undefined if it is left out.
Tensor tensor_in(const HostArg& arg) { return arg.tensor ? *arg.tensor : Tensor(); }

float value_of(const HostArg& arg) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(arg.bits));
}

/// c = a b.
Exportable matmul_export() {
  return {{input("a", "M K"), input("b", "K N"), output("c", "M N")},
          [](const Stream& stream, Args args, Loc at) {
            matmul(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor, {}, at);
          }};
}

/// grad_a = grad_c b^T, grad_b = a^T grad_c; either may be left out.
Exportable matmul_backward_export() {
  return {{input("grad_c", "M N"), input("a", "M K"), input("b", "K N"),
           optional(output("grad_a", "M K")), optional(output("grad_b", "K N"))},
          [](const Stream& stream, Args args, Loc at) {
            const Tensor& grad_c = *args[0].tensor;
            if (args[3].tensor)
              matmul(stream, grad_c, args[2].tensor->transpose(0, 1), *args[3].tensor, {}, at);
            if (args[4].tensor)
              matmul(stream, args[1].tensor->transpose(0, 1), grad_c, *args[4].tensor, {}, at);
          }};
}

Exportable softmax_export() {
  return {{input("x", "M N"), output("y", "M N")}, [](const Stream& stream, Args args, Loc at) {
            softmax(stream, *args[0].tensor, *args[1].tensor, at);
          }};
}

Exportable softmax_backward_export() {
  return {{input("grad_y", "M N"), input("y", "M N"), output("grad_x", "M N")},
          [](const Stream& stream, Args args, Loc at) {
            softmax_backward(stream, *args[1].tensor, *args[0].tensor, *args[2].tensor, at);
          }};
}

/// y = x / sqrt(mean(x^2) + epsilon) * weight of each row; rstd receives the factor of each row.
Exportable rms_norm_export() {
  return {{input("x", "M N"), input("weight", "N"), number("epsilon"), output("y", "M N"),
           row_numbers("rstd", ViewAccess::Out, true)},
          [](const Stream& stream, Args args, Loc at) {
            rms_norm(stream, *args[0].tensor, *args[1].tensor, *args[3].tensor, value_of(args[2]),
                     {.rstd = tensor_in(args[4])}, at);
          }};
}

Exportable rms_norm_backward_export() {
  return {{input("grad_y", "M N"), input("x", "M N"), input("weight", "N"),
           row_numbers("rstd", ViewAccess::In, false), output("grad_x", "M N"),
           optional(output("grad_weight", "N"))},
          [](const Stream& stream, Args args, Loc at) {
            rms_norm_backward(
                stream, {.x = *args[1].tensor, .weight = *args[2].tensor, .rstd = *args[3].tensor},
                *args[0].tensor, {.x = *args[4].tensor, .weight = tensor_in(args[5])}, {}, at);
          }};
}

const Attention& full() {
  static const Attention made{AttentionSpec{}};
  return made;
}
const Attention& causal() {
  static const Attention made{{.mask = masks::causal()}};
  return made;
}

}  // namespace

TEGULA_EXPORT(matmul, matmul_export());
TEGULA_EXPORT(matmul_backward, matmul_backward_export());
TEGULA_EXPORT_BACKWARD(matmul, matmul_backward, "a b");
TEGULA_EXPORT(softmax, softmax_export());
TEGULA_EXPORT(softmax_backward, softmax_backward_export());
TEGULA_EXPORT_BACKWARD(softmax, softmax_backward, "y");
TEGULA_EXPORT(rms_norm, rms_norm_export());
TEGULA_EXPORT(rms_norm_backward, rms_norm_backward_export());
TEGULA_EXPORT_BACKWARD(rms_norm, rms_norm_backward, "x weight rstd");
TEGULA_EXPORT(attention, full());
TEGULA_EXPORT(attention_backward, attention_backward(full()));
TEGULA_EXPORT_BACKWARD(attention, attention_backward, kAttentionSaved);
TEGULA_EXPORT(causal_attention, causal());
TEGULA_EXPORT(causal_attention_backward, attention_backward(causal()));
TEGULA_EXPORT_BACKWARD(causal_attention, causal_attention_backward, kAttentionSaved);
TEGULA_EXPORT(paged_attention, paged_attention(causal()));
TEGULA_EXPORT(append, kv_append());
