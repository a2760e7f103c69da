// Formats errors in the form that editors and terminals recognise: one location per line.
#include "tegula/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "tegula/called_from.h"

namespace tegula {
namespace {

/// Returns `file:line:col: `, without the column if it is unknown; "" if the location is unknown.
std::string location_prefix(const Loc& loc) {
  if (!loc.known()) return {};
  if (loc.column == 0) return fmt::format("{}:{}: ", loc.file, loc.line);
  return fmt::format("{}:{}:{}: ", loc.file, loc.line, loc.column);
}

/// Returns line `number` of a file; "" if the file cannot be read or the line is too long to show.
std::string source_line(const char* file, std::uint32_t number) {
  constexpr std::size_t kLongest = 200;
  std::ifstream in(file);
  std::string line;
  for (std::uint32_t i = 0; i < number; ++i)
    if (!std::getline(in, line)) return {};
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line.size() > kLongest ? std::string() : line;
}

/// Returns the source line of a location with a caret under its column, each preceded by a line
/// break; "" if the file cannot be read.
std::string snippet(const Loc& loc) {
  if (!loc.known() || loc.column == 0) return {};
  const std::string line = source_line(loc.file, loc.line);
  if (line.size() < loc.column) return {};
  std::string under = line.substr(0, loc.column - 1);
  for (char& c : under)
    if (c != '\t') c = ' ';
  return fmt::format("\n{:>5} | {}\n      | {}^", loc.line, line, under);
}

/// Returns the whole diagnostic with the source line inserted after its message.
std::string explained(const Diagnostic& d) {
  std::string text = d.str();
  const std::size_t head = location_prefix(d.loc).size() + d.message.size();
  const std::size_t end = text.find('\n', std::min(head, text.size()));
  return text.insert(std::min(end, text.size()), snippet(d.loc));
}

std::string joined(const std::vector<Diagnostic>& all) {
  std::string text;
  for (const Diagnostic& d : all) {
    if (!text.empty()) text += '\n';
    text += explained(d);
  }
  return text;
}

/// Returns the diagnostic with the driver's error added to its message, and a location.
Diagnostic with_driver_error(Diagnostic d, int code, const std::string& name) {
  const std::string error = fmt::format(" ({}, {})", name, code);
  if (!name.empty() && !d.message.ends_with(error)) d.message += error;
  return detail::at_caller({std::move(d)}).front();
}

std::string internal_text(const std::string& message, const std::string& reproducer) {
  const std::string text = fmt::format("internal error: {}", message);
  return reproducer.empty() ? text : fmt::format("{}\n  reproduce: {}", text, reproducer);
}

}  // namespace

std::string Diagnostic::str() const {
  std::string text =
      fmt::format("{}error{}: {}", location_prefix(loc), code.empty() ? "" : " " + code, message);
  for (const Note& note : notes) {
    const std::string prefix =
        note.loc.known() ? fmt::format("{}:{}: ", note.loc.file, note.loc.line) : "";
    text += fmt::format("\n  note: {}{}", prefix, note.text);
  }
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

CompileError::CompileError(Diagnostic d) : CompileError(std::vector{std::move(d)}) {}

CompileError::CompileError(std::vector<Diagnostic> all)
    : Error(joined(all = detail::at_caller(std::move(all)))), all_(std::move(all)) {
  // An error without a diagnostic would leave diagnostic() nothing to return.
  if (all_.empty()) throw InternalError("CompileError without a diagnostic");
}

ProgramError::ProgramError(std::vector<Diagnostic> all)
    : Error(joined(all = detail::at_caller(std::move(all)))), all_(std::move(all)) {
  if (all_.empty()) throw InternalError("ProgramError without a diagnostic");
}

DeviceError::DeviceError(Diagnostic d, int code, std::string name)
    : Error(explained(d = with_driver_error(std::move(d), code, name))),
      diagnostic_(std::move(d)),
      code_(code),
      name_(std::move(name)) {}

DeviceError::DeviceError(std::string message, int code, std::string name)
    : DeviceError(Diagnostic{{}, std::move(message), {}, {}, {}}, code, std::move(name)) {}

InternalError::InternalError(std::string message, std::string reproducer)
    : Error(internal_text(message, reproducer)),
      message_(std::move(message)),
      reproducer_(std::move(reproducer)) {}

}  // namespace tegula
