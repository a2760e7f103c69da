// Hadamard transforms of long rows: no element is shuffled, few cross shared memory, and registers
// leave room for two CTAs of 16,384 columns on an SM.
#include "tegula/kernels/hadamard.h"

#include "tests/assemble/assembled.h"

namespace tegula::hadamard_test {
using namespace kernels;
namespace {

using namespace test;

/// Accesses to shared memory, and shuffles, that a thread of machine code makes for an element.
struct Traffic {
  std::int64_t shuffled = 0, stored = 0, loaded = 0;
  explicit Traffic(const ir::Kernel& simt) {
    ir::walk(simt, simt.body(), [&](ir::OpId op) {
      const ir::OpData& d = simt[op];
      if (d.opcode == ir::Opcode::Shfl) shuffled += simt.type(d.operands[0]).count();
      if (d.opcode == ir::Opcode::StShared) stored += simt.type(d.operands[1]).count();
      if (d.opcode == ir::Opcode::LdShared) loaded += simt.type(d.results[0]).count();
    });
  }
};

TEST_F(Assembled, HadamardOfLongRows) {
  constexpr std::int64_t kColumns = 16384, kPerThread = 32;
  const ir::Kernel tile = traced("hadamard", [] {
    const Tensor x = host({2, kColumns}), y = host({2, kColumns});
    hadamard(Stream(Device::cpu()), x, y, 1);
  });
  for (const runtime::Backend backend : here()) {
    SCOPED_TRACE(name(backend));
    runtime::CompileRequest request;
    request.target = ir::Target("sm_90a");
    request.backend = backend;
    const runtime::Compilation k = assembled(tile, request);
    EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
    EXPECT_LE(k.report.registers, 64);
    const Traffic traffic(k.simt);
    EXPECT_EQ(traffic.shuffled, 0);
    EXPECT_EQ(traffic.stored, 3 * kPerThread);
    EXPECT_EQ(traffic.loaded, 3 * kPerThread);
  }
}

}  // namespace
}  // namespace tegula::hadamard_test
