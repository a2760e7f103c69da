// Sorts and scans of whole arrays, and the best of rows, through the assembler: no spills. Needs
// ptxas.
#include "tegula/kernels/device_scan.h"
#include "tegula/kernels/device_sort.h"
#include "tegula/kernels/device_topk.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::device_arrays_test {
using namespace kernels;
namespace {

class DeviceArrays : public Assembled {};

constexpr std::int64_t kElements = 9000;

Tensor array_of(DType dtype) { return Tensor::zeros({kElements}, dtype, Device::cpu()); }

void expect_no_spills(const ir::Kernel& tile, const std::string& plan) {
  SCOPED_TRACE(tile.info.name);
  for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", false, backend, plan);
}

/// The kernels of a sort, with the plans that they request.
TEST_F(DeviceArrays, SortsDoNotSpill) {
  for (const DType dtype : {DType::f32, DType::i64}) {
    SCOPED_TRACE(name(dtype));
    const auto kernels = all_traced({"device_sort_starts", "device_sort_move"}, [&] {
      device_sort(Stream(Device::cpu()), array_of(dtype), array_of(dtype),
                  {.sorted_values = array_of(DType::i32)});
    });
    expect_no_spills(kernels[0], "num_warps=8 min_ctas_per_sm=3");
    expect_no_spills(kernels[1], "num_warps=8 min_ctas_per_sm=2");
  }
}

TEST_F(DeviceArrays, ScansByLookBackDoNotSpill) {
  for (const DType dtype : {DType::f32, DType::i32})
    expect_no_spills(traced("device_scan_look_back",
                            [&] {
                              device_scan(Stream(Device::cpu()), array_of(dtype), array_of(dtype),
                                          {.look_back = true});
                            }),
                     "");
}

TEST_F(DeviceArrays, BestOfRowsByWordsDoNotSpill) {
  for (const std::int64_t n : {128, 256, 512})
    expect_no_spills(traced("device_topk_words",
                            [&] {
                              const auto host_of = [&](DType dtype, std::int64_t columns) {
                                return Tensor::zeros({64, columns}, dtype, Device::cpu());
                              };
                              device_topk(Stream(Device::cpu()), host_of(DType::bf16, n),
                                          host_of(DType::bf16, 8), host_of(DType::i32, 8));
                            }),
                     "num_warps=4 min_ctas_per_sm=8");
}

}  // namespace
}  // namespace tegula::test::device_arrays_test
