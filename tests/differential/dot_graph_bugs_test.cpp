// Bugs that the lowering of a graph of dots could have, planted in its code: the simulator finds
// each, under its name or by a wrong result.
#include <gtest/gtest.h>

#include <cstdio>

#include "ir/builder.h"
#include "tests/differential/nth_op.h"
#include "tests/differential/planted_program.h"

namespace tegula::ir::dot_graph_bugs_test {
namespace {

/// Attention's five products, with a clamp in place of exponentials; two blocks of keys, of which
/// each adds to the same block of dQ, seven of queries.
test::MemoryProgram five_products(Device device) {
  const auto kernel =
      tegula::kernel("five_products", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, In<bf16, 2> G,
                                         InOut<f32, 2> dQ, Out<f32, 2> dK, Out<f32, 2> dV) {
        const int dim = Q.static_dim(1);
        for (auto n : grid(rows(dK), 128)) {
          const Tile k = K(n, all), v = V(n, all);
          Tile dk = zeros<f32>(128, dim), dv = zeros<f32>(128, dim);
          for (auto m : steps(Q.rows(), 64)) {
            const Tile q = Q(m, all), g = G(m, all);
            const Tile p = min(max(dot(k, q.T()), -2.0f), 2.0f);
            dv = dot(cast<bf16>(p), g, dv);
            const Tile ds = cast<bf16>(p * min(max(dot(v, g.T()), -2.0f), 2.0f));
            dk = dot(ds, q, dk);
            atomic_add(dQ(m, all), dot(ds.T(), k));
          }
          dK(n, all) = dk;
          dV(n, all) = dv;
        }
      });
  constexpr int kQueries = 448, kKeys = 256, kDim = 64;
  const auto args_on = [](Device d) {
    const auto integers = [&](int rows, std::uint64_t seed) {
      return Tensor::integers({rows, kDim}, DType::bf16, -3, 4, seed, d);
    };
    const auto zeros = [&](int rows) { return Tensor::zeros({rows, kDim}, DType::f32, d); };
    return std::vector<Tensor>{integers(kQueries, 1), integers(kKeys, 2), integers(kKeys, 3),
                               integers(kQueries, 4), zeros(kQueries),    zeros(kKeys),
                               zeros(kKeys)};
  };
  static const std::vector<double> want = [&] {
    const std::vector<Tensor> a = args_on(Device::cpu());
    kernel(Stream(Device::cpu()), a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    return a[4].to_doubles();
  }();
  test::MemoryProgram p =
      test::memory_program<7>("five_products", 0, kernel, args_on(device), 4, want);
  p.programs = 2;
  return p;
}

/// The store of a tile for all warpgroups is the first by matrices.
OpId stored(const Kernel& k) { return test::all_ops(k, Opcode::StMatrix).front(); }

struct Bug {
  const char* name;
  void (*plant)(Kernel&);
};

const Bug kBugs[] = {
    {"no fence between the store and the wgmma that reads it",
     [](Kernel& k) { k.erase(test::next_op(k, stored(k), Opcode::FenceProxyAsync)); }},
    {"no barrier between them",
     [](Kernel& k) { k.erase(test::next_op(k, stored(k), Opcode::BarSync)); }},
    {"a slot is released before the wait for its last reader",
     [](Kernel& k) {
       const OpId release = test::all_ops(k, Opcode::MbarArrive).front();
       OpId wait = release;
       while (k[wait].opcode != Opcode::WgmmaWait) wait = k[wait].prev;
       k.unlink(release);
       k.insert_before(wait, release);
     }},
    {"a slot is never released",
     [](Kernel& k) { k.erase(test::all_ops(k, Opcode::MbarArrive).front()); }},
    {"a result is taken while its group is in flight",
     [](Kernel& k) {
       const OpId wait = test::all_ops(k, Opcode::WgmmaWait).front();
       k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + 1);
     }},
    {"a slot is not waited for",
     [](Kernel& k) {
       OpId wait = stored(k);
       while (k[wait].opcode != Opcode::MbarWait) wait = k[wait].prev;
       k.erase(wait);
     }},
    {"the staging buffer is written before the reduction has read it",
     [](Kernel& k) {
       for (OpId op : test::all_ops(k, Opcode::TmaWait)) k.erase(op);
     }},
    {"no fence in front of the reduction",
     [](Kernel& k) {
       OpId reduce = test::all_ops(k, Opcode::TmaReduce).front();
       OpId at = k[k[reduce].parent].owner;
       while (k[at].opcode != Opcode::FenceProxyAsync) at = k[at].prev;
       k.erase(at);
     }},
};

TEST(DotGraphBugs, EachIsFound) {
  const test::PlantedProgram program(five_products);
  const Kernel sound = program.compile([](std::string_view, Kernel&, bool) {});
  ASSERT_EQ(test::all_ops(sound, Opcode::Wgmma).size(), 5u);
  ASSERT_EQ(program.how_caught(sound), "");
  for (const Bug& bug : kBugs) {
    SCOPED_TRACE(bug.name);
    Kernel k = clone(sound);
    bug.plant(k);
    const std::string how = program.how_caught(k);
    std::printf("%-65s %s\n", bug.name, how.c_str());
    EXPECT_NE(how, "");
  }
}

}  // namespace
}  // namespace tegula::ir::dot_graph_bugs_test
