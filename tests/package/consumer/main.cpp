// Uses the library as a stranger does: public headers, one shared library, and errors that cross it.
#include <tegula/error.h>
#include <tegula/location.h>

#include <cstdio>
#include <cstring>

int second();

namespace {

// The error is made in libtegula.so, which has a C++ library of its own, and caught by its type here.
bool catches_what_the_library_made() {
  try {
    throw tegula::CompileError(
        tegula::Diagnostic{.code = "T0000", .message = "m", .loc = {"f.cpp", 1}, .notes = {}, .hint = ""});
  } catch (const tegula::Error& e) {
    return std::strcmp(e.what(), "f.cpp:1: error T0000: m") == 0;
  }
}

// Thrown inside the library: the other direction of the same boundary.
bool catches_what_the_library_threw() {
  try {
    tegula::CompileError(std::vector<tegula::Diagnostic>{});
  } catch (const tegula::InternalError&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  const bool works = catches_what_the_library_made() && catches_what_the_library_threw() && second() == 0;
  std::puts(works ? "consumer: works" : "consumer: FAILED");
  return works ? 0 : 1;
}
