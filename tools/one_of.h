#pragma once
// Checks of command-line words.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tegula::tools {

/// Returns a validator that accepts these words and suggests the nearest one for any other.
CLI::Validator one_of(std::vector<std::string> words);

/// Returns ": did you mean NAME?", or "" if no name is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& names);

/// Returns what is wrong with a word that is given instead of a subcommand, with the nearest
/// subcommand; "" if the last subcommand of the line is followed by no other word.
std::string unknown_subcommand(const CLI::App& program);

}  // namespace tegula::tools
