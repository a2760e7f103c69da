#pragma once
// Converts arguments of the C interface to those of a launch.
#include <tegula.h>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "tegula/export.h"

namespace tegula::c {

struct CalleeName {
  std::string_view name;
  Loc loc;
};

/// The arguments of one call, stored in place: a call with up to about 32 of them does not
/// allocate.
class Arguments {
 public:
  /// Throws CompileError if an argument is not of its parameter's kind, or its tensor is invalid.
  /// With `may_lack_memory`, tensors without memory represent aligned ones.
  Arguments(const detail::Exported& callee, std::span<const TegulaArg> args,
            bool may_lack_memory = false)
      : Arguments({callee.name(), callee.loc()}, callee.callable().params, args, may_lack_memory) {}
  /// Does the same for a callable of which only the parameters are known.
  Arguments(const CalleeName& callee, std::span<const ExportParam> params,
            std::span<const TegulaArg> args, bool may_lack_memory = false);

  std::span<const detail::HostArg> host() const { return host_; }
  /// Returns the device of the first tensor, or the best device if there are no tensors.
  Device device() const;

 private:
  std::array<std::byte, 8192> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<Tensor> tensors_{&memory_};
  std::pmr::vector<detail::HostArg> host_{&memory_};
};

/// Throws if there are more arguments than parameters, or fewer than the required ones.
void check_count(const CalleeName& callee, std::span<const ExportParam> params,
                 std::span<const TegulaArg> args);
inline void check_count(const detail::Exported& callee, std::span<const TegulaArg> args) {
  check_count({callee.name(), callee.loc()}, callee.callable().params, args);
}

/// Returns the array that C passes as a pointer and a count.
std::span<const TegulaArg> args_of(const detail::Exported& callee, const TegulaArg* args,
                                   std::int32_t count);

}  // namespace tegula::c
