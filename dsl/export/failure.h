#pragma once
// The last error of a thread, as the C interface hands it out.
#include <tegula.h>

#include <string>

namespace tegula::c {

/// What a call failed with.
struct Failure {
  TegulaCode code = TEGULA_OK;
  int driver_code = 0;
  std::string text, hint, where;
};

/// Classes the exception that is being handled.
Failure current_failure();

/// Makes it this thread's last error.
TegulaCode keep(Failure failure) noexcept;
/// No exception is known, or there is no memory to describe one.
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
