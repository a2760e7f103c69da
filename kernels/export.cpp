#include "tegula/kernels/export.h"

namespace tegula {
namespace {

using detail::HostArg;
using detail::ParamInfo;
using detail::ParamKind;
using detail::ViewAccess;

ExportParam tensor(const char* name, const char* dims, ViewAccess access = ViewAccess::In) {
  return {.info = {ParamKind::View, DType::bf16, 4, access},
          .any_dtype = true,
          .name = name,
          .dims = dims};
}

}  // namespace

Exportable exportable(const Attention& attention) {
  Exportable out;
  out.params = {tensor("q", "B H Q D"), tensor("k", "B G K D"), tensor("v", "B G K E"),
                tensor("o", "B H Q E", ViewAccess::Out),
                ExportParam{.info = {ParamKind::View, DType::f32, 3, ViewAccess::Out, true},
                            .name = "lse",
                            .dims = "B H Q"}};
  out.call = [attention](const Stream& stream, std::span<const HostArg> args, Loc at) {
    AttentionExtras extras;
    if (args[4].tensor) extras.lse = *args[4].tensor;
    attention(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor, *args[3].tensor, extras,
              at);
  };
  return out;
}

}  // namespace tegula
