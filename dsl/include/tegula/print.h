#pragma once
#include <array>
#include <span>

#include "tegula/placed_text.h"
#include "tegula/print_sink.h"
#include "tegula/value.h"

/// Printing from a running kernel, on every device. Programs append records to a buffer, which is
/// read once the kernel has ended: on `cpu` and `sim` before the call returns, on a GPU by
/// Stream::synchronize and copies of tensors to the host. A kernel that has any of these waits for
/// memory beside its own work, and is compiled for them.
namespace tegula {

namespace detail {
void record_print(const PlacedText& format, std::span<const Arg> values);
void record_assert(const Arg& condition, const PlacedText& message, std::span<const Arg> values);
}  // namespace detail

/// A line for each program that comes by: `{}` stands for a value each, a scalar or a whole tile,
/// whose rows are in brackets and whose absent elements are `-`. The programs' lines come in the
/// order of their numbers, "name(3): ..", those of one program in its order. At most 4096 elements
/// a line (CompileError). Lines that do not fit in the buffer of 4 MB are counted and dropped.
template <class... Values>
void print(const detail::PlacedText& format, const Values&... values) {
  const std::array<Arg, sizeof...(Values)> all_of{Arg(values)...};
  detail::record_print(format, all_of);
}

/// States what must hold: where an element that is present is false, ProgramError (T1316) with the
/// message, in which `{}` stands for a value each, and the line; thrown by whoever reads the
/// records. The program goes on.
template <class... Values>
void device_assert(const Arg& condition, const detail::PlacedText& message,
                   const Values&... values) {
  const std::array<Arg, sizeof...(Values)> all_of{Arg(values)...};
  detail::record_assert(condition, message, all_of);
}

/// Prints how many elements of a float tile are NaN, and the first of them in row-major order,
/// where there are any.
void watch_nan(const Arg& tile, const detail::PlacedText& name);

}  // namespace tegula
