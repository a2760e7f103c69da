// Follows the roles of a kernel through its rings and channels (ir/analysis/channel_check) and
// rejects a kernel that would hang or read overwritten data. Before and after: machine form,
// unchanged.
#include <fmt/format.h>

#include "ir/analysis/channel_check.h"
#include "ir/pipeline.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

std::string place(const Kernel& k, OpId op) {
  const Loc& loc = k[op].loc;
  return fmt::format("{} at {}:{}", info(k[op].opcode).mnemonic, loc.file, loc.line);
}

void require_none(const Kernel& k, const std::optional<ChannelFault>& fault) {
  if (!fault) return;
  std::string text = fmt::format("{}: {}", fault->what, place(k, fault->first));
  if (fault->second) text += "; " + place(k, fault->second);
  throw InternalError(text);
}

}  // namespace

bool check_channels(Kernel& kernel, PassContext& context) {
  // Check the kernel in program order, as one thread would run it, and by roles.
  require_none(kernel, check_channels(kernel, false));
  if (context.plan && context.plan->producer_warps > 0)
    require_none(kernel, check_channels(kernel, true));
  return false;
}

}  // namespace tegula::ir
