// Every atomic operation of every type through the assembler, by both back ends. Needs ptxas.
#include "tests/assemble/assembled.h"

namespace tegula {
namespace {

class Atomics : public test::Assembled {};

template <class T>
void combine(const std::string& what, const Tile& p, const Tile& v, MemoryOrder order,
             bool wants_old) {
  const bool is_bits = std::is_integral_v<T>;
  const Tile old = what == "add"                ? atomic_add(p, v, {}, order)
                   : what == "max"              ? atomic_max(p, v, {}, order)
                   : what == "min"              ? atomic_min(p, v, {}, order)
                   : what == "xchg" || !is_bits ? atomic_xchg(p, v, {}, order)
                   : what == "and"              ? atomic_and(p, v, {}, order)
                   : what == "or"               ? atomic_or(p, v, {}, order)
                                                : atomic_xor(p, v, {}, order);
  if (wants_old) store(p, old);
}

/// All kinds in one kernel.
template <class T>
void assemble_all() {
  SCOPED_TRACE(name(dtype_of<T>));
  const auto call = [] {
    const auto all = kernel("all", [](In<T, 1> x, Ptr<T> p) {
      for (auto i : grid(x, 100))
        for (const char* what : {"add", "max", "min", "xchg", "and", "or", "xor"}) {
          combine<T>(what, p + i.indices(), x(i), MemoryOrder::relaxed, false);
          combine<T>(what, p + i.indices(), x(i), MemoryOrder::relaxed, true);
          combine<T>(what, p, x(0), MemoryOrder::acq_rel, true);
        }
    });
    all(Tensor::zeros({100}, dtype_of<T>, Device::cpu()),
        Tensor::zeros({100}, dtype_of<T>, Device::cpu()));
  };
  const ir::Kernel tile = test::traced("all", call);
  for (const runtime::Backend backend : test::here())
    for (const char* target : {"sm_80", "sm_90a"}) test::expect_clean(tile, target, false, backend);
}

TEST_F(Atomics, OfBytes) {
  assemble_all<i8>();
  assemble_all<u8>();
}
TEST_F(Atomics, Of16Bits) {
  assemble_all<i16>();
  assemble_all<u16>();
}
TEST_F(Atomics, OfWholeWords) {
  assemble_all<i32>();
  assemble_all<u64>();
}
TEST_F(Atomics, OfFloats) {
  assemble_all<f16>();
  assemble_all<bf16>();
  assemble_all<f32>();
  assemble_all<f64>();
}

}  // namespace
}  // namespace tegula
