#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tegula/hints.h"
#include "tegula/placed_text.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Memory by address: pointer tiles with masks, atomics, and inline PTX.
///
/// The order of a program's accesses. A program's effects on memory happen in program order, as if
/// one thread ran it: a read sees earlier stores, scatters and atomics of the same program (through
/// a view or an address, of an earlier iteration too), and an overwrite happens after earlier
/// reads. The compiler inserts a barrier where that takes one, and nowhere else. If one scatter
/// stores several values at one address, one of them stays.
///
/// Programs are ordered among each other only by atomics with `MemoryOrder::acquire` and
/// `MemoryOrder::release`, what is made of these (`arrive_and_test_last`, `grid_barrier`,
/// programs.h), and the ends of kernels: a release publishes all earlier effects of the program,
/// and a program that acquires from it sees them in all it does afterwards. Two programs that
/// access one element without such an order, one of them by a plain write, are in error.
///
/// Nobody writes an `In` tensor while the kernel runs, and different arguments are different
/// memory: a call whose written argument (Out, InOut, a Ptr that is stored through) overlaps
/// another one throws CompileError, unless the kernel is `may_alias()`. For a Ptr given as a bare
/// address, this is up to the caller.
namespace tegula {

/// Reads each address. If the mask is false, nothing is read and the element is `fill`; without a
/// fill using it is an error that the interpreter reports.
Tile load(const Arg& pointers, const Arg& mask = {}, const Arg& fill = {}, Hints hints = {});
/// Writes each value (rounded to the pointee) where the mask is true.
void store(const Arg& pointers, const Arg& values, const Arg& mask = {}, Hints hints = {});

enum class MemoryOrder : std::uint8_t { relaxed, acquire, release, acq_rel };
enum class MemoryScope : std::uint8_t { cta, cluster, gpu, sys };

/// Reads each address in one step, at the time at which the program comes by, whatever other
/// programs do to it meanwhile. `acquire`: what was released there is seen from here on. A
/// masked-off element is no value. Relaxed or acquire, else CompileError.
Tile atomic_load(const Arg& pointers, const Arg& mask = {},
                 MemoryOrder order = MemoryOrder::acquire, MemoryScope scope = MemoryScope::gpu);
/// Writes each value in one step, for programs that read it by atomics. `release`: who acquires it
/// sees what this program has done. Relaxed or release, else CompileError.
void atomic_store(const Arg& pointers, const Arg& values, const Arg& mask = {},
                  MemoryOrder order = MemoryOrder::release, MemoryScope scope = MemoryScope::gpu);
/// Compare and swap: where memory holds the bits of `expected` it gets `desired`, in one step;
/// returns the old values, which are `expected` where it did. Elements of 16, 32 or 64 bits, else
/// CompileError.
Tile atomic_cas(const Arg& pointers, const Arg& expected, const Arg& desired, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);

/// Adds to each address atomically; returns the old values, which all threads of the program get: a
/// branch around it must be taken by all of them. Atomic operations take every type but bool, and
/// of fp8 an exchange only; where the hardware has no instruction (8 and 16 bits, extremes of
/// floats) a loop of compare and swap does it. Extremes of floats ignore NaN: it loses against
/// every number.
Tile atomic_add(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_max(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_min(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_xchg(const Arg& pointers, const Arg& values, const Arg& mask = {},
                 MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
/// Bit by bit, of integers.
Tile atomic_and(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_or(const Arg& pointers, const Arg& values, const Arg& mask = {},
               MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_xor(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
/// The same on a sub-view: `atomic_add(count(expert), 1)`, or on a whole tile, by programs that
/// share a result: `atomic_add(C(m, n), acc)`. Returns the old values. If the kernel does not use
/// them, accumulators are added by TMA like other results (`cp.reduce.async.bulk.tensor`). Elements
/// outside the tensor are dropped. Sums of floats depend on the order in which programs come, and
/// subnormal ones of f32 count as 0.
Tile atomic_add(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());
Tile atomic_max(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());
Tile atomic_min(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());

/// For programs that combine results: publishes all writes of this program, and tells whether it is
/// the last of `count` programs to do so at this counter (a u32 that is 0). The last one, and no
/// other, sees the earlier writes of all of them, and the counter is 0 again:
/// `if_(arrive_and_test_last(counters + tile, parts), [&] { .. })`. Nobody waits, so it does not
/// matter how many programs run at once.
Tile arrive_and_test_last(const Arg& counter, const Arg& count);

/// All threads of the program meet: each sees what the others did before. The order of a program's
/// accesses never needs it, as the compiler places the barriers that it takes; it is for what the
/// compiler does not see, such as inline PTX. One that stands where the compiler would place one
/// takes its place. Nothing on `cpu`.
void barrier(std::source_location at = std::source_location::current());

/// Inline PTX on each element: $0 is the result, $1 ... the operands; `constraints` as LLVM spells
/// them ("=f,f,f"). Runs on GPUs only: give a model for the devices `cpu` and `sim`.
Tile ptx(std::string_view text, std::string_view constraints, DType result, const Arg& a,
         const Arg& b = {}, const Arg& c = {});
template <Element T>
Tile ptx(std::string_view text, std::string_view constraints, const Arg& a, const Arg& b = {},
         const Arg& c = {}) {
  return ptx(text, constraints, dtype_of<T>, a, b, c);
}

namespace detail {
Tile ptx_with_model(const PlacedText& text, std::string_view constraints, DType result,
                    std::span<const Arg> args,
                    const std::function<Tile(std::span<const Tile>)>& model);
}

/// The same with a model, a function of the operands' tiles that gives what the PTX gives, as a
/// tile of T: `ptx<u32>("brev.b32 $0, $1;", "=r,r", [](const Tile& x) { return reversed_bits(x); },
/// x)`. The devices `cpu` and `sim` compute the model; GPUs execute the PTX, and nothing of the
/// model.
template <Element T, class Model, class... Args>
  requires(sizeof...(Args) > 0 &&
           std::is_invocable_v<Model, std::conditional_t<true, const Tile&, Args>...>)
Tile ptx(const detail::PlacedText& text, std::string_view constraints, Model model,
         const Args&... args) {
  const std::array<Arg, sizeof...(Args)> all{Arg(args)...};
  return detail::ptx_with_model(text, constraints, dtype_of<T>, all,
                                [&](std::span<const Tile> tiles) {
                                  return [&]<std::size_t... I>(std::index_sequence<I...>) {
                                    return Tile(model(tiles[I]...));
                                  }(std::index_sequence_for<Args...>{});
                                });
}

/// States a fact the compiler may use; the interpreter and the simulator check it.
void assume(const Arg& fact);

}  // namespace tegula
