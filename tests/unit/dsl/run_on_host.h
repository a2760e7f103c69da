#pragma once
// Traces a kernel and interprets it on host tensors, without compiling it.
#include <gtest/gtest.h>

#include <vector>

#include "dsl/instance.h"
#include "ir/eval/eval.h"
#include "ir/text.h"
#include "tegula/tegula.h"

namespace tegula::test {

inline ir::EvalArg eval_arg(const detail::HostArg& a) {
  const auto of_tensor = [](const Tensor& t) {
    return ir::TensorArg{t.data(), ir::Ints(t.shape().begin(), t.shape().end()),
                         ir::Ints(t.strides().begin(), t.strides().end()), t.dtype()};
  };
  if (a.kind == detail::ParamKind::View) return of_tensor(*a.tensor);
  if (a.kind == detail::ParamKind::Scalar) return ir::from_bits(a.bits, a.dtype);
  const ByteRange bytes = a.tensor ? a.tensor->byte_range() : ByteRange{a.bits, a.bits};
  return ir::PointerArg{reinterpret_cast<void*>(a.bits), reinterpret_cast<void*>(bytes.begin),
                        reinterpret_cast<void*>(bytes.end)};
}

/// Runs every program of the grid; any finding of the interpreter fails the test.
template <class... P>
void run(const Kernel<P...>& k, const typename detail::ParamTraits<P>::Host&... args) {
  const std::vector<detail::HostArg> packed{detail::ParamTraits<P>::pack(args)...};
  dsl::KernelInstance& instance = k.instance();
  const dsl::TraceResult traced = instance.trace(instance.signature(packed));
  std::vector<ir::EvalArg> values;
  for (const auto& a : instance.run_time_args(packed)) values.push_back(eval_arg(a));
  const ir::EvalReport report = ir::evaluate(traced.kernel, values);
  EXPECT_TRUE(report.clean()) << report.str() << ir::print(traced.kernel);
}

inline const Device kHost = Device::cpu();

inline Tensor host(const std::vector<float>& values) { return Tensor::from(values, kHost); }
inline Tensor empty(const Dims& shape, DType d = DType::f32) {
  return Tensor::empty(shape, d, kHost);
}

}  // namespace tegula::test
