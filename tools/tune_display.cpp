#include "tools/tune_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/context.h"

namespace tegula::tools {
namespace {

using nlohmann::json;

std::size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 ? size.ws_col : 80;
}

std::string state_of(const autotune::RaceProgress& p, const std::string& best) {
  std::string text = fmt::format("{}: {} settings, {} left", p.phase, p.entered, p.racing);
  if (p.best_ns > 0)
    text += fmt::format(", best {:.2f} us ({:.3f} of default) {}", p.best_ns / 1000, p.best_ratio,
                        best);
  return text + ", eta " + duration_text(p.limit - p.seconds);
}

const char* verdict_of(const TunedShape& r) {
  if (r.was_known) return "known";
  if (r.is_low_confidence) return "low confidence";
  return r.is_replaced ? "won" : "kept";
}

}  // namespace

TunedShape shape_of(const TuneResult& r) {
  return {str(r.tuning), r.was_known,  r.is_replaced, r.is_low_confidence, r.us,
          r.ratio,       r.ratio_high, r.candidates,  r.rejected};
}

/// Each decision was tuned with the winners of the preceding ones, so that their ratios multiply.
TunedShape shape_of(const std::vector<TunedDecision>& call) {
  TunedShape out;
  out.was_known = true;
  for (const TunedDecision& d : call) {
    out.config += (out.config.empty() ? "" : "; ") + d.family + " " + d.config;
    out.was_known = out.was_known && d.was_known;
    out.is_replaced = out.is_replaced || d.is_replaced;
    out.is_low_confidence = out.is_low_confidence || d.is_low_confidence;
    if (d.us > 0) out.us = d.us;
    out.ratio *= d.ratio, out.ratio_high *= d.ratio_high;
    out.candidates += d.candidates;
    out.rejected.insert(out.rejected.end(), d.rejected.begin(), d.rejected.end());
  }
  return out;
}

std::string duration_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds < 0 ? 0 : seconds);
  const auto whole = static_cast<long>(seconds);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} m {} s", whole / 60, whole % 60);
}

TuneDisplay::TuneDisplay(int shapes, bool json, bool is_terminal)
    : shapes_(shapes), json_(json), is_terminal_(is_terminal && !json) {}

void TuneDisplay::line(const std::string& text) {
  if (is_terminal_) fmt::print("\r\033[K");
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

double TuneDisplay::seconds_left() const {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  const int measured = counts_.done() - counts_.known;
  return measured == 0 ? 0 : took.count() / measured * (shapes_ - counts_.done());
}

/// Updates the line in place.
void TuneDisplay::show_state() {
  if (!is_terminal_) return;
  std::string text = fmt::format("{}/{} shapes", counts_.done(), shapes_);
  if (counts_.done() > counts_.known) text += ", eta " + duration_text(seconds_left());
  for (const auto& [shape, state] : running_) text += fmt::format(" | {} {}", shape, state);
  fmt::print("\r\033[K{}", text.substr(0, columns_of_terminal() - 1));
  std::fflush(stdout);
}

void TuneDisplay::progress(const std::string& shape, const autotune::RaceProgress& p,
                           const std::string& best) {
  const std::lock_guard lock(mutex_);
  if (json_)
    return line(json{
        {"event", "progress"},
        {"shape", shape},
        {"phase", p.phase},
        {"candidates", p.entered},
        {"racing", p.racing},
        {"best", best},
        {"ratio", p.best_ratio},
        {"us", p.best_ns / 1000},
        {"seconds", p.seconds},
        {"limit",
         p.limit}}.dump());
  running_[shape] = state_of(p, best);
  show_state();
}

void TuneDisplay::timed(const std::string& shape, const autotune::TimedSetting& s) {
  if (!json_) return;
  const std::lock_guard lock(mutex_);
  line(json{{"event", "candidate"},
            {"shape", shape},
            {"config", s.config},
            {"us", s.known.ns / 1000},
            {"ratio", s.known.ratio},
            {"samples", s.known.samples},
            {"seconds", s.seconds},
            {"estimate_us", s.estimate_us},
            {"registers", s.code.registers},
            {"threads", s.code.threads},
            {"shared_bytes", s.code.shared_bytes}}
           .dump());
}

void TuneDisplay::device(Device device) {
  if (!json_) return;
  json event{{"event", "device"}, {"name", device.str()}};
  if (device.kind == DeviceKind::cuda) {
    const runtime::DeviceProperties& p = runtime::device_properties(device.index);
    event["name"] = p.name;
    event["registers_per_sm"] = p.registers_per_sm;
    event["shared_per_sm"] = p.shared_bytes_per_sm;
    // Two transfers a clock.
    event["bytes_per_s"] = 2.0 * 1000 * p.memory_clock_khz * p.memory_bus_bits / 8;
  }
  const std::lock_guard lock(mutex_);
  line(event.dump());
}

void TuneDisplay::finished(const std::string& shape, const TunedShape& r, const CallWork& work) {
  const std::lock_guard lock(mutex_);
  running_.erase(shape);
  ++(r.was_known           ? counts_.known
     : r.is_low_confidence ? counts_.low
     : r.is_replaced       ? counts_.won
                           : counts_.kept);
  if (json_)
    return line(json{{"event", "shape"},
                     {"shape", shape},
                     {"verdict", verdict_of(r)},
                     {"config", r.config},
                     {"us", r.us},
                     {"ratio", r.ratio},
                     {"ratio_high", r.ratio_high},
                     {"candidates", r.candidates},
                     {"rejected", r.rejected},
                     {"bytes", work.bytes},
                     {"flops", work.flops}}
                    .dump());
  line(fmt::format("{}/{} {}: {} {} ({:.3f} of default{}, {} settings)", counts_.done(), shapes_,
                   shape, verdict_of(r), r.config, r.ratio,
                   r.us > 0 ? fmt::format(", {:.2f} us", r.us) : "", r.candidates));
  show_state();
}

void TuneDisplay::failed(const std::string& shape, const std::string& why) {
  const std::lock_guard lock(mutex_);
  running_.erase(shape);
  ++counts_.failed;
  if (json_)
    return line(
        json{{"event", "shape"}, {"shape", shape}, {"verdict", "failed"}, {"why", why}}.dump());
  line(fmt::format("{}/{} {}: failed: {}", counts_.done(), shapes_, shape, why));
  show_state();
}

void TuneDisplay::not_reached(const std::string& shape) {
  const std::lock_guard lock(mutex_);
  ++counts_.not_reached;
  if (json_) line(json{{"event", "not reached"}, {"shape", shape}}.dump());
}

void TuneDisplay::end() {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  if (json_)
    return line(json{{"event", "end"},
                     {"won", counts_.won},
                     {"kept", counts_.kept},
                     {"known", counts_.known},
                     {"low", counts_.low},
                     {"failed", counts_.failed},
                     {"not_reached", counts_.not_reached},
                     {"seconds", took.count()}}
                    .dump());
  const std::string not_reached =
      counts_.not_reached == 0 ? "" : fmt::format(", {} not reached", counts_.not_reached);
  line(fmt::format("{} shapes: {} won, {} kept, {} known, {} of low confidence, {} failed{}, in {}",
                   shapes_, counts_.won, counts_.kept, counts_.known, counts_.low, counts_.failed,
                   not_reached, duration_text(took.count())));
}

}  // namespace tegula::tools
