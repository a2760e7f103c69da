#include "dsl/library_call.h"

#include "dsl/errors.h"
#include "tegula/library_call.h"

namespace tegula {

Loc& detail::line_of_library_call() {
  thread_local Loc line;
  return line;
}

void dsl::fail_overlap(const Loc& made_at, const std::string& kernel, std::size_t i, std::size_t j,
                       std::size_t written) {
  const Loc& called_at = detail::line_of_library_call();
  fail(ErrorId::overlap, called_at.known() ? called_at : made_at, {}, i, j, kernel, written);
}

}  // namespace tegula
