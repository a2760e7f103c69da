// A second file with the same headers.
#include <tegula/tegula.h>

int second();

int second() { return tegula::intern("one text") == tegula::intern("one text") ? 0 : 1; }
