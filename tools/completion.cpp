// tegula completion: generates shell completion from the program's commands and options.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "tools/commands.h"
#include "tools/one_of.h"

namespace tegula::tools {
namespace {

/// Returns the words that may follow a command: its subcommands and long options.
std::string next_words(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    add(sub->get_name());
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) add("--" + name);
  return words;
}

/// Calls `f(command path, possible next words)` for the program and each of its commands.
template <class F>
void each_command(const CLI::App& app, const std::string& path, const F& f) {
  f(path, next_words(app));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    each_command(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), f);
}

std::string bash_text(const CLI::App& program) {
  std::string cases;
  each_command(program, "", [&](const std::string& path, const std::string& words) {
    cases += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, words);
  });
  return fmt::format(R"(_tegula() {{
  local path="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) ;; *) path="${{path:+$path }}$word" ;; esac
  done
  case "$path" in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _tegula tegula
)",
                     cases);
}

std::string fish_text(const CLI::App& program) {
  std::string lines;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = command->get_name();
    lines += fmt::format("complete -c tegula -n __fish_use_subcommand -a {} -d \"{}\"\n", name,
                         command->get_description());
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
      lines += fmt::format("complete -c tegula -n '__fish_seen_subcommand_from {}' -a {}\n", name,
                           sub->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& l : option->get_lnames())
        lines +=
            fmt::format("complete -c tegula -n '__fish_seen_subcommand_from {}' -l {}\n", name, l);
  }
  return lines;
}

std::string text_for(const std::string& shell, const CLI::App& program) {
  if (shell == "fish") return fish_text(program);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + bash_text(program);
  return bash_text(program);
}

}  // namespace

void add_completion(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("completion", "Print a completion script for a shell");
  command->footer(
      "Examples:\n  source <(tegula completion bash)\n"
      "  tegula completion fish > ~/.config/fish/completions/tegula.fish");
  const auto shell = std::make_shared<std::string>("bash");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->check(one_of({"bash", "zsh", "fish"}))
      ->required();
  command->callback([shell, &program] { fmt::print("{}", text_for(*shell, program)); });
}

}  // namespace tegula::tools
