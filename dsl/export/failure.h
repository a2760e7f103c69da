#pragma once
// The last error of a thread, for the C interface.
#include <tegula.h>

#include <string>

namespace tegula::c {

/// Failure of a call.
struct Failure {
  TegulaCode code = TEGULA_OK;
  int driver_code = 0;
  std::string text, hint, where;
};

/// Classifies the exception that is being handled.
Failure current_failure();

/// Makes the failure this thread's last error.
TegulaCode keep(Failure failure) noexcept;
/// For an unknown exception, or if memory for a description cannot be allocated.
TegulaCode keep_out_of_memory() noexcept;
void keep_success() noexcept;
const TegulaError* last_error() noexcept;

/// Runs `f` for a function of the C interface: no exception leaves it.
template <class F>
TegulaCode guarded(const F& f) noexcept {
  try {
    f();
    keep_success();
    return TEGULA_OK;
  } catch (...) {
    try {
      return keep(current_failure());
    } catch (...) {
      return keep_out_of_memory();
    }
  }
}

}  // namespace tegula::c
