// Infers the outputs of a call from its inputs, by the names of dimensions.
#include <tegula.h>

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "dsl/export/arguments.h"
#include "dsl/export/dimensions.h"
#include "dsl/export/exported.h"
#include "dsl/export/failure.h"
#include "support/errors.h"
#include "support/text.h"

using namespace tegula;

namespace {

std::vector<std::string_view> dims_of(const ExportParam& param) {
  return param.dims.empty() ? std::vector<std::string_view>{} : split(param.dims, ' ');
}

/// Facts about a call's outputs that follow from its inputs.
struct Known {
  c::Extents extents;
  const DLTensor* first = nullptr;     ///< its device is the device of the call
  const DLTensor* any_type = nullptr;  ///< the first whose parameter accepts any element type

  void add(const ExportParam& param, const DLTensor& tensor) {
    if (!first) first = &tensor;
    if (!any_type && param.any_dtype) any_type = &tensor;
    const auto dims = dims_of(param);
    if (dims.size() == static_cast<std::size_t>(tensor.ndim))
      for (std::size_t i = 0; i < dims.size(); ++i) extents.emplace(dims[i], tensor.shape[i]);
  }
};

bool is_output(const ExportParam& param) {
  return param.info.kind == detail::ParamKind::View && param.info.access == detail::ViewAccess::Out;
}

void describe(const detail::Exported& callee, std::size_t number, const Known& known,
              DLTensor& out) {
  const ExportParam& param = callee.callable().params[number];
  const TegulaParam& shown = callee.signature().params[number];
  const auto dims = dims_of(param);
  if (!known.first || dims.size() != static_cast<std::size_t>(param.info.rank) ||
      (param.any_dtype && !known.any_type))
    fail(ErrorId::export_infer, callee.loc(), {}, param.name, callee.name());
  out.device = known.first->device;
  out.dtype = param.any_dtype ? known.any_type->dtype : shown.dtype;
  out.ndim = param.info.rank;
  out.strides = nullptr;
  out.byte_offset = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto extent = c::extent_of(dims[i], known.extents);
    if (!extent) fail(ErrorId::export_infer, callee.loc(), {}, param.name, callee.name());
    out.shape[i] = *extent;
  }
}

}  // namespace

TegulaCode tegula_infer(const TegulaCallable* callable, const TegulaArg* args, std::int32_t count,
                        DLTensor* out, std::int32_t outs) {
  return c::guarded([&] {
    const detail::Exported& callee = c::checked(callable);
    const auto given = c::args_of(callee, args, count);
    c::check_count(callee, given);
    const auto& params = callee.callable().params;
    Known known;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i].kind == TEGULA_TENSOR && given[i].value.tensor && !is_output(params[i]))
        known.add(params[i], *given[i].value.tensor);
    std::int32_t next = 0;
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!is_output(params[i])) continue;
      if (next == outs || !out) fail(ErrorId::export_outs, callee.loc(), {}, callee.name(), outs);
      describe(callee, i, known, out[next++]);
    }
    if (next != outs) fail(ErrorId::export_outs, callee.loc(), {}, callee.name(), outs);
  });
}
