// A second file with the same headers.
#include <tegula/error.h>
#include <tegula/location.h>

int second();

int second() { return tegula::intern("one text") == tegula::intern("one text") ? 0 : 1; }
