#include "autotune/calls/decision.h"

#include <mutex>
#include <tuple>

namespace tegula::autotune {
namespace {

thread_local DecisionScope* current_scope = nullptr;

/// Winners tuned by this process, of any numerics.
class TunedHere {
 public:
  using Key = std::tuple<std::string, std::string, std::string>;

  std::optional<std::string> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = configs_.find(key);
    return at == configs_.end() ? std::nullopt : std::optional(at->second);
  }
  void set(Key key, const std::string& config) {
    const std::lock_guard lock(mutex_);
    configs_[std::move(key)] = config;
  }
  static TunedHere& of_process() {
    static auto* const here = new TunedHere;
    return *here;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::string> configs_;
};

}  // namespace

DecisionScope::DecisionScope(const Given& given)
    : given_(given), outer_(std::exchange(current_scope, this)) {}
DecisionScope::~DecisionScope() { current_scope = outer_; }
DecisionScope* DecisionScope::current() { return current_scope; }

std::optional<std::string> DecisionScope::note(Decision decision) {
  const auto key = decision.key();
  if (std::ranges::none_of(noted_, [&](const Decision& d) { return d.key() == key; }))
    noted_.push_back(std::move(decision));
  const auto at = given_.find(key);
  return at == given_.end() ? std::nullopt : std::optional(at->second);
}

WinnerTable::Family winners_of(const std::string& device, const Family& family) {
  return WinnerTable::of_process().family(
      {device, std::string(family.name), family.version, "", kSameBits});
}

std::optional<std::string> usable_winner(const std::string& device, const Family& family,
                                         const std::string& problem) {
  if (auto here = TunedHere::of_process().find({device, std::string(family.name), problem}))
    return here;
  const auto winner = WinnerTable::of_process().find(
      {device, std::string(family.name), family.version, problem, kSameBits});
  return winner ? std::optional(winner->config) : std::nullopt;
}

void use_winner(const std::string& device, const std::string& family, const std::string& problem,
                const std::string& config) {
  TunedHere::of_process().set({device, family, problem}, config);
}

}  // namespace tegula::autotune
