#pragma once
// Subcommands of `tegula`. Each function adds a command to the program, which sets the exit code
// when it runs.
#include <CLI/CLI.hpp>

namespace tegula::tools {

void add_aot(CLI::App& program, int& exit_code);
void add_audit(CLI::App& program, int& exit_code);
void add_bench(CLI::App& program, int& exit_code);
void add_cache(CLI::App& program, int& exit_code);
void add_calibrate(CLI::App& program, int& exit_code);
void add_completion(CLI::App& program, int& exit_code);
void add_demo(CLI::App& program, int& exit_code);
void add_doctor(CLI::App& program, int& exit_code);
void add_explain(CLI::App& program, int& exit_code);
void add_mask(CLI::App& program, int& exit_code);
void add_opt(CLI::App& program, int& exit_code);
void add_report(CLI::App& program, int& exit_code);
void add_schedule(CLI::App& program, int& exit_code);
void add_support(CLI::App& program, int& exit_code);
void add_tune(CLI::App& program, int& exit_code);

}  // namespace tegula::tools
