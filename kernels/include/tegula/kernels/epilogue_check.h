#pragma once
#include <type_traits>

#include "tegula/trailing_params.h"
#include "tegula/value.h"

/// Requirements of a lambda that is the epilogue of a GEMM.
namespace tegula::kernels::detail {

/// Returns true if the lambda can be an epilogue; otherwise states what is wrong with it.
template <class Fn>
consteval bool check_epilogue() {
  if constexpr (!requires { tegula::detail::run_end<Tile>(&Fn::operator(), 0); }) {
    static_assert(tegula::detail::kNever<Fn>,
                  "tegula: an epilogue is a lambda with explicit parameter types instead of auto, "
                  "and not mutable: [](Tile acc, Index m, Index n, ..) { return ..; }");
    return false;
  } else {
    constexpr int kTiles = tegula::detail::run_end<Tile>(&Fn::operator(), 0),
                  kIndices = tegula::detail::run_end<Index>(&Fn::operator(), kTiles) - kTiles;
    constexpr bool kReturns =
        std::is_convertible_v<tegula::detail::ResultOf<decltype(&Fn::operator())>, Arg>;
    static_assert(kTiles == 1 || kTiles == 2,
                  "tegula: an epilogue begins with one accumulator, or two if it is gated: "
                  "[](Tile acc, Index m, Index n, ..) { return ..; }");
    static_assert(kTiles == 0 || kIndices == 2 || kIndices == 3,
                  "tegula: the accumulators of an epilogue are followed by Index m and Index n, or "
                  "by Index b, Index m and Index n");
    static_assert(kReturns, "tegula: an epilogue returns the tile to store");
    return (kTiles == 1 || kTiles == 2) && (kIndices == 2 || kIndices == 3) && kReturns;
  }
}

}  // namespace tegula::kernels::detail
