// expect: an epilogue is a lambda with explicit parameter types instead of auto
// expect: an epilogue is a lambda with explicit parameter types instead of auto, and not mutable
// expect: an epilogue begins with one accumulator, or two if it is gated
// expect: the accumulators of an epilogue are followed by Index m and Index n
// expect: an epilogue returns the tile to store
// expect: a Lambda<R(P..)> is initialized by one that takes the parameters P and returns an R
// expect: a Lambda<R(P..)> is initialized by one that takes the parameters P and returns an R
// expect: a Lambda<R(P..)> is initialized by one that takes the parameters P and returns an R
// expect: a Lambda<R(P..)> is initialized by one that takes the parameters P and returns an R
#include <tegula/kernels/attention.h>
#include <tegula/kernels/fused_matmul.h>
#include <tegula/kernels/moe.h>
#include <tegula/kernels/scores.h>
#include <tegula/tegula.h>
using namespace tegula;
using namespace tegula::kernels;
#ifndef WRONG
#define WRONG 0
#endif
void f() {
#if WRONG == 1
  fused_matmul<bf16, bf16>([](auto acc, auto, auto) { return acc; });
#elif WRONG == 2
  fused_matmul<bf16, bf16>([](Tile acc, Index, Index) mutable { return acc; });
#elif WRONG == 3
  fused_matmul<bf16, bf16>([](Index, Index) { return 1.0f; });
#elif WRONG == 4
  gated_matmul<bf16, bf16>([](Tile gate, Tile up, int, Index) { return gate * up; });
#elif WRONG == 5
  fused_matmul<bf16, bf16>([](Tile, Index, Index) {});
#elif WRONG == 6
  attention({.mask = [](Tile q, Tile kv) { return q >= kv; }});
#elif WRONG == 7
  attention({.score = [](auto, auto, auto, auto, auto) {}});
#elif WRONG == 8
  scores::activation([](Tile a, Tile) { return a; });
#elif WRONG == 9
  Router{.choose = [](const Tile&) { return Routing(); }};
#else
  fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc; });
  fused_matmul<bf16, bf16>(
      [](Tile acc, Index, Index, Index n, In<bf16, 1> bias) { return acc + bias(n); });
  gated_matmul<bf16, bf16>([](const Tile& gate, Tile up, Index, Index) { return gate * up; });
  attention({.mask = [](auto, auto, auto q, auto kv) { return q >= kv; }});
  attention({.score = [](Tile s, Tile, Tile, Tile, Tile) { return s; }});
  scores::activation([](auto s) { return s; });
  Router{.choose = [](const Tile&, const Index&) { return Routing(); }};
#endif
}
