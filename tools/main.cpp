// The program `tegula`.
#include <fmt/format.h>

#include <cstdio>

#include "tegula/error.h"
#include "tools/commands.h"
#include "tools/one_of.h"

int main(int argc, char** argv) {
  CLI::App program{"Tegula, a JIT kernel generator embedded in C++20", "tegula"};
  program.require_subcommand(1);
  int exit_code = 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps earlier output in a crash
  try {
    tegula::tools::add_demo(program, exit_code);
    tegula::tools::add_doctor(program, exit_code);
    tegula::tools::add_explain(program, exit_code);
    tegula::tools::add_mask(program, exit_code);
    tegula::tools::add_opt(program, exit_code);
    tegula::tools::add_schedule(program, exit_code);
    tegula::tools::add_support(program, exit_code);
    tegula::tools::add_cache(program, exit_code);
    tegula::tools::add_bench(program, exit_code);
    tegula::tools::add_tune(program, exit_code);
    tegula::tools::add_audit(program, exit_code);
    tegula::tools::add_aot(program, exit_code);
    tegula::tools::add_calibrate(program, exit_code);
    tegula::tools::add_completion(program, exit_code);
    tegula::tools::add_report(program, exit_code);
    program.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& e) {
    const std::string unknown = tegula::tools::unknown_subcommand(program);
    if (e.get_exit_code() == 0 || unknown.empty()) return program.exit(e);
    fmt::print(stderr, "{}\nRun with --help for more information.\n", unknown);
    return e.get_exit_code();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
