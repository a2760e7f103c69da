#pragma once
// How a person runs passes again.
#include <string>
#include <string_view>

#include "ir/pipeline.h"

namespace tegula::ir {

/// The beginning of a command of `tegula opt` that hands passes the context's plan:
/// `tegula opt --plan="plan { .. }"`, or where one is still to be chosen, with what it must have,
/// `TEGULA_PLAN="stages=2" tegula opt`.
std::string opt_command(const PassContext& context);

/// The line on top of a kernel's text that says which passes it is for; opt_header reads it.
std::string opt_comment(std::string_view command, std::string_view passes);

/// The options of such a command in a comment on a file's first line; empty where there are none.
struct OptHeader {
  std::string passes, plan, plan_changes;
  bool keeps_checks = false;
};
OptHeader opt_header(std::string_view text);

}  // namespace tegula::ir
