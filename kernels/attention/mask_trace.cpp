#include "kernels/attention/mask_trace.h"

#include "dsl/instance.h"
#include "ir/eval/cell.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// The i1 that the traced kernel's only store depends on.
ir::Value stored_condition(const ir::Kernel& k) {
  ir::Value condition;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode != ir::Opcode::StoreView) return;
    const ir::OpId select = k[k[op].operands[1]].def;
    if (select && k[select].opcode == ir::Opcode::Select) condition = k[select].operands[0];
  });
  if (!condition) throw InternalError("trace_mask: the trace stores no condition");
  return condition;
}

}  // namespace

TracedMask trace_mask(const Mask& mask) {
  const auto traced = kernel(
      "mask", [mask](Scalar<i32> b, Scalar<i32> h, Scalar<i32> q, Scalar<i32> kv, Out<i32, 1> out) {
        for (auto i : grid(out, 1)) out(i) = where(mask(b, h, q, kv), 1, 0);
      });
  const Tensor out = Tensor::empty({1}, DType::i32, Device::cpu());
  const auto number = [](i32 v) { return detail::ParamTraits<Scalar<i32>>::pack(v); };
  const std::vector<detail::HostArg> args{number(0), number(0), number(0), number(0),
                                          detail::ParamTraits<Out<i32, 1>>::pack(out)};
  dsl::KernelInstance& instance = traced.instance();
  const dsl::TraceResult result = instance.trace(instance.signature(args));
  const auto& params = result.kernel.params();
  TracedMask m;
  m.expr = ir::import_mask(result.kernel, stored_condition(result.kernel),
                           {params[0].value, params[1].value, params[2].value, params[3].value});
  const auto values = instance.run_time_args(args);
  const auto argument = [&](ir::Value v) -> const detail::HostArg& {
    for (std::size_t i = 0; i < params.size(); ++i)
      if (params[i].value == v) return values[i];
    throw InternalError("trace_mask: a number of the mask is not an argument");
  };
  for (const ir::Value v : m.expr.params) {
    const detail::HostArg& a = argument(v);
    m.numbers.push_back(ir::from_bits(a.bits, a.dtype).i);
  }
  for (const ir::Value v : m.expr.tables) {
    const auto entries = argument(v).tensor->to_doubles();  // of at most 32 bits: exact
    m.tables.emplace_back(std::vector<std::int64_t>(entries.begin(), entries.end()));
  }
  return m;
}

}  // namespace tegula
