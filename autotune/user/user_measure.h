#pragma once
// Candidates of a user's kernel: compiled in this process by all threads, run by a LaunchMeasure.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "autotune/user/launch_measure.h"
#include "autotune/user/user_space.h"
#include "dsl/instance.h"

namespace tegula::autotune {

class UserMeasure : public Measure {
 public:
  struct Options {
    bool may_change_bits = false;
    std::function<void(const std::string&)> progress;
  };
  /// Candidate i is setting i of `space`, with the reference first. `args` must outlive this
  /// object.
  UserMeasure(dsl::KernelInstance& kernel, const UserSpace& space,
              std::span<const dsl::HostArg> args, Device device, Options options);
  ~UserMeasure() override;

  std::vector<Prepared> prepare(std::span<const int> candidates) override;
  CheckResult try_once(int candidate) override { return launches_->try_once(candidate); }
  CheckResult check(int candidate) override { return launches_->check(candidate); }
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override;
  void forget(int candidate) override;
  double reference_ns() const override { return launches_->reference_ns(); }
  /// Returns the fields of the plan that a prepared candidate was compiled to prefer.
  PlanPatch preferred(int candidate) const { return preferred_.at(candidate); }

 private:
  struct Candidate {
    std::shared_ptr<dsl::KernelInstance> instance;
    std::shared_ptr<const runtime::CompiledKernel> kernel;
    PlanPatch preferred;
  };
  Prepared compile_one(int candidate, Candidate& c);
  void compile(int candidate, Candidate& c, Prepared& out);
  void load(int candidate, const Candidate& c, Prepared& out);
  MeasuredArgs args_of(const Candidate& c);
  int tensor_of(const Tensor& tensor, detail::ViewAccess access, std::size_t position);
  void say(const std::string& line) const;

  dsl::KernelInstance& kernel_;
  const UserSpace& space_;
  std::span<const dsl::HostArg> args_;
  Device device_;
  Options options_;
  MeasuredTensors tensors_;
  std::unique_ptr<LaunchMeasure> launches_;
  std::map<int, PlanPatch> preferred_;
  bool is_degraded_ = false;  ///< the reference's code is degraded
  std::size_t compiled_ = 0;
};

}  // namespace tegula::autotune
