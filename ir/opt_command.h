#pragma once
// Commands with which a person runs passes again.
#include <string>
#include <string_view>

#include "ir/pipeline.h"

namespace tegula::ir {

/// Returns the beginning of a command of `tegula opt` that uses the context's plan: `tegula opt
/// --plan="plan { .. }"`. Without a plan, it contains the requested fields: `TEGULA_PLAN="stages=2"
/// tegula opt`.
std::string opt_command(const PassContext& context);

/// Returns the first line of a kernel's text, which names its passes; opt_header parses it.
std::string opt_comment(std::string_view command, std::string_view passes);

/// The options of such a command, read from the first line of a file; empty if it has none.
struct OptHeader {
  std::string passes, plan, plan_changes;
  bool keeps_checks = false;
};
OptHeader opt_header(std::string_view text);

}  // namespace tegula::ir
