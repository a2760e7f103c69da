// Exported callables: their list, and the description of each, made at its first use.
#include "dsl/export/exported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "dsl/export/failure.h"
#include "dsl/instance.h"
#include "runtime/dlpack_types.h"
#include "support/errors.h"
#include "support/text.h"

namespace tegula {
namespace c {
namespace {

std::mutex& registry_lock() {
  static auto* const lock = new std::mutex;  // libraries may be closed while statics are destroyed
  return *lock;
}

/// Returns the first entry of the list, which is in the order in which libraries were loaded.
detail::Registered*& registry() {
  static detail::Registered* first = nullptr;
  return first;
}

template <class F>
void each_registered(const F& f) {
  const std::lock_guard lock(registry_lock());
  for (const detail::Registered* r = registry(); r; r = r->next) f(*r);
}

}  // namespace

std::vector<const char*> exported_names() {
  std::vector<const char*> names;
  each_registered([&](const detail::Registered& r) {
    const auto is_same = [&](const char* n) { return std::string_view(n) == r.name; };
    if (std::ranges::none_of(names, is_same)) names.push_back(r.name);
  });
  return names;
}

const detail::Exported* find_exported(std::string_view name) {
  const detail::Exported* found = nullptr;
  each_registered([&](const detail::Registered& r) {
    if (!found && name == r.name) found = &r.get();
  });
  return found;
}

const detail::Exported& checked(const TegulaCallable* callable) {
  if (!callable) fail(ErrorId::export_no_callable, {}, {});
  return detail::Exported::of(callable);
}

TegulaKind kind_of(const ExportParam& param) {
  if (param.info.kind == detail::ParamKind::View) return TEGULA_TENSOR;
  if (param.info.kind == detail::ParamKind::Pointer) return TEGULA_POINTER;
  return is_float(param.info.dtype) ? TEGULA_FLOAT : TEGULA_INT;
}

}  // namespace c

namespace detail {

using dsl::KernelInstance;

struct Exported::Made {
  std::optional<c::Failure> failure;  ///< if set, the rest is empty
  Exportable callable;
  std::vector<TegulaParam> params;
  TegulaSignature signature{};
};

namespace {

static_assert(static_cast<int>(ViewAccess::In) == TEGULA_IN &&
              static_cast<int>(ViewAccess::Out) == TEGULA_OUT &&
              static_cast<int>(ViewAccess::InOut) == TEGULA_INOUT);

TegulaParam shown(const ExportParam& param) {
  const TegulaKind kind = c::kind_of(param);
  const dlpack::DataType type =
      param.any_dtype ? dlpack::DataType{0, 0, 0} : runtime::dlpack_type(param.info.dtype);
  const bool is_tensor = kind == TEGULA_TENSOR;
  return {param.name.c_str(),
          static_cast<std::uint8_t>(param.info.access),
          static_cast<std::uint8_t>(kind),
          static_cast<std::uint8_t>(is_tensor ? param.info.rank : 0),
          static_cast<std::uint8_t>(param.info.optional),
          {type.code, type.bits, type.lanes},
          param.dims.c_str()};
}

/// Checks that each name in `saved` is a parameter of the callable.
void check_saved(const Exported& exported, const Exportable& callable, const char* saved) {
  for (const std::string_view name : split(trim(saved), ' ')) {
    const auto is_it = [&](const ExportParam& p) { return p.name == name; };
    if (!name.empty() && std::ranges::none_of(callable.params, is_it))
      fail(ErrorId::export_saved, exported.loc(), {}, exported.name(), name);
  }
}

}  // namespace

Exported::Exported(const char* name, Make make, std::source_location at) noexcept
    : name_(name), make_(make), at_(at) {}
Exported::~Exported() = default;

void Exported::set_backward(const char* name, const char* saved) noexcept {
  backward_ = name;
  saved_ = saved;
}

const Exported::Made& Exported::made() const {
  std::call_once(making_, [this] {
    auto made = std::make_unique<Made>();
    try {
      made->callable = make_();
      if (saved_) check_saved(*this, made->callable, saved_);
      for (const ExportParam& p : made->callable.params) made->params.push_back(shown(p));
      made->signature = {
          TEGULA_ABI,          name_,     static_cast<std::int32_t>(made->params.size()),
          made->params.data(), backward_, saved_};
    } catch (...) {
      made->failure = c::current_failure();
      // The exporter must fix any such error, because it is not about an argument of a call.
      if (made->failure->code == TEGULA_ARGUMENT) made->failure->code = TEGULA_COMPILE;
    }
    made_ = std::move(made);
  });
  if (made_->failure) throw c::Failure(*made_->failure);
  return *made_;
}

const Exportable& Exported::callable() const { return made().callable; }
const TegulaSignature& Exported::signature() const { return made().signature; }

template <std::uint64_t Layout>
const char Headers<Layout>::is_built_with_another_version_of_tegula_and_must_be_rebuilt = 0;
template struct Headers<export_layout()>;

Registered::Registered(const char* n, Exported& (*g)(), const char& /*headers*/) noexcept
    : name(n), get(g) {
  const std::lock_guard lock(c::registry_lock());
  Registered** at = &c::registry();
  while (*at) at = &(*at)->next;
  *at = this;
}

Registered::~Registered() {
  const std::lock_guard lock(c::registry_lock());
  for (Registered** at = &c::registry(); *at; at = &(*at)->next)
    if (*at == this) {
      *at = next;
      return;
    }
}

Exportable export_kernel(std::shared_ptr<KernelInstance> instance,
                         std::span<const ParamInfo> params) {
  Exportable out;
  const auto names = instance->callee().names;
  for (std::size_t i = 0; i < params.size(); ++i) {
    ExportParam p{.info = params[i], .name = fmt::format("arg{}", i)};
    if (!names.empty()) {
      p.name = names[i].name;
      p.dims = fmt::format("{}", fmt::join(names[i].dims, " "));
    }
    out.params.push_back(std::move(p));
  }
  out.kernel = instance;
  out.call = [kernel = std::move(instance)](const Stream& stream, std::span<const HostArg> args,
                                            Loc /*at*/) { launch(*kernel, &stream, args); };
  return out;
}

}  // namespace detail
}  // namespace tegula
