#include "dsl/functions/traced_function.h"

#include "ir/access.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

auto kernel_of(const Score& lambda) {
  return kernel("function", [lambda](Scalar<f32> s, Scalar<i32> b, Scalar<i32> h, Scalar<i32> q,
                                     Scalar<i32> kv, Out<f32, 1> out) {
    for (auto i : grid(out, 1)) out(i) = lambda(s, b, h, q, kv);
  });
}

/// Returns the value stored by the only store of a kernel.
ir::Value stored_value(const ir::Kernel& k) {
  ir::Value stored;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode == ir::Opcode::StoreView) stored = ir::stored_value(k[op]);
  });
  if (!stored) throw InternalError("TracedFunction: the trace stores no result");
  return stored;
}

}  // namespace

TracedFunction::TracedFunction(const Score& lambda) {
  const auto traced = std::make_shared<decltype(kernel_of(lambda))>(kernel_of(lambda));
  const Trace trace =
      traced->trace(0.0f, 0, 0, 0, 0, Tensor::empty({1}, DType::f32, Device::cpu()));
  function_.body = ir::clone(trace.kernel());
  for (std::size_t i = 0; i <= kKey; ++i)
    function_.arguments.push_back(function_.body.params()[i].value);
  function_.result = stored_value(function_.body);
  captures_ = traced->instance().known().captures;
  closure_ = traced;
}

const dsl::Capture* TracedFunction::capture(ir::Value v) const {
  // Captures follow the arguments and the output.
  const auto& params = function_.body.params();
  const std::size_t own = function_.arguments.size() + 1;
  for (std::size_t i = own; i < params.size() && i - own < captures_.size(); ++i)
    if (params[i].value == v) return &captures_[i - own];
  return nullptr;
}

MaskFunction trace_mask_function(const Mask& mask) {
  const auto traced = std::make_shared<const TracedFunction>(
      [&](const Tile&, const Tile& b, const Tile& h, const Tile& q, const Tile& kv) {
        return where(mask(b, h, q, kv), 1.0f, 0.0f);
      });
  const ir::Kernel& k = traced->function().body;
  const ir::OpId select = k[traced->function().result].def;
  if (!select || k[select].opcode != ir::Opcode::Select)
    throw InternalError("trace_mask_function: the trace stores no condition");
  const auto role = [&](TracedFunction::Argument a) { return traced->argument(a); };
  MaskFunction f{ir::import_mask(k, k[select].operands[0],
                                 {role(TracedFunction::kBatch), role(TracedFunction::kHead),
                                  role(TracedFunction::kQuery), role(TracedFunction::kKey)}),
                 {},
                 {},
                 {},
                 traced};
  for (const ir::Value v : f.expr.params) {
    const dsl::Capture* c = traced->capture(v);
    f.numbers.push_back(c ? c->cell : nullptr);
    f.is_scalar.push_back(f.numbers.back() != nullptr);
  }
  for (const ir::Value v : f.expr.tables) {
    const dsl::Capture* c = traced->capture(v);
    if (!c) throw InternalError("trace_mask_function: a table of the mask was not captured");
    f.tables.push_back(c->tensor ? c->tensor : &c->copy);
  }
  return f;
}

}  // namespace tegula
