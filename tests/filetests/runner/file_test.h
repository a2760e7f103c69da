#pragma once
// A file test is a kernel's text with directives in its comments, each over what it must print:
//
//   ; Adding zero gives the other operand.
//   kernel @k tile (...) { ... }
//
//   ; run: opt canonicalize
//   ;> kernel @k tile (...) {
//   ;> ...
//
// To add a directive, write its line; TEGULA_BLESS=1 writes the expected lines below it.
#include <string>
#include <string_view>
#include <vector>

namespace tegula::filetest {

struct Directive {
  std::string command;   ///< "opt canonicalize"
  std::string expected;  ///< the lines under it, each with its line end
};

/// In the order of the text. Throws std::invalid_argument for an expectation under no directive.
std::vector<Directive> directives(std::string_view text);

/// The text with these outputs under its directives, in their order.
std::string with_outputs(std::string_view text, const std::vector<std::string>& outputs);

/// Output of a directive about the kernel in `text`. A CompileError or InternalError of ours is
/// printed too; DeviceError (a back end is missing) passes, and std::invalid_argument says that the
/// command itself is wrong.
///   verify            every error of the verifier, or "no errors"
///   opt PASSES        the kernel after these passes, named with commas
///   remarks PASSES    the plan and the remarks they leave; here as there PASSES may begin with the
///                     fields of the plan that change, "with stages=2: "
///   schedule EDITS    the Schedule that the passes carry out, edited (none: as it is), if it is
///                     legal; EDITS may begin with fields of the plan, too
///   eval ARGUMENTS    what the interpreter stores: for each view parameter its extents, as in
///   3x20,
///                     for each other one its value. Views that are read hold 1, 2, 3 and so on.
///   emit llvm|cuda    the code
std::string output_of(std::string_view command, std::string_view text, std::string_view file);

/// The output of `eval` with these arguments after those passes: by the interpreter in tile and
/// machine form, by the simulator in simt form. Empty where the simulator would need tensor maps.
std::string evaluated_after(std::string_view passes, std::string_view arguments,
                            std::string_view text, std::string_view file);

}  // namespace tegula::filetest
