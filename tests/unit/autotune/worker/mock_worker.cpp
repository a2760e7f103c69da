// The tuner's worker on a driver of our own.
#include "autotune/worker/serve.h"
#include "tests/unit/autotune/worker/planted_kernels.h"

int main() {
  const tegula::runtime::testing::MockDriver driver;
  tegula::autotune::testing::plant_kernels(driver.table);
  tegula::autotune::testing::planted().socket = tegula::autotune::kWorkerDescriptor;
  return tegula::autotune::serve_tuner();
}
