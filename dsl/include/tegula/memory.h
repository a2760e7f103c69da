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
#include "tegula/lambda.h"
#include "tegula/placed_text.h"
#include "tegula/value.h"
#include "tegula/view.h"

/// Memory by address: pointer tiles with masks, atomics, and inline PTX.
///
/// The order of a program's accesses. A program's effects on memory happen in program order, as if
/// one thread ran it: a read sees earlier stores, scatters and atomics of the same program (through
/// a view or an address, in an earlier iteration too), and an overwrite happens after earlier
/// reads. The compiler inserts a barrier where this requires one, and nowhere else. If one scatter
/// stores several values to one address, one of them remains.
///
/// Programs are ordered among each other only by atomics with `MemoryOrder::acquire` and
/// `MemoryOrder::release`, by functions built on these (`arrive_and_test_last`, `grid_barrier`,
/// programs.h), and by the ends of kernels: a release publishes all earlier effects of the program,
/// and a program that acquires from it sees them in all later accesses. It is an error if two
/// programs access one element without such an order and one of the accesses is a plain write.
///
/// Nobody writes an `In` tensor while the kernel runs, and different arguments are different
/// memory: a call whose written argument (Out, InOut, a Ptr that is stored through) overlaps
/// another one throws CompileError, unless the kernel is `may_alias()`. For a Ptr given as a bare
/// address, this is up to the caller.
namespace tegula {

/// Reads each address. If the mask is false, nothing is read and the element is `fill`; without a
/// fill, using the element is an error that the interpreter reports.
Tile load(const Arg& pointers, const Arg& mask = {}, const Arg& fill = {}, Hints hints = {});
/// Writes each value (rounded to the pointee) where the mask is true.
void store(const Arg& pointers, const Arg& values, const Arg& mask = {}, Hints hints = {});

/// Order of an atomic access relative to the program's other accesses.
enum class MemoryOrder : std::uint8_t {
  relaxed,  ///< none
  acquire,  ///< later accesses see what was released at the address
  release,  ///< publishes earlier effects of the program
  acq_rel,  ///< both
};
/// Programs among which an access is atomic and ordered.
enum class MemoryScope : std::uint8_t {
  cta,      ///< the program itself
  cluster,  ///< programs of its cluster
  gpu,      ///< programs of its GPU
  sys,      ///< programs of all GPUs, and the host
};

/// Reads each address atomically at the time of the call, whatever other programs do to it
/// meanwhile. `acquire`: what was released there is visible from here on. Elements whose mask is
/// false have no value. `order` is relaxed or acquire, else CompileError.
Tile atomic_load(const Arg& pointers, const Arg& mask = {},
                 MemoryOrder order = MemoryOrder::acquire, MemoryScope scope = MemoryScope::gpu);
/// Writes each value atomically, for programs that read it by atomics. `release`: programs that
/// acquire it see all earlier effects of this program. Relaxed or release, else CompileError.
void atomic_store(const Arg& pointers, const Arg& values, const Arg& mask = {},
                  MemoryOrder order = MemoryOrder::release, MemoryScope scope = MemoryScope::gpu);
/// Compare and swap: if memory contains the bits of `expected`, replaces them by `desired`,
/// atomically. Returns the old values, which are `expected` where the swap succeeded. Elements of
/// 16, 32 or 64 bits, else CompileError.
Tile atomic_cas(const Arg& pointers, const Arg& expected, const Arg& desired, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);

/// Adds to each address atomically. Returns the old values to all threads of the program: a
/// branch around it must be taken by all of them. Atomic operations support every type but bool;
/// fp8 supports exchange only. Without a hardware instruction (8 and 16 bits, extremes of
/// floats) they are compare-and-swap loops. Extremes of floats ignore NaN: every number wins
/// against it.
Tile atomic_add(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_max(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_min(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_xchg(const Arg& pointers, const Arg& values, const Arg& mask = {},
                 MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
/// Bitwise, for integers.
Tile atomic_and(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_or(const Arg& pointers, const Arg& values, const Arg& mask = {},
               MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
Tile atomic_xor(const Arg& pointers, const Arg& values, const Arg& mask = {},
                MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::gpu);
/// Does the same on a sub-view: `atomic_add(count(expert), 1)`, or on a whole tile, for programs
/// that share a result: `atomic_add(C(m, n), acc)`. Returns the old values. If the kernel does not
/// use them, accumulators are added by TMA like other results (`cp.reduce.async.bulk.tensor`).
/// Elements outside the tensor are dropped. Sums of floats depend on the order of the programs, and
/// subnormal f32 values are treated as 0.
Tile atomic_add(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());
Tile atomic_max(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());
Tile atomic_min(const ViewTile& target, const Arg& values,
                std::source_location at = std::source_location::current());

/// Combines the results of several programs: publishes all writes of this program, and returns true
/// in the last of `count` programs to do so at this counter (a u32 that is initially 0). Only the
/// last one sees the earlier writes of all of them, and the counter is 0 again:
/// `if_(arrive_and_test_last(counters + tile, parts), [&] { .. })`. No program waits, so it does
/// not matter how many run at once.
Tile arrive_and_test_last(const Arg& counter, const Arg& count);

/// Synchronizes all threads of the program: each sees the earlier effects of the others. Accesses
/// of a program never need it, because the compiler inserts their barriers. It is for effects that
/// the compiler does not see, such as those of inline PTX. If the compiler would insert a barrier
/// here, this one replaces it. Has no effect on `cpu`.
void barrier(std::source_location at = std::source_location::current());

/// Inline PTX on each element: $0 is the result, $1 ... the operands; `constraints` are in LLVM's
/// syntax ("=f,f,f"). Runs on GPUs only; the devices `cpu` and `sim` need a model.
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

/// Does the same with a model, a function of the operands' tiles that computes the result of the
/// PTX as a tile of T: `ptx<u32>("brev.b32 $0, $1;", "=r,r", [](const Tile& x) { return
/// reversed_bits(x); }, x)`. The devices `cpu` and `sim` compute the model; GPUs execute only the
/// PTX.
template <Element T, class Model, class... Args>
  requires(sizeof...(Args) > 0 && !std::is_convertible_v<Model, Arg>)
Tile ptx(const detail::PlacedText& text, std::string_view constraints, Model model,
         const Args&... args) {
  static_assert(detail::Gives<Tile, Model, std::conditional_t<true, const Tile, Args>...>,
                "tegula: the model of ptx takes one Tile per operand and returns one");
  const std::array<Arg, sizeof...(Args)> all{Arg(args)...};
  return detail::ptx_with_model(text, constraints, dtype_of<T>, all,
                                [&](std::span<const Tile> tiles) {
                                  return [&]<std::size_t... I>(std::index_sequence<I...>) {
                                    return detail::result_of<Tile>(model, tiles[I]...);
                                  }(std::index_sequence_for<Args...>{});
                                });
}

/// States a fact that the compiler may use; the interpreter and the simulator check it.
void assume(const Arg& fact);

}  // namespace tegula
