#pragma once
#include <array>
#include <span>

#include "tegula/placed_text.h"
#include "tegula/print_sink.h"
#include "tegula/value.h"

/// Printing from a running kernel, on every device. Programs append records to a buffer, which is
/// read after the kernel has ended: on `cpu` and `sim` before the call returns, on a GPU by
/// Stream::synchronize and copies of tensors to the host. A kernel that uses these functions is
/// slower: it contains additional code and memory accesses.
namespace tegula {

namespace detail {
void record_print(const PlacedText& format, std::span<const Arg> values);
void record_assert(const Arg& condition, const PlacedText& message, std::span<const Arg> values);
}  // namespace detail

/// Prints a line for each program that reaches it. Each `{}` becomes a value, a scalar or a tile
/// with rows in brackets and `-` for absent elements. The lines, "name(3): ..", are ordered by
/// program number, those of one program by time. At most 4096 elements per line (CompileError).
/// Lines that do not fit in the buffer of 4 MB are counted and dropped.
template <class... Values>
void print(const detail::PlacedText& format, const Values&... values) {
  const std::array<Arg, sizeof...(Values)> all_of{Arg(values)...};
  detail::record_print(format, all_of);
}

/// Checks a condition: if a present element is false, throws ProgramError (T1316) with the line and
/// the message, in which each `{}` is replaced by a value. The call that reads the records throws
/// it; the program continues.
template <class... Values>
void device_assert(const Arg& condition, const detail::PlacedText& message,
                   const Values&... values) {
  const std::array<Arg, sizeof...(Values)> all_of{Arg(values)...};
  detail::record_assert(condition, message, all_of);
}

/// Prints the number of NaN elements of a float tile and the first of them in row-major order, if
/// there are any.
void watch_nan(const Arg& tile, const detail::PlacedText& name);

}  // namespace tegula
