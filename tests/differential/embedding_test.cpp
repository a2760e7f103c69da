// Embedding on every available device.
#include "tests/differential/embedding_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::embedding_test {
namespace {

class Embeddings : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Embeddings, testing::ValuesIn(devices()), device_name);

TEST_P(Embeddings, AndTheirGradients) { check_embeddings(GetParam()); }

}  // namespace
}  // namespace tegula::test::embedding_test
