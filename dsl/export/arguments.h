#pragma once
// Arguments of the C interface as those of a launch.
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

/// The arguments of one call, in place: a call allocates nothing for up to about 32 of them.
class Arguments {
 public:
  /// Throws CompileError where an argument is not of its parameter's kind, or no tensor. Tensors
  /// without memory stand for aligned ones where `may_lack_memory`.
  Arguments(const detail::Exported& callee, std::span<const TegulaArg> args,
            bool may_lack_memory = false)
      : Arguments({callee.name(), callee.loc()}, callee.callable().params, args, may_lack_memory) {}
  /// The same for a callable that is known by its parameters alone.
  Arguments(const CalleeName& callee, std::span<const ExportParam> params,
            std::span<const TegulaArg> args, bool may_lack_memory = false);

  std::span<const detail::HostArg> host() const { return host_; }
  /// Device of the first tensor; without one the best.
  Device device() const;

 private:
  std::array<std::byte, 8192> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<Tensor> tensors_{&memory_};
  std::pmr::vector<detail::HostArg> host_{&memory_};
};

/// Refuses more arguments than parameters, and fewer than those that must be given.
void check_count(const CalleeName& callee, std::span<const ExportParam> params,
                 std::span<const TegulaArg> args);
inline void check_count(const detail::Exported& callee, std::span<const TegulaArg> args) {
  check_count({callee.name(), callee.loc()}, callee.callable().params, args);
}

/// The array that C gives as a pointer and a count.
std::span<const TegulaArg> args_of(const detail::Exported& callee, const TegulaArg* args,
                                   std::int32_t count);

}  // namespace tegula::c
