// Worker program that measures candidates for a tuner, which starts it and uses a socket.
#include "autotune/worker/serve.h"

int main() { return tegula::autotune::serve_tuner(); }
