#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "tegula/location.h"

/// The class of an error names who must act: kernel author, machine owner, or the authors of
/// Tegula.
namespace tegula {

/// An additional location that explains an error, e.g. where an operand was defined.
struct Note {
  Loc loc;           ///< place that explains the error
  std::string text;  ///< explanation
};

/// One error: the mistake, its location, and a way to fix it.
struct Diagnostic {
  std::string code;         ///< stable, e.g. "T0207"; empty if none is assigned
  std::string message;      ///< the mistake
  Loc loc;                  ///< the user's line; unknown if there is none
  std::vector<Note> notes;  ///< further lines
  std::string hint;         ///< a way to fix it

  /// Returns `file:line:column: error CODE: message`, then notes and the hint, one per line.
  std::string str() const;
};

/// Base class of everything that Tegula throws; `what()` is the whole text.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The kernel's author must act: the program, its arguments or its shapes are wrong.
class CompileError : public Error {
 public:
  explicit CompileError(Diagnostic d);
  /// Reports several independent faults at once, as the verifier and the checker do.
  explicit CompileError(std::vector<Diagnostic> all);
  const Diagnostic& diagnostic() const { return all_.front(); }
  const std::vector<Diagnostic>& diagnostics() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

/// The kernel's author must act, and only running the kernel could reveal it: the devices `cpu` and
/// `sim` detect errors while a program runs (races, bounds, false assumptions, elements that were
/// never stored, endless loops). Each diagnostic has a code from T1301 on.
class ProgramError : public Error {
 public:
  explicit ProgramError(std::vector<Diagnostic> all);
  const Diagnostic& diagnostic() const { return all_.front(); }
  const std::vector<Diagnostic>& diagnostics() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

/// The machine must be fixed: driver, memory, missing library, unsupported device.
class DeviceError : public Error {
 public:
  /// `code` and `name` are the driver's (0 and "" if the driver was not reached). The diagnostic
  /// is placed at the current call of the kernel library, if there is one.
  explicit DeviceError(Diagnostic d, int code = 0, std::string name = {});
  /// Reports a message without a T code, as programs that use the library do.
  explicit DeviceError(std::string message, int code = 0, std::string name = {});
  const Diagnostic& diagnostic() const { return diagnostic_; }
  int code() const { return code_; }
  const std::string& name() const { return name_; }

 private:
  Diagnostic diagnostic_;
  int code_;
  std::string name_;
};

/// An internal invariant is violated: a bug of Tegula. Contains the data to reproduce the failure.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message, std::string reproducer = {});
  /// Returns the fault, without the command that replays it.
  const std::string& message() const { return message_; }
  /// Returns a command line that replays the failure, or "".
  const std::string& reproducer() const { return reproducer_; }

 private:
  std::string message_, reproducer_;
};

}  // namespace tegula
