#include "tools/support_probe.h"

#include <algorithm>

#include "runtime/jit_verbs.h"
#include "runtime/nvrtc.h"
#include "support/errors.h"
#include "tegula/error.h"
#include "tools/assembled.h"

namespace tegula::tools {
namespace {

/// Returns the text of a known error without its arguments, else the first line of the message.
std::string reason_of(const std::string& code, const std::string& message) {
  for (int i = 0; i < mistake_count(); ++i) {
    const ErrorRow& known = row(static_cast<ErrorId>(i));
    if (code != known.code) continue;
    std::string text = known.message;
    for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos;)
      text.replace(at, 2, "..");
    return code + ", " + text;
  }
  return code.empty() ? headline(message) : code + ", " + headline(message);
}

/// Returns the text of the error that `call` throws, or "".
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const CompileError& e) {
    return reason_of(e.diagnostic().code, e.diagnostic().message);
  } catch (const ProgramError& e) {
    return reason_of(e.diagnostic().code, e.diagnostic().message);
  } catch (const Error& e) {
    return headline(e.what());
  }
}

std::map<std::string, int> ops_of(const ir::Kernel& k) {
  std::map<std::string, int> ops;
  ir::walk(k, k.body(), [&](ir::OpId op) { ++ops[std::string(ir::info(k[op].opcode).mnemonic)]; });
  return ops;
}

runtime::Compilation optimized(const ir::Kernel& tile, const runtime::CompileRequest& request) {
  runtime::Compilation c;
  runtime::key(c, request);
  c.tile = ir::clone(tile);
  runtime::optimize(c, request);
  return c;
}

/// Runs the verbs after `optimize` with both back ends.
void emit_for(std::size_t at, ir::Target target, const ir::Kernel& tile, bool assembles,
              Outcome& out) {
  for (const runtime::Backend backend : {runtime::Backend::Llvm, runtime::Backend::Nvrtc}) {
    const bool is_llvm = backend == runtime::Backend::Llvm;
    out.refusals[is_llvm ? at : at + 2] = refusal_of([&] {
      runtime::CompileRequest request;
      request.device = Device::cuda();  // the GPU need not be present
      request.target = target;
      request.backend = backend;
      runtime::Compilation c = optimized(tile, request);
      runtime::emit(c, request);
      if (is_llvm) out.compares_and_swaps = c.emitted.ptx.find(".cas.") != std::string::npos;
      if (assembles) runtime::assemble(c, request);
      for (const auto& [op, count] : ops_of(c.simt))
        out.simt_ops[std::string(target.name())].insert(op);
    });
  }
}

}  // namespace

bool Outcome::everywhere() const {
  return std::ranges::all_of(refusals, [](const std::string& r) { return r.empty(); });
}

bool Outcome::nowhere() const {
  return !refusals[0].empty() &&
         std::ranges::all_of(refusals, [&](const std::string& r) { return r == refusals[0]; });
}

Outcome outcome_of(const Probe& probe, bool assembles) {
  Outcome out;
  ir::Kernel tile("", ir::Form::Tile);
  const std::string refused = refusal_of([&] { tile = ir::clone(probe.trace().kernel()); });
  if (!refused.empty()) {
    out.refusals.fill(refused);
    return out;
  }
  out.ops = ops_of(tile);
  std::vector<std::uint64_t> on_cpu, on_sim;
  out.refusals[0] = refusal_of([&] { on_cpu = probe.run(Device::cpu()); });
  out.refusals[1] = refusal_of([&] { on_sim = probe.run(Device::sim()); });
  out.same_bits = on_cpu == on_sim;
  std::size_t at = 2;
  for (const ir::Target target : ir::Target::all()) emit_for(at++, target, tile, assembles, out);
  return out;
}

}  // namespace tegula::tools
