// The program that measures candidates for a tuner, which starts it and speaks to it over a socket.
#include "autotune/worker/serve.h"

int main() { return tegula::autotune::serve_tuner(); }
