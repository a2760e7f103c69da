#pragma once
// The 128-bit key of a call and its run-time arguments. Every launch computes both without an
// allocation.
#include <array>
#include <cstdint>
#include <span>

#include "dsl/signature.h"
#include "runtime/launch_args.h"
#include "tegula/device.h"

namespace tegula::dsl {

class KernelInstance;

/// Distinguishes everything that Signature distinguishes.
struct CallKey {
  std::uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;

  void add(std::uint64_t word) {
    const auto product = static_cast<unsigned __int128>(word ^ a) * 0xa0761d6478bd642f;
    a = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    b = (b ^ word) * 0xe7037ed1a0b428db;
    b ^= b >> 29;
  }
  void add(const MemoryClass& m) {
    add(static_cast<std::uint64_t>(m.align) << 16 | static_cast<std::uint64_t>(m.empty) << 8 |
        m.absent);
  }
  void add(const DimClass& d) {
    add(static_cast<std::uint64_t>(d.div) << 16 | static_cast<std::uint64_t>(d.stride_div) << 8 |
        d.unit_stride);
    if (d.fixed >= 0) add(static_cast<std::uint64_t>(d.fixed));
    if (d.bucket >= 0) add(~static_cast<std::uint64_t>(d.bucket));
  }
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// Run-time arguments in the order of the kernel's parameters, stored in place.
struct CallArgs {
  static constexpr std::size_t kMax = 64;
  std::array<runtime::LaunchArg, kMax> args;
  std::array<detail::ViewAccess, kMax> access;
  std::array<bool, kMax> is_pointer;
  std::size_t count = 0;

  void add(const HostArg& a, const ParamInfo& info);
};

/// Checks and lists the arguments of a call, and makes their key. Throws CompileError if an
/// argument does not fit.
CallKey make_call_key(const KernelInstance& kernel, std::span<const HostArg> args, Device device,
                      CallArgs& out);

/// Throws CompileError if dimensions with the same name have different extents; make_call_key()
/// calls it.
void check_equal_extents(const KernelInstance& kernel, const CallArgs& args);

/// Returns false if the byte ranges or the rows of two tensors show that they have no memory in
/// common.
bool share_memory(const Tensor& a, const Tensor& b);

/// Throws CompileError if an argument that the kernel writes shares memory with another one. A
/// pointer is written if a trace has stored through it, so a first call is checked again after it
/// is traced.
void check_overlap(const KernelInstance& kernel, const CallArgs& args);

}  // namespace tegula::dsl
