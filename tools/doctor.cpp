// tegula doctor: reports what this machine has, and how to obtain the rest.
#include <fmt/format.h>

#include <algorithm>

#include "autotune/profiles/profile_finding.h"
#include "runtime/doctor.h"
#include "tools/commands.h"

namespace tegula::tools {

void add_doctor(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Report what is installed, what is missing and which package provides it");
  command->footer(
      "The exit code is 0 whatever is missing: the devices cpu and sim need none of these parts.");
  command->callback([] {
    runtime::Diagnosis d = runtime::diagnose();
    const auto gpu = std::ranges::find(d.findings, "GPU", &runtime::DoctorCheck::part);
    d.findings.insert(gpu + 1, autotune::examine_profiles(d.gpus));
    fmt::print("{}", d.str());
  });
}

}  // namespace tegula::tools
