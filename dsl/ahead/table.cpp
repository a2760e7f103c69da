#include "dsl/ahead/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "dsl/instance.h"
#include "support/errors.h"

namespace tegula::dsl {
namespace {

bool serves_dimension(const ArgClass& made, const ArgClass& given, std::size_t axis) {
  const DimClass &m = made.dims[axis], &g = given.dims[axis];
  if (g.div % m.div != 0 || g.stride_div % m.stride_div != 0) return false;
  if (m.unit_stride && !g.unit_stride) return false;
  const std::int64_t extent = given.sample[axis];
  if (m.fixed >= 0 && extent != m.fixed) return false;
  return m.bucket < 0 || bucket_of(extent) == m.bucket;
}

bool serves_argument(const ArgClass& made, const ArgClass& given) {
  if (made.absent != given.absent || made.empty != given.empty) return false;
  if (made.info.kind != given.info.kind || made.info.dtype != given.info.dtype) return false;
  if (given.align % made.align != 0) return false;
  if (made.info.kind != ParamKind::View || made.absent) return true;
  if (made.info.rank != given.info.rank) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(made.info.rank); ++i)
    if (!serves_dimension(made, given, i)) return false;
  return true;
}

/// The more a kernel takes for granted, the faster it is.
int special_facts(const AheadClass& of) {
  int facts = of.is_wide ? 0 : 1;
  for (const ArgClass& a : of.args) {
    facts += a.align;
    for (const DimClass& d : a.dims)
      facts += d.div + d.stride_div + (d.unit_stride ? 16 : 0) + (d.fixed >= 0 ? 64 : 0) +
               (d.bucket >= 0 ? 32 : 0);
  }
  return facts;
}

}  // namespace

bool serves(const AheadClass& made, const AheadClass& given) {
  if (made.constants != given.constants || made.args.size() != given.args.size()) return false;
  if (given.is_wide && !made.is_wide) return false;
  for (std::size_t i = 0; i < made.args.size(); ++i)
    if (!serves_argument(made.args[i], given.args[i])) return false;
  return true;
}

AheadClass class_of(std::span<const HostArg> args, const AheadCallable& callable) {
  AheadClass out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ParamInfo& info = callable.params[i].info;
    if (info.kind == ParamKind::Constant) {
      out.constants.push_back(args[i].bits);
      continue;
    }
    check_argument({callable.name, {}, {}}, i, args[i], info);
    out.args.push_back(classify(args[i], info));
    out.is_wide |= args[i].tensor != nullptr && needs_wide_index(*args[i].tensor);
  }
  return out;
}

void AheadTable::add(const std::string& name, std::span<const ExportParam> params,
                     KernelInstance& kernel, std::string_view target,
                     std::span<const HostArg> args) {
  Signature signature = kernel.trace(kernel.signature(args)).signature;
  if (const std::size_t captured = kernel.known().captures.size(); captured > 0)
    fail(ErrorId::kernel_argument, kernel.loc(), {}, name, "what it captures",
         fmt::format("{} Scalars or Tensors", captured),
         "them as arguments: a table of kernels holds none");
  std::vector<Warning> warnings;
  auto compiled = kernel.launcher.compiled_for_target(kernel, target, args, kernel.loc(), warnings);
  auto at = std::ranges::find(callables_, name, &AheadCallable::name);
  if (at == callables_.end()) at = callables_.insert(at, {name, {params.begin(), params.end()}});
  kernels_.push_back({static_cast<std::size_t>(at - callables_.begin()),
                      {std::move(signature.args), std::move(signature.constants),
                       signature.index_type == DType::i64},
                      std::move(compiled)});
  std::ranges::stable_sort(kernels_, std::greater(),
                           [](const AheadKernel& k) { return special_facts(k.of); });
}

const AheadCallable& AheadTable::callable(std::string_view name) const {
  const auto at = std::ranges::find(callables_, name, &AheadCallable::name);
  if (at == callables_.end())
    fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", name, "none of its callables",
         "a name that `tegula aot` has listed");
  return *at;
}

int AheadTable::find(const AheadCallable& callable, std::span<const HostArg> args) const {
  const AheadClass given = class_of(args, callable);
  const auto number = static_cast<std::size_t>(&callable - callables_.data());
  for (std::size_t i = 0; i < kernels_.size(); ++i)
    if (kernels_[i].callable == number && serves(kernels_[i].of, given)) return static_cast<int>(i);
  return -1;
}

}  // namespace tegula::dsl
