#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "tegula/location.h"

/// Errors are classed by who must act: the kernel's author, the machine's owner, or us.
namespace tegula {

/// One further place that explains an error, e.g. where an operand was made.
struct Note {
  Loc loc;
  std::string text;
};

/// One error: the mistake, its place, and one way to mend it.
struct Diagnostic {
  std::string code;  ///< stable, e.g. "T0207"; empty where none is assigned
  std::string message;
  Loc loc;
  std::vector<Note> notes;
  std::string hint;

  /// `file:line:column: error CODE: message`, then notes and the hint, one a line.
  std::string str() const;
};

/// Base of everything Tegula throws; `what()` is the whole text.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The kernel's author must act: the program, its arguments or its shapes are wrong.
class CompileError : public Error {
 public:
  explicit CompileError(Diagnostic d);
  /// Several independent faults found in one go (the verifier and the checker report all).
  explicit CompileError(std::vector<Diagnostic> all);
  const Diagnostic& diagnostic() const { return all_.front(); }
  const std::vector<Diagnostic>& diagnostics() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

/// The kernel's author must act, and only running the kernel could tell: what the devices `cpu` and
/// `sim` find in a program while it runs (races, bounds, false assumptions, elements that nobody
/// stored, endless loops). Each diagnostic has a code from T1301 on.
class ProgramError : public Error {
 public:
  explicit ProgramError(std::vector<Diagnostic> all);
  const Diagnostic& diagnostic() const { return all_.front(); }
  const std::vector<Diagnostic>& diagnostics() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

/// The machine must be mended: driver, memory, missing library, unsupported device.
class DeviceError : public Error {
 public:
  /// `code` and `name` are the driver's (0 and "" where the driver was not reached).
  DeviceError(std::string message, int code = 0, std::string name = {});
  int code() const { return code_; }
  const std::string& name() const { return name_; }

 private:
  int code_;
  std::string name_;
};

/// We must act: a broken invariant. Carries what is needed to reproduce it.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message, std::string reproducer = {});
  /// The fault, without the command that replays it.
  const std::string& message() const { return message_; }
  /// A command line that replays the failure, or empty.
  const std::string& reproducer() const { return reproducer_; }

 private:
  std::string message_, reproducer_;
};

}  // namespace tegula
