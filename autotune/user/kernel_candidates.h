#pragma once
// The settings of a user's kernel as candidates.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "autotune/user/call_candidates.h"
#include "autotune/user/user_space.h"

namespace tegula::autotune {

class KernelCandidates : public CallCandidates {
 public:
  /// The settings are those of `space`, the reference the first. All must outlive this. Throws
  /// CompileError for an address that is not a tensor's: nothing says how much to copy.
  KernelCandidates(dsl::KernelInstance& kernel, const UserSpace& space,
                   std::span<const dsl::HostArg> args);

  Prepared compile(int candidate, const Stream& stream) override;
  void run(int candidate, const Stream& stream, std::span<const dsl::HostArg> args) override;
  void forget(int candidate) override;
  std::span<const tegula::detail::ViewAccess> access() const override { return access_; }

 private:
  dsl::KernelInstance& kernel_;
  const UserSpace& space_;
  std::span<const dsl::HostArg> args_;
  std::vector<tegula::detail::ViewAccess> access_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<dsl::KernelInstance>> made_;
  std::atomic<bool> is_degraded_ = false;  ///< the reference's code
};

}  // namespace tegula::autotune
