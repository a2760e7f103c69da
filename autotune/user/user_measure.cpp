#include "autotune/user/user_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "autotune/user/compiled_candidates.h"
#include "autotune/user/untuned.h"
#include "autotune/worker/isolated_measure.h"
#include "dsl/errors.h"
#include "support/warnings.h"

namespace tegula::autotune {
UserMeasure::UserMeasure(dsl::KernelInstance& kernel, const UserSpace& space,
                         std::span<const dsl::HostArg> args, Device device, Options options)
    : kernel_(kernel),
      space_(space),
      args_(args),
      device_(device),
      options_(std::move(options)),
      launches_(make_launch_measure(tensors_, device, {options_.may_change_bits})) {}

UserMeasure::~UserMeasure() = default;

void UserMeasure::say(const std::string& line) const {
  if (options_.progress) options_.progress(line);
}

/// Compiles a candidate. Candidates with defects that the passes already report (unless the
/// reference has some, too) are not assembled: assembly takes longest for them, and they never win.
void UserMeasure::compile(int candidate, Candidate& c, Prepared& out) {
  const auto tuned = kernel_.with(space_.settings[static_cast<std::size_t>(candidate)]);
  c.preferred = preferred_plan(*tuned, args_, device_);
  c.instance = tuned->preferring(c.preferred);
  if (candidate != 0 && !is_degraded_ && !device_.on_host()) {
    out.why = defects_of(c.instance->launcher.try_passes(*c.instance, device_, args_));
    if (!out.why.empty()) {
      out.verdict = Verdict::refused;
      return;
    }
  }
  const Stream stream(device_);
  c.kernel = c.instance->launcher.prepare(*c.instance, &stream, args_);
  add_code(out, *c.kernel, device_);
  if (candidate == 0) is_degraded_ = out.is_degraded;
}

Prepared UserMeasure::compile_one(int candidate, Candidate& c) {
  Prepared p;
  try {
    const WarningsMuted muted;  // warnings of a losing candidate are irrelevant
    compile(candidate, c, p);
  } catch (const Error& e) {
    if (candidate == 0) throw;  // an error of the caller's own kernel
    p.verdict = Verdict::refused;
    p.why = e.what();
  }
  return p;
}

/// Returns the index of a tensor among those of the call. A tensor given twice is copied once.
int UserMeasure::tensor_of(const Tensor& tensor, detail::ViewAccess access, std::size_t position) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_same(tensors_[i].tensor, tensor)) continue;
    if (tensors_[i].access != access) tensors_[i].access = detail::ViewAccess::InOut;
    return static_cast<int>(i);
  }
  tensors_.push_back({tensor, access, position});
  return static_cast<int>(tensors_.size() - 1);
}

MeasuredArgs UserMeasure::args_of(const Candidate& c) {
  std::vector<std::size_t> positions;  // of the run-time arguments; captured ones follow
  for (std::size_t i = 0; i < args_.size(); ++i)
    if (kernel_.params()[i].kind != dsl::ParamKind::Constant) positions.push_back(i);
  dsl::CallArgs call;
  dsl::make_call_key(*c.instance, args_, device_, call);
  MeasuredArgs out(call.count);
  for (std::size_t i = 0; i < call.count; ++i) {
    const Tensor* const tensor = call.args[i].tensor;
    const std::size_t position =
        i < positions.size() ? positions[i] : args_.size() + i - positions.size();
    out[i].is_address = call.is_pointer[i];
    out[i].bits = call.args[i].bits;
    if (call.is_pointer[i] && tensor == nullptr)  // the size to copy is unknown
      fail(ErrorId::tuned_address, kernel_.loc(), {}, kernel_.callee().argument(position));
    if (tensor != nullptr) out[i].tensor = tensor_of(*tensor, call.access[i], position);
  }
  return out;
}

void UserMeasure::load(int candidate, const Candidate& c, Prepared& out) {
  const MeasuredArgs args = args_of(c);
  try {
    launches_->load(candidate, {{{c.kernel, args}}});
  } catch (const Error& e) {
    if (candidate == 0) throw;
    out.verdict = Verdict::refused;
    out.why = e.what();
  }
}

std::vector<Prepared> UserMeasure::prepare(std::span<const int> candidates) {
  std::vector<Prepared> out(candidates.size());
  std::vector<Candidate> made(candidates.size());
  on_all_threads(candidates.size(),
                 [&](std::size_t i) { out[i] = compile_one(candidates[i], made[i]); });
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    preferred_[candidates[i]] = made[i].preferred;
    if (out[i].verdict == Verdict::ok) load(candidates[i], made[i], out[i]);
  }
  compiled_ += candidates.size();
  say(fmt::format("compiled {} settings", compiled_));
  return out;
}

Round UserMeasure::round(std::span<const int> candidates, int repetitions, std::uint64_t seed) {
  Round out = launches_->round(candidates, repetitions, seed);
  say(fmt::format("timed {} settings {} times, defaults {:.2f} us", candidates.size(), repetitions,
                  reference_ns() / 1000));
  return out;
}

void UserMeasure::forget(int candidate) {
  if (candidate != 0) launches_->forget(candidate);
}

}  // namespace tegula::autotune
