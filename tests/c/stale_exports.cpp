// A library of exported callables as another version's headers would make it: it refers to their
// layout, which libtegula.so does not know.
#include <tegula/export.h>

namespace tegula::detail {
extern template struct Headers<export_layout() + 1>;
}  // namespace tegula::detail

namespace {

using tegula::detail::Exported, tegula::detail::Headers, tegula::detail::Registered;

Exported& get() {
  static Exported exported("stale", [] { return tegula::Exportable(); });
  return exported;
}

const Registered stale("stale", &get,
                       Headers<tegula::detail::export_layout() +
                               1>::is_built_with_another_version_of_tegula_and_must_be_rebuilt);

}  // namespace
