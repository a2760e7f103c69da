// tegula doctor: what this machine has, and what would bring the rest.
#include <fmt/format.h>

#include "runtime/doctor.h"
#include "tools/commands.h"

namespace tegula::tools {

void add_doctor(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Tell what is there, what is missing and which package brings it");
  command->callback([] { fmt::print("{}", runtime::diagnose().str()); });
}

}  // namespace tegula::tools
