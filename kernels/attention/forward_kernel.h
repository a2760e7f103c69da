#pragma once
// The kernel of attention's forward pass, in the language; `attention.cpp` calls it.
#include <memory>
#include <optional>

#include "kernels/attention/doubts.h"
#include "kernels/attention/spec_facts.h"
#include "tegula/tegula.h"

namespace tegula {

template <class T>
using ForwardKernel =
    Kernel<In<T, 4>, In<T, 4>, In<T, 4>, Out<T, 4>, std::optional<Out<f32, 3>>, Scalar<f32>, bool,
           bool, Scalar<i32>, std::optional<In<i32, 1>>, std::optional<In<i32, 1>>,
           std::optional<In<f32, 1>>, std::optional<Out<f32, 3>>, std::optional<In<i32, 4>>,
           std::optional<In<i32, 3>>, std::optional<In<i32, 3>>, Round, Ptr<u32>, Scalar<i32>,
           std::optional<In<i32, 3>>, std::optional<InOut<f32, 4>>, std::optional<InOut<f32, 4>>>;

/// Lse is stored where there is one. Rows of Q are positions of one head; those of all heads of a
/// group, q_length each, with `packs_heads`; those of many sequences, none longer than q_length,
/// with tables. Which blocks are visited is the lists' to say, where there are some. With `no_keys`
/// there may be none. The marks are for rounds that go by doubts, beside how many programs run the
/// second round; then comes ListArgs::order. The last two tensors are those of SharedSoftmaxes:
/// marks are its counters then, and programs how many clusters share a tile.
template <class T>
ForwardKernel<T> forward_kernel(const char* name, std::shared_ptr<const SpecFacts> facts);

extern template ForwardKernel<bf16> forward_kernel(const char*, std::shared_ptr<const SpecFacts>);
extern template ForwardKernel<f16> forward_kernel(const char*, std::shared_ptr<const SpecFacts>);

}  // namespace tegula
