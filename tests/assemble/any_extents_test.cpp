// Tiles of any extents that change threads through shared memory, by both back ends. Needs ptxas.
#include "tests/assemble/assembled.h"

namespace tegula::any_extents_test {
namespace {

class AnyExtents : public test::Assembled {};

TEST_F(AnyExtents, NumbersConditionsAndPointers) {
  const auto call = [] {
    const auto mixed = kernel("mixed", [](In<f32, 1> x, In<f16, 1> h, Out<f16, 1> turned,
                                          Out<i32, 1> large, Ptr<f32> copy) {
      for (auto i : grid(x, 120)) {
        const Tile line = fill_absent(x(i), 0);
        turned(i) = fill_absent(h(i), 0).reshape({12, 10}).T().reshape({120});
        large(i) = cast<i32>((line > 50.0f).reshape({40, 3}).T().reshape({120}));
        store((copy + i.indices()).reshape({30, 4}).T(), line.reshape({30, 4}).T());
      }
    });
    const auto floats = Tensor::iota({240}, DType::f32, Device::cpu()),
               halves = Tensor::iota({240}, DType::f16, Device::cpu());
    mixed(floats, halves, Tensor::empty({240}, DType::f16, Device::cpu()),
          Tensor::empty({240}, DType::i32, Device::cpu()),
          Tensor::empty({240}, DType::f32, Device::cpu()));
  };
  const ir::Kernel tile = test::traced("mixed", call);
  for (const runtime::Backend backend : test::here())
    for (const char* target : {"sm_80", "sm_90a"}) test::expect_clean(tile, target, false, backend);
}

}  // namespace
}  // namespace tegula::any_extents_test
