#include "dsl/ahead/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "dsl/ahead/call_recording.h"
#include "dsl/instance.h"
#include "support/errors.h"
#include "support/text.h"
#include "tegula/prepare.h"

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
  if (made.absent) return true;
  if (made.info.rank != given.info.rank) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(made.info.rank); ++i)
    if (!serves_dimension(made, given, i)) return false;
  return true;
}

/// Returns the number of facts that a kernel relies on: the more facts, the faster the kernel.
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

/// Returns the strides, with 0 along dimensions of one element, where they are irrelevant.
Dims strides_of(const Tensor& t) {
  Dims strides = t.strides();
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (t.shape()[i] == 1) strides[i] = 0;
  return strides;
}

/// Adds the extents of the tensor passed as an address, because a callable may base decisions on
/// them.
void add_extents(ArgClass& address, const Tensor* tensor) {
  address.absent = tensor == nullptr || !tensor->defined();
  if (address.absent) return;
  address.info.rank = tensor->rank();
  address.sample = tensor->shape();
}

/// Returns a parameter with the names of its dimensions: "x[M, N]".
std::string text_of(const ExportParam& p) {
  return fmt::format("{}[{}]", p.name, fmt::join(split(p.dims, ' '), ", "));
}

void check_equal_dims(std::span<const HostArg> args, const AheadCallable& callable) {
  for (const EqualDims& e : callable.equal) {
    const Tensor *x = args[e.param[0]].tensor, *y = args[e.param[1]].tensor;
    if (x == nullptr || y == nullptr) continue;
    const std::int64_t first = x->shape()[e.axis[0]], other = y->shape()[e.axis[1]];
    if (first != other)
      fail(ErrorId::extents_differ, {}, {}, e.name, first, text_of(callable.params[e.param[0]]),
           other, text_of(callable.params[e.param[1]]));
  }
}

}  // namespace

std::vector<EqualDims> equal_dims_of(std::span<const ExportParam> params) {
  std::vector<EqualDims> equal;
  std::map<std::string_view, std::pair<std::size_t, std::size_t>> first;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].dims.empty()) continue;
    const std::vector<std::string_view> names = split(params[i].dims, ' ');
    if (std::cmp_not_equal(names.size(), params[i].info.rank))
      throw std::runtime_error("names of other dimensions than a tensor has");
    for (std::size_t axis = 0; axis < names.size(); ++axis) {
      const auto [at, is_first] = first.try_emplace(names[axis], i, axis);
      if (is_first) continue;
      const auto [param, other] = at->second;
      equal.push_back({std::string(names[axis]), {param, i}, {other, axis}});
    }
  }
  return equal;
}

bool serves(const AheadClass& made, const AheadClass& given) {
  if (!made.strides.empty() && made.strides != given.strides) return false;
  if (made.constants != given.constants || made.args.size() != given.args.size()) return false;
  if (given.is_wide && !made.is_wide) return false;
  for (std::size_t i = 0; i < made.args.size(); ++i)
    if (!serves_argument(made.args[i], given.args[i])) return false;
  return true;
}

AheadClass class_of(std::span<const HostArg> args, const AheadCallable& callable) {
  AheadClass out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    ParamInfo info = callable.params[i].info;
    const HostArg& arg = args[i];
    const bool decides = !callable.is_kernel && info.kind == ParamKind::Scalar;
    if (info.kind == ParamKind::Constant || decides) {
      out.constants.push_back(arg.bits);
      continue;
    }
    if (callable.params[i].any_dtype && arg.tensor != nullptr) info.dtype = arg.tensor->dtype();
    check_argument({callable.name, {}, {}}, i, arg, info);
    out.args.push_back(classify(arg, info));
    if (!callable.is_kernel && info.kind == ParamKind::Pointer)
      add_extents(out.args.back(), arg.tensor);
    out.strides.push_back(arg.tensor != nullptr ? strides_of(*arg.tensor) : Dims());
    out.is_wide |= arg.tensor != nullptr && needs_wide_index(*arg.tensor);
  }
  check_equal_dims(args, callable);
  return out;
}

void AheadTable::add(AheadCallable callable, AheadClass of, CallPlan plan) {
  auto at = std::ranges::find(callables_, callable.name, &AheadCallable::name);
  if (at == callables_.end()) at = callables_.insert(at, std::move(callable));
  calls_.push_back(
      {static_cast<std::size_t>(at - callables_.begin()), std::move(of), std::move(plan)});
  std::ranges::stable_sort(calls_, std::greater(),
                           [](const AheadCall& c) { return special_facts(c.of); });
}

void AheadTable::add(const std::string& name, std::span<const ExportParam> params,
                     KernelInstance& kernel, std::string_view target,
                     std::span<const HostArg> args) {
  Signature signature = kernel.trace(kernel.signature(args)).signature;
  if (const std::size_t captured = kernel.known().captures.size(); captured > 0)
    fail(ErrorId::kernel_argument, kernel.loc(), {}, name, "the number of captures", captured,
         "Scalars and Tensors as arguments: a table of kernels cannot contain captures");
  add({name, {params.begin(), params.end()}, true, equal_dims_of(params)},
      {std::move(signature.args), std::move(signature.constants),
       signature.index_type == DType::i64},
      plan_of_launch(kernel, {.target = target}, args));  // winners do not override its tune()
}

void AheadTable::add(const std::string& name, const Exportable& callable, std::string_view target,
                     std::span<const HostArg> args) {
  // Addresses identify the arguments in the recording.
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 44;
  std::deque<Tensor> apart;
  std::vector<HostArg> own(args.begin(), args.end());
  for (HostArg& a : own) {
    if (a.tensor == nullptr) continue;
    const Tensor& t = *a.tensor;
    void* const address = reinterpret_cast<void*>(kApart * (apart.size() + 1));
    a.tensor = &apart.emplace_back(
        Tensor::borrow(address, t.shape(), t.dtype(), Device::cuda(), t.strides()));
    if (a.kind == ParamKind::Pointer) a.bits = kApart * apart.size();
  }
  AheadCallable known{name, callable.params, false};
  AheadClass of = class_of(own, known);
  for (ArgClass& a : of.args)
    for (std::size_t i = 0; i < a.sample.size(); ++i) a.dims[i].fixed = a.sample[i];
  CallRecording recording(name, target, own);
  prepare([&] { callable.call(Stream::wrap(nullptr, Device::cuda()), own, {}); });
  add(std::move(known), std::move(of), recording.take());
}

std::vector<std::shared_ptr<const runtime::CompiledKernel>> AheadTable::kernels() const {
  std::vector<std::shared_ptr<const runtime::CompiledKernel>> all;
  for (const AheadCall& call : calls_)
    for (const PlanStep& step : call.plan.steps)
      if (std::ranges::find(all, step.kernel) == all.end()) all.push_back(step.kernel);
  return all;
}

const AheadCallable& AheadTable::callable(std::string_view name) const {
  const auto at = std::ranges::find(callables_, name, &AheadCallable::name);
  if (at == callables_.end())
    fail(ErrorId::kernel_argument, {}, {}, "a table of kernels", "the callable", name,
         "a name that `tegula aot` has listed");
  return *at;
}

int AheadTable::find(const AheadCallable& callable, std::span<const HostArg> args) const {
  const AheadClass given = class_of(args, callable);
  const auto number = static_cast<std::size_t>(&callable - callables_.data());
  for (std::size_t i = 0; i < calls_.size(); ++i)
    if (calls_[i].callable == number && serves(calls_[i].of, given)) return static_cast<int>(i);
  return -1;
}

}  // namespace tegula::dsl
