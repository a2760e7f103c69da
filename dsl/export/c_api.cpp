// The functions of tegula.h, except tegula_infer.
#include <tegula.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/export/exported.h"
#include "dsl/export/failure.h"
#include "dsl/export/run.h"
#include "support/errors.h"

using namespace tegula;
using tegula::c::guarded;

namespace {

static_assert(sizeof(TegulaArg) == 16 && sizeof(TegulaParam) == 24 && sizeof(TegulaError) == 32 &&
              sizeof(TegulaSignature) == 48);

}  // namespace

std::int32_t tegula_abi() { return TEGULA_ABI; }

const TegulaError* tegula_last_error() { return c::last_error(); }

std::int32_t tegula_list(const char** names, std::int32_t room) {
  std::int32_t count = 0;
  guarded([&] {
    const std::vector<const char*> all = c::exported_names();
    count = static_cast<std::int32_t>(all.size());
    for (std::int32_t i = 0; i < std::min(room, count); ++i)
      names[i] = all[static_cast<std::size_t>(i)];
  });
  return count;
}

const TegulaCallable* tegula_find(const char* name) {
  const TegulaCallable* found = nullptr;
  guarded([&] {
    const std::string_view wanted = name ? name : "";
    const detail::Exported* exported = c::find_exported(wanted);
    if (!exported)
      fail(ErrorId::export_unknown, {}, {}, wanted,
           fmt::format("{}", fmt::join(c::exported_names(), ", ")));
    found = exported->handle();
  });
  return found;
}

const TegulaSignature* tegula_signature(const TegulaCallable* callable) {
  const TegulaSignature* signature = nullptr;
  guarded([&] { signature = &c::checked(callable).signature(); });
  return signature;
}

TegulaCode tegula_call(const TegulaCallable* callable, const TegulaArg* args, std::int32_t count,
                       void* stream) {
  return guarded([&] {
    const detail::Exported& callee = c::checked(callable);
    c::run(callee, c::args_of(callee, args, count), [&](Device) { return stream; });
  });
}
