#include "tools/report_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <tuple>

#include "tools/rank_correlation.h"

#include "tools/markup.h"

namespace tegula::tools {
namespace {

constexpr double kPlotWidth = 640, kPlotHeight = 260, kPlotMargin = 48;

/// A linear map from values to a range of the picture.
struct Axis {
  double low, high, from, to;
  double operator()(double v) const {
    return high == low ? (from + to) / 2 : from + (v - low) / (high - low) * (to - from);
  }
};
Axis across(double low, double high) { return {low, high, kPlotMargin, kPlotWidth - kPlotMargin}; }
Axis up(double low, double high) { return {low, high, kPlotHeight - kPlotMargin, kPlotMargin / 2}; }

std::string text_at(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                     escaped(text));
}
std::string line_of(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     kind, x1, y1, x2, y2);
}
std::string plot_svg(const char* kind, const std::string& body) {
  return fmt::format("<svg class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\">{}</svg>\n", kind,
                     kPlotWidth, kPlotHeight, body);
}
std::string frame(const std::string& x_title, const std::string& y_title) {
  return line_of(kPlotMargin, kPlotHeight - kPlotMargin, kPlotWidth - kPlotMargin,
                 kPlotHeight - kPlotMargin, "axis") +
         line_of(kPlotMargin, kPlotHeight - kPlotMargin, kPlotMargin, kPlotMargin / 2, "axis") +
         text_at(kPlotWidth / 2, kPlotHeight - 8, x_title) +
         text_at(kPlotMargin, 14, y_title, "start");
}
std::string empty_plot(const char* kind, const std::string& why) {
  return plot_svg(kind, text_at(kPlotWidth / 2, kPlotHeight / 2, why));
}

/// Returns green for fast, red for slow.
std::string colour_of(double ratio, double best, double worst) {
  const double share = worst == best ? 0 : (ratio - best) / (worst - best);
  return fmt::format("hsl({:.0f} 70% 42%)", 120 * (1 - share));
}

std::pair<double, double> range_of_ratios(const ReportedShape& shape) {
  const auto [low, high] = std::ranges::minmax(shape.candidates, {}, &ReportedCandidate::ratio);
  return {low.ratio, high.ratio};
}

std::vector<const ReportedCandidate*> by_speed(const ReportedShape& shape) {
  std::vector<const ReportedCandidate*> order;
  for (const ReportedCandidate& c : shape.candidates) order.push_back(&c);
  std::ranges::stable_sort(order, {}, [](const ReportedCandidate* c) { return c->ratio; });
  return order;
}

/// Sorts numbers by value, then words alphabetically.
struct ByValue {
  bool operator()(const std::string& a, const std::string& b) const { return key(a) < key(b); }
  static std::tuple<bool, double, std::string> key(const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool is_word = end != text.c_str() + text.size();
    return {is_word, is_word ? 0 : number, text};
  }
};
using AxisValues = std::set<std::string, ByValue>;

std::string ticks(const Axis& x, const Axis& y) {
  return text_at(x.from, kPlotHeight - kPlotMargin + 16, fmt::format("{:.3g}", x.low)) +
         text_at(x.to, kPlotHeight - kPlotMargin + 16, fmt::format("{:.3g}", x.high)) +
         text_at(kPlotMargin - 4, y.from, fmt::format("{:.3g}", y.low), "end") +
         text_at(kPlotMargin - 4, y.to + 8, fmt::format("{:.3g}", y.high), "end");
}

}  // namespace

std::string convergence_svg(const ReportedShape& shape) {
  if (shape.candidates.empty()) return empty_plot("convergence", "nothing was timed");
  std::vector<ReportedCandidate> order = shape.candidates;
  std::ranges::stable_sort(order, {}, &ReportedCandidate::seconds);
  const auto [best, worst] = range_of_ratios(shape);
  const Axis x = across(0, order.back().seconds), y = up(std::min(best, 1.0), std::max(worst, 1.0));
  std::string body = frame("seconds", "time over the defaults'") + ticks(x, y), path;
  double so_far = 1;
  for (const ReportedCandidate& c : order) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x(c.seconds), y(so_far));
    so_far = std::min(so_far, c.ratio);
    path += fmt::format(" L{:.1f} {:.1f}", x(c.seconds), y(so_far));
    body +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {:.3f}</title></circle>",
                    x(c.seconds), y(c.ratio), escaped(c.config), c.ratio);
  }
  return plot_svg("convergence", body + fmt::format("<path class=\"best\" d=\"{}\"/>", path));
}

std::string parallel_svg(const ReportedShape& shape) {
  std::set<std::string> names;
  for (const ReportedCandidate& c : shape.candidates)
    for (const auto& [name, value] : c.values()) names.insert(name);
  if (names.empty()) return empty_plot("parallel", "nothing was timed");
  std::string body;
  std::vector<std::pair<Axis, AxisValues>> axes;
  double at = kPlotMargin;
  for (const std::string& name : names) {
    AxisValues values;
    for (const ReportedCandidate& c : shape.candidates)
      if (const auto all = c.values(); all.contains(name)) values.insert(all.at(name));
    const Axis y = up(0, static_cast<double>(values.size()) - 1);
    body += line_of(at, y.from, at, y.to, "axis") + text_at(at, kPlotHeight - 16, name);
    int i = 0;
    for (const std::string& v : values) body += text_at(at - 4, y(i++) + 4, v, "end");
    axes.emplace_back(y, std::move(values));
    at += names.size() > 1 ? (kPlotWidth - 2 * kPlotMargin) / static_cast<double>(names.size() - 1)
                           : 0;
  }
  const auto [best, worst] = range_of_ratios(shape);
  for (const ReportedCandidate* c : by_speed(shape)) {
    std::string path;
    double x = kPlotMargin;
    auto axis = axes.begin();
    const auto values = c->values();
    for (const std::string& name : names) {
      if (const auto v = values.find(name); v != values.end()) {
        const auto i = std::distance(axis->second.begin(), axis->second.find(v->second));
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x,
                            axis->first(static_cast<double>(i)));
      }
      x += names.size() > 1 ? (kPlotWidth - 2 * kPlotMargin) / static_cast<double>(names.size() - 1)
                            : 0;
      ++axis;
    }
    body += fmt::format(
        "<path class=\"setting\" data-ratio=\"{:.4f}\" style=\"stroke:{}\" d=\"{}\"><title>{} "
        "{:.3f}"
        "</title></path>",
        c->ratio, colour_of(c->ratio, best, worst), path, escaped(c->config), c->ratio);
  }
  return plot_svg("parallel", body);
}

std::string model_svg(const ReportedShape& shape) {
  std::vector<double> estimates, times;
  std::string points;
  for (const ReportedCandidate& c : shape.candidates)
    if (c.estimate_us > 0 && c.us > 0)
      estimates.push_back(std::log10(c.estimate_us)), times.push_back(std::log10(c.us));
  if (estimates.empty()) return empty_plot("model", "there is no model");
  const auto [low_x, high_x] = std::ranges::minmax(estimates);
  const auto [low_y, high_y] = std::ranges::minmax(times);
  const double low = std::min(low_x, low_y), high = std::max(high_x, high_y);
  const Axis x = across(low, high), y = up(low, high);
  for (std::size_t i = 0; i < estimates.size(); ++i)
    points +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", x(estimates[i]), y(times[i]));
  const auto in_us = [](Axis axis) {
    axis.low = std::pow(10, axis.low), axis.high = std::pow(10, axis.high);
    return axis;
  };
  return plot_svg("model", frame("estimated us", "measured us") + ticks(in_us(x), in_us(y)) +
                               line_of(x.from, y.from, x.to, y.to, "axis") + points +
                               text_at(x.to, kPlotMargin / 2,
                                       fmt::format("rank correlation {:.2f}",
                                                   rank_correlation(estimates, times)),
                                       "end"));
}

std::string occupancy_svg(const ReportedShape& shape, const ReportedDevice& device) {
  constexpr std::size_t kRows = 10;
  std::string body;
  double y = 20;
  for (const ReportedCandidate* c : by_speed(shape)) {
    const Occupancy o = occupancy_of(*c, device);
    if (o.ctas == 0 || y > 20 + 22.0 * kRows) continue;
    body += fmt::format("<rect class=\"{}\" x=\"260\" y=\"{:.1f}\" width=\"{}\" height=\"14\"/>",
                        o.limiter == std::string("shared memory") ? "shared" : o.limiter, y,
                        20 * std::min(o.ctas, 12));
    body += text_at(250, y + 12, fmt::format("{} ({:.3f})", c->config, c->ratio), "end") +
            text_at(266 + 20 * std::min(o.ctas, 12), y + 12,
                    fmt::format("{} by {}", o.ctas, o.limiter), "start");
    y += 22;
  }
  return body.empty() ? empty_plot("occupancy", "registers and threads are not known")
                      : plot_svg("occupancy", body);
}

std::string roofline_svg(const ReportedShape& shape, const ReportedDevice& device) {
  if (shape.bytes == 0 || shape.us == 0 || device.bytes_per_s == 0)
    return empty_plot("roofline", "the GPU's rates, or the time of a call, are not known");
  const double flops = shape.flops > 0 ? shape.flops : shape.bytes;  // one operation per byte
  const double intensity = flops / shape.bytes, rate = flops / (shape.us * 1e-6);
  const double peak = device.flops_per_s > 0 ? device.flops_per_s : device.bytes_per_s * 100;
  const double knee = peak / device.bytes_per_s;
  const double low = std::min(intensity, knee) / 8, high = std::max(intensity, knee) * 8;
  const Axis x = across(std::log10(low), std::log10(high));
  const Axis y = up(std::log10(std::min(rate, low * device.bytes_per_s) / 2), std::log10(peak * 2));
  std::string body = frame("operations per byte", "operations per second");
  body +=
      fmt::format("<path class=\"ceiling\" d=\"M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f}\"/>",
                  x(x.low), y(std::log10(low * device.bytes_per_s)), x(std::log10(knee)),
                  y(std::log10(peak)), x(x.high), y(std::log10(peak)));
  for (const ReportedCandidate& c : shape.candidates)
    body += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>", x(std::log10(intensity)),
                        y(std::log10(flops / (c.us * 1e-6))));
  const double share = rate / std::min(peak, intensity * device.bytes_per_s);
  return plot_svg("roofline",
                  body + text_at(x(std::log10(intensity)) + 6, y(std::log10(rate)),
                                 fmt::format("{:.0f} % of the ceiling", 100 * share), "start"));
}

}  // namespace tegula::tools
