// Every atomic operation of every type through the assembler, by both back ends. Needs ptxas.
#include "tests/assemble/assembled.h"

namespace tegula::atomics_test {
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

TEST_F(Atomics, Bytes) {
  assemble_all<i8>();
  assemble_all<u8>();
}
TEST_F(Atomics, Of16Bits) {
  assemble_all<i16>();
  assemble_all<u16>();
}
TEST_F(Atomics, WholeWords) {
  assemble_all<i32>();
  assemble_all<u64>();
}
TEST_F(Atomics, Floats) {
  assemble_all<f16>();
  assemble_all<bf16>();
  assemble_all<f32>();
  assemble_all<f64>();
}

/// Whether the kernel's text, by both back ends, reduces memory by this instruction.
bool reduces_by(const ir::Kernel& tile, const std::string& target, const std::string& instruction) {
  for (const runtime::Backend backend : test::here()) {
    runtime::CompileRequest request;
    request.target = ir::Target::find(target).value();
    request.backend = backend;
    runtime::Compilation k = test::optimized(tile, request);
    runtime::emit(k, request);
    const std::string& text = backend == runtime::Backend::Llvm ? k.emitted.ptx : k.emitted.source;
    if (text.find("global." + instruction + " ") == text.npos) return false;
  }
  return true;
}

/// The reductions of tiles that are in memory as rows: 16 bytes per instruction on sm_90a, an
/// element each on sm_80, whose `red` has no vectors.
template <class T>
void expect_reductions(const std::string& by_vectors, const std::string& by_elements) {
  SCOPED_TRACE(name(dtype_of<T>));
  const auto call = [] {
    const auto runs = kernel("runs", [](In<T, 2> x, InOut<T, 2> y) {
      for (auto [r, c] : grid(x, 8, 128)) atomic_add(y(r, c), x(r, c));
    });
    const auto of = [] { return Tensor::zeros({16, 256}, dtype_of<T>, Device::cpu()); };
    runs(of(), of());
  };
  const ir::Kernel tile = test::traced("runs", call);
  for (const runtime::Backend backend : test::here())
    for (const char* target : {"sm_80", "sm_90a"}) test::expect_clean(tile, target, false, backend);
  EXPECT_TRUE(reduces_by(tile, "sm_80", by_elements));
  EXPECT_TRUE(reduces_by(tile, "sm_90a", by_vectors));
  EXPECT_EQ(reduces_by(tile, "sm_90a", by_elements), by_vectors == by_elements);
}

TEST_F(Atomics, RunsOfNeighbours) {
  expect_reductions<bf16>("add.noftz.v8.bf16", "cas.b16");
  expect_reductions<f16>("add.noftz.v8.f16", "add.noftz.f16");
  expect_reductions<f32>("add.v4.f32", "add.f32");
  expect_reductions<f64>("add.f64", "add.f64");
}

}  // namespace
}  // namespace tegula::atomics_test
