// Texts of errors: the form editors and terminals recognise, one place a line.
#include "tegula/error.h"

#include <fmt/format.h>

#include <utility>

namespace tegula {
namespace {

/// `file:line:col: `, without the column or the whole where unknown.
std::string place(const Loc& loc) {
  if (!loc.known()) return {};
  if (loc.column == 0) return fmt::format("{}:{}: ", loc.file, loc.line);
  return fmt::format("{}:{}:{}: ", loc.file, loc.line, loc.column);
}

std::string joined(const std::vector<Diagnostic>& all) {
  std::string text;
  for (const Diagnostic& d : all) {
    if (!text.empty()) text += '\n';
    text += d.str();
  }
  return text;
}

std::string device_text(const std::string& message, int code, const std::string& name) {
  return name.empty() ? message : fmt::format("{} ({}, {})", message, name, code);
}

std::string internal_text(const std::string& message, const std::string& reproducer) {
  const std::string text = fmt::format("internal error: {}", message);
  return reproducer.empty() ? text : fmt::format("{}\n  reproduce: {}", text, reproducer);
}

}  // namespace

std::string Diagnostic::str() const {
  std::string text =
      fmt::format("{}error{}: {}", place(loc), code.empty() ? "" : " " + code, message);
  for (const Note& note : notes) {
    const std::string at =
        note.loc.known() ? fmt::format("{}:{}: ", note.loc.file, note.loc.line) : "";
    text += fmt::format("\n  note: {}{}", at, note.text);
  }
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

CompileError::CompileError(Diagnostic d) : Error(d.str()), all_{std::move(d)} {}

CompileError::CompileError(std::vector<Diagnostic> all) : Error(joined(all)), all_(std::move(all)) {
  // An error without a diagnostic would leave diagnostic() nothing to return.
  if (all_.empty()) throw InternalError("CompileError without a diagnostic");
}

ProgramError::ProgramError(std::vector<Diagnostic> all) : Error(joined(all)), all_(std::move(all)) {
  if (all_.empty()) throw InternalError("ProgramError without a diagnostic");
}

DeviceError::DeviceError(std::string message, int code, std::string name)
    : Error(device_text(message, code, name)), code_(code), name_(std::move(name)) {}

InternalError::InternalError(std::string message, std::string reproducer)
    : Error(internal_text(message, reproducer)),
      message_(std::move(message)),
      reproducer_(std::move(reproducer)) {}

}  // namespace tegula
