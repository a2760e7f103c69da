#include "tools/schedule_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "ir/schedule/judge.h"
#include "ir/schedule/timeline.h"
#include "tegula/error.h"
#include "tools/markup.h"

namespace tegula::tools {
namespace {

constexpr double kPictureWidth = 1200, kPictureMargin = 28, kLabel = 128;
constexpr double kLane = 36, kSlot = 15, kGap = 10;
constexpr double kRing = 60, kWarps = 86;  ///< heights in the panel of roles and rings
/// One color per fill of a ring, so that a k-iteration has the same color everywhere.
constexpr std::array<std::string_view, 6> kColors{"#4e79a7", "#f28e2b", "#59a14f",
                                                  "#b07aa1", "#e15759", "#3a9c98"};
constexpr std::string_view kInk = "#1f2733", kGrey = "#6b7684", kPaper = "#ffffff",
                           kPanel = "#f5f7fa", kWork = "#f2c14e";

std::string_view iteration_color(std::int64_t number) {
  return kColors[static_cast<std::size_t>(number) % kColors.size()];
}

struct Box {
  double x, y, width, height;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double middle() const { return y + height / 2; }
};

/// Writes SVG elements, one per line.
class Svg {
 public:
  void rect(const Box& b, std::string_view fill, std::string_view more = "") {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}{}/>\n",
        b.x, b.y, b.width, b.height, fill, more.empty() ? "" : " ", more);
  }
  void noted(const Box& b, std::string_view fill, std::string_view more, std::string_view note) {
    out_ += fmt::format("<g><title>{}</title>", note);
    rect(b, fill, more);
    out_ += "</g>\n";
  }
  /// `anchor` is start, middle or end.
  void text(double x, double y, std::string_view words, int size, std::string_view fill = kInk,
            std::string_view anchor = "start", bool bold = false) {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" "
        "text-anchor=\"{}\"{}>{}</text>\n",
        x, y, size, fill, anchor, bold ? " font-weight=\"600\"" : "", words);
  }
  void arrow(std::string_view path, std::string_view stroke, bool dashed = false) {
    out_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{} "
        "marker-end=\"url(#tip)\"/>\n",
        path, stroke, dashed ? " stroke-dasharray=\"5 4\"" : "");
  }
  void line(double x1, double y1, double x2, double y2, std::string_view stroke) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, stroke);
  }
  void raw(std::string_view text) { out_ += text; }
  std::string finish(double height) const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
               "<defs>\n"
               "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
               "markerHeight=\"7\" "
               "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{2}\"/></marker>\n"
               "<pattern id=\"wait\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
               "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#eef1f4\"/>"
               "<rect width=\"2\" height=\"6\" fill=\"#d5dbe2\"/></pattern>\n"
               "</defs>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" rx=\"8\" fill=\"{3}\"/>\n",
               kPictureWidth, height, kGrey, kPaper) +
           out_ + "</svg>\n";
  }

 private:
  std::string out_;
};

/// Draws the whole picture from top to bottom.
class Picture {
 public:
  Picture(const ir::Kernel& k, const ir::Schedule& s, const ir::Verdict& verdict,
          const ir::Timeline& t, const std::string& title)
      : k_(k), s_(s), derived_(verdict.derived), t_(t), title_(title) {
    for (const ir::LoopSchedule& loop : s.loops)
      for (const ir::Step& step : loop.steps)
        if (s.find_dot(step.op)) consumer_ = step.role;
    for (std::size_t i = 0; i < t.actors.size(); ++i)
      (t.actors[i].role == consumer_ ? consumers_ : others_).push_back(i);
  }

  std::string draw() {
    heading();
    structure();
    timeline();
    legend();
    return svg_.finish(y_ + kPictureMargin);
  }

 private:
  void heading() {
    svg_.text(kPictureMargin, 44, escaped(title_), 20, kInk, "start", true);
    svg_.text(kPictureMargin, 66, facts(), 13, kGrey);
    y_ = 84;
  }

  /// "sm_90a, one CTA: 384 threads, 208 KB of slots; MMAs of 128 x 256 x 64 bf16; serpentine"
  std::string facts() const {
    std::set<std::string> mmas;
    ir::walk(k_, k_.body(), [&](ir::OpId op) {
      if (k_[op].opcode != ir::Opcode::Dot) return;
      const auto sums = k_.type(k_[op].results[0]);
      const auto a = k_.type(k_[op].operands[0]);
      mmas.insert(fmt::format("{} x {} x {} {}", sums.shape()[0], sums.shape()[1], a.shape().back(),
                              name(a.dtype())));
    });
    const int warps =
        std::accumulate(s_.roles.begin(), s_.roles.end(), 0,
                        [](int sum, const ir::Role& r) { return sum + r.warps * r.copies; });
    return fmt::format("{}, one CTA: {} threads, {:.0f} KB of slots; MMAs of {}; tiles: {}",
                       s_.target.name(), 32 * warps,
                       std::ceil(static_cast<double>(derived_.shared_bytes) / 1024),
                       fmt::join(mmas, ", "), ir::name(s_.tiles.order));
  }

  // ---- roles and rings
  void structure() {
    const std::size_t consumers = consumers_.size();
    const double rings_height = static_cast<double>(t_.rings.size()) * kRing + 16,
                 warps_height = static_cast<double>(consumers) * kWarps - 12;
    const Box panel{kPictureMargin, y_, kPictureWidth - 2 * kPictureMargin,
                    std::max(rings_height, warps_height) + 76};
    svg_.rect(panel, kPanel, "rx=\"8\"");
    const double middle = panel.y + 30 + (panel.height - 30) / 2;
    std::int64_t slots = 0;
    for (const ir::Timeline::Ring& r : t_.rings) slots = std::max(slots, r.slots);
    const double slot = std::min(70.0, 380.0 / static_cast<double>(slots));
    const Box producer{panel.x + 20, middle - 40 * static_cast<double>(others_.size()), 190,
                       80 * static_cast<double>(others_.size())};
    const Box warps{panel.right() - 290, middle - warps_height / 2, 270, warps_height};
    const double rings_width = 84 + static_cast<double>(slots) * slot;
    const Box rings{(producer.right() + warps.x - rings_width) / 2, middle - rings_height / 2,
                    rings_width, rings_height};
    for (std::size_t i = 0; i < others_.size(); ++i)
      draw_other({producer.x, producer.y + 80 * static_cast<double>(i), producer.width, 70},
                 t_.actors[others_[i]]);
    if (!others_.empty()) flow(producer.right() + 8, rings.x - 12, middle, "TMA loads", "empty");
    svg_.text(rings.x, panel.y + 28, "rings in shared memory", 14, kInk, "start", true);
    draw_rings(rings, slot);
    draw_consumers(warps, consumers);
    flow(rings.right() + 8, warps.x - 8, middle, "full: wgmma", "release");
    y_ = panel.bottom() + 30;
  }

  /// Data flows to the right; free slots return to the left.
  void flow(double from, double to, double middle, std::string_view data, std::string_view back) {
    const double top = middle - 14, low = middle + 14;
    svg_.arrow(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", from, top, to, top), kGrey);
    svg_.text((from + to) / 2, top - 8, data, 12, kGrey, "middle");
    svg_.arrow(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", to, low, from, low), kGrey, true);
    svg_.text((from + to) / 2, low + 19, back, 12, kGrey, "middle");
  }

  void draw_other(const Box& b, const ir::Timeline::Actor& actor) {
    const ir::Role& role = s_.roles[actor.role];
    svg_.rect(b, kPaper, "rx=\"6\" stroke=\"#c9d1da\"");
    svg_.text(b.x + 14, b.y + 24, escaped(actor.name), 14, kInk, "start", true);
    svg_.text(b.x + 14, b.y + 43, warps_of(role), 12, kGrey);
    svg_.text(b.x + 14, b.y + 60,
              fmt::format("{} registers per thread", derived_.registers[actor.role]), 12, kGrey);
  }

  static std::string warps_of(const ir::Role& role) {
    const int warps = std::min(role.warps, 4);
    return fmt::format("{} warp{}", warps, warps > 1 ? "s" : "");
  }

  void draw_rings(const Box& b, double width) {
    double y = b.y;
    for (const ir::Timeline::Ring& r : t_.rings) {
      svg_.text(b.x, y + 17, escaped(r.name), 15, kInk, "start", true);
      svg_.text(b.x, y + 34,
                fmt::format("{:.0f} KB per slot", static_cast<double>(r.slot_bytes) / 1024), 11,
                kGrey);
      for (std::int64_t s = 0; s < r.slots; ++s) {
        const Box slot{b.x + 84 + static_cast<double>(s) * width, y, width - 6, 34};
        svg_.rect(slot, iteration_color(s), "rx=\"3\" fill-opacity=\"0.85\"");
        svg_.text(slot.x + slot.width / 2, slot.y + 22, fmt::format("{}", s), 13, kPaper, "middle",
                  true);
        mbarrier(slot.x + slot.width / 2 - 7, slot.bottom() + 8, true);
        mbarrier(slot.x + slot.width / 2 + 7, slot.bottom() + 8, false);
      }
      y += kRing;
    }
    mbarrier(b.x + 4, y + 6, true);
    mbarrier(b.x + 18, y + 6, false);
    svg_.text(b.x + 30, y + 10, "mbarriers of a slot: full, empty", 11, kGrey);
  }

  void mbarrier(double x, double y, bool is_full) {
    svg_.raw(
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" stroke=\"{}\"/>\n",
                    x, y, is_full ? kGrey : kPaper, kGrey));
  }

  void draw_consumers(const Box& all, std::size_t count) {
    std::int64_t rows = 0, columns = 0;
    ir::walk(k_, k_.body(), [&](ir::OpId op) {
      if (k_[op].opcode != ir::Opcode::Dot) return;
      rows = k_.type(k_[op].results[0]).shape()[0];
      columns = std::max(columns, k_.type(k_[op].results[0]).shape()[1]);
    });
    const ir::Role& role = s_.roles[consumer_];
    const bool is_pingpong = role.copies > 1;
    const std::int64_t share = is_pingpong ? rows : rows / static_cast<std::int64_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Box b{all.x, all.y + static_cast<double>(i) * kWarps, all.width, kWarps - 12};
      svg_.rect(b, kPaper, "rx=\"6\" stroke=\"#c9d1da\"");
      svg_.text(b.x + 14, b.y + 24, escaped(t_.actors[consumers_[i]].name), 14, kInk, "start",
                true);
      svg_.text(
          b.x + 14, b.y + 43,
          fmt::format("{}, {} registers per thread", warps_of(role), derived_.registers[consumer_]),
          12, kGrey);
      const std::int64_t first = is_pingpong ? 0 : static_cast<std::int64_t>(i) * share;
      svg_.text(b.x + 14, b.y + 60,
                is_pingpong ? fmt::format("every second tile, {} x {}", rows, columns)
                            : fmt::format("rows {}..{}, accumulators of {} x {}", first,
                                          first + share - 1, share, columns),
                12, kGrey);
    }
  }

  // ---- what happens when
  double x_of(double cycle) const {
    return kPictureMargin + kLabel + cycle / t_.end * (kPictureWidth - 2 * kPictureMargin - kLabel);
  }

  void lane_label(double y, std::string_view words, std::string_view more = "") {
    svg_.text(kPictureMargin, y + 19, words, 13, kInk, "start", true);
    if (!more.empty()) svg_.text(kPictureMargin + kLabel - 10, y + 19, more, 11, kGrey, "end");
  }

  void timeline() {
    svg_.text(kPictureMargin, y_, fmt::format("timeline of {}, in cycles", drawn()), 14, kInk,
              "start", true);
    y_ += 36;
    axis(y_ - 6);
    for (std::size_t i : others_) {
      lane_label(escaped(t_.actors[i].name));
      for (const ir::Timeline::Span& s : t_.actors[i].waits)
        span(s, 0, "url(#wait)", "waits for " + escaped(s.note));
      for (const ir::Timeline::Fill& f : t_.fills)
        if (i == others_.front())
          svg_.rect({x_of(f.issued), y_ + 2, 3, kLane - 10}, iteration_color(f.number));
      y_ += kLane;
    }
    for (std::size_t ring = 0; ring < t_.rings.size(); ++ring) ring_lanes(ring);
    lane_label("tensor cores");
    for (const ir::Timeline::Span& m : t_.mmas) mma(m);
    y_ += kLane + 4;
    for (std::size_t i : consumers_) {
      lane_label(escaped(t_.actors[i].name));
      consumer_lane(t_.actors[i]);
    }
  }

  std::string drawn() const {
    std::int64_t fills = 0;
    for (const ir::Timeline::Fill& f : t_.fills) fills = std::max(fills, f.number + 1);
    return fmt::format("the first {} k-iterations", fills);
  }

  void lane_label(std::string_view words) {
    svg_.text(kPictureMargin, y_ + 20, words, 13, kInk, "start", true);
  }

  void span(const ir::Timeline::Span& s, double from, std::string_view fill,
            const std::string& note) {
    svg_.noted({x_of(s.begin), y_ + from, x_of(s.end) - x_of(s.begin), kLane - 6 - from}, fill,
               "rx=\"2\"", note);
  }

  void mma(const ir::Timeline::Span& m) {
    const Box b{x_of(m.begin), y_, x_of(m.end) - x_of(m.begin), kLane - 6};
    svg_.noted(b, iteration_color(m.number), "rx=\"2\" stroke=\"#ffffff\" stroke-width=\"0.8\"",
               fmt::format("{} of iteration {}, {}", m.text, m.number, escaped(m.note)));
    const std::string words = s_.dots.size() > 1 ? fmt::format("{} of {}", m.text, m.number)
                                                 : fmt::format("{}", m.number);
    if (b.width > 8.0 * static_cast<double>(words.size()))
      svg_.text(b.x + b.width / 2, b.y + 19, words, 11, kPaper, "middle", true);
  }

  /// MMAs of a warpgroup are above the concurrent work of its threads.
  void consumer_lane(const ir::Timeline::Actor& r) {
    for (const ir::Timeline::Span& s : r.waits)
      span(s, 8, "url(#wait)", "waits for " + escaped(s.note));
    for (const ir::Timeline::Span& s : r.computes) span(s, 8, kWork, s.note);
    for (const ir::Timeline::Span& s : r.mmas)
      svg_.rect({x_of(s.begin), y_, x_of(s.end) - x_of(s.begin) - 0.8, 6},
                iteration_color(s.number));
    for (const ir::Timeline::Span& s : r.releases)
      svg_.raw(
          fmt::format("<path d=\"M{0:.1f} {1:.1f}l4.5 8h-9z\" fill=\"{2}\" stroke=\"#ffffff\" "
                      "stroke-width=\"0.7\"/>\n",
                      x_of(s.begin), y_ + kLane - 10, iteration_color(s.number)));
    y_ += kLane + 4;
  }

  void axis(double y) {
    double step = 500;
    while (t_.end / step > 16) step *= 2;
    for (double at = 0; at <= t_.end; at += step) {
      svg_.text(x_of(at), y - 6, fmt::format("{:.0f}", at), 10, kGrey,
                at == 0 ? "start" : "middle");
      svg_.line(x_of(at), y, x_of(at), y + lanes_height(), "#e6eaee");
    }
  }
  double lanes_height() const {
    double slots = 0;
    for (const ir::Timeline::Ring& r : t_.rings)
      slots += static_cast<double>(r.slots) * kSlot + kGap;
    return slots + static_cast<double>(t_.actors.size() + 1) * (kLane + 4) - 4;
  }

  void ring_lanes(std::size_t ring) {
    const ir::Timeline::Ring& r = t_.rings[ring];
    svg_.text(kPictureMargin, y_ + 12, "ring " + escaped(r.name), 13, kInk, "start", true);
    for (std::int64_t s = 0; s < r.slots; ++s)
      svg_.text(kPictureMargin + kLabel - 10, y_ + static_cast<double>(s) * kSlot + 11,
                fmt::format("slot {}", s), 10, kGrey, "end");
    for (const ir::Timeline::Fill& f : t_.fills) {
      if (f.ring != ring) continue;
      const double y = y_ + static_cast<double>(f.slot) * kSlot;
      const Box flies{x_of(f.issued), y + 3, x_of(f.landed) - x_of(f.issued), kSlot - 8};
      svg_.noted(flies, iteration_color(f.number), "fill-opacity=\"0.35\"",
                 "the TMA load is under way");
      const Box holds{x_of(f.landed), y, std::max(0.0, x_of(f.released) - x_of(f.landed)),
                      kSlot - 2};
      svg_.noted(holds, iteration_color(f.number), "rx=\"2\"",
                 fmt::format("full, {} of {}", f.number, escaped(r.name)));
      if (holds.width > 16)
        svg_.text(holds.x + holds.width / 2, y + 10.5, fmt::format("{}", f.number), 10, kPaper,
                  "middle", true);
    }
    y_ += static_cast<double>(r.slots) * kSlot + kGap;
  }

  void legend() {
    y_ += 6;
    double x = kPictureMargin;
    const auto entry = [&](std::string_view fill, std::string_view more, std::string_view words) {
      svg_.rect({x, y_, 22, 13}, fill, more);
      svg_.text(x + 29, y_ + 11, words, 12, kGrey);
      x += 50 + 6.3 * static_cast<double>(words.size());
    };
    entry(iteration_color(0), "fill-opacity=\"0.35\"", "load under way");
    entry(iteration_color(0), "rx=\"2\"", "slot full; MMA: colors and numbers are k-iterations");
    entry("url(#wait)", "rx=\"2\"", "waits");
    entry(kWork, "rx=\"2\"", "on registers; stores");
    svg_.raw(fmt::format("<path d=\"M{:.1f} {:.1f}l4 7h-8z\" fill=\"{}\"/>\n", x + 8, y_ + 3,
                         iteration_color(0)));
    svg_.text(x + 20, y_ + 11, "releases a slot", 12, kGrey);
    y_ += 30;
    svg_.text(
        kPictureMargin, y_,
        "Drawn from the Schedule: order, waits and overlap are its own; lengths are of a simple "
        "model of an SM, not measured.",
        12, kGrey);
  }

  const ir::Kernel& k_;
  const ir::Schedule& s_;
  const ir::Derived& derived_;
  const ir::Timeline& t_;
  std::string title_;
  std::size_t consumer_ = 0;                     ///< role that issues the dots
  std::vector<std::size_t> consumers_, others_;  ///< actors of that role, and all other actors
  Svg svg_;
  double y_ = 0;
};

}  // namespace

std::string schedule_svg(const ir::Kernel& machine, const ir::Schedule& s,
                         const PictureOptions& options) {
  const ir::Graph graph(machine);
  const ir::Verdict verdict = ir::judge(machine, graph, s);
  const auto timeline = ir::timeline_of(
      machine, graph, s,
      {.iterations = options.iterations, .tiles = options.tiles, .names = options.tensors});
  if (!timeline || timeline->rings.empty())
    throw CompileError(
        Diagnostic{"",
                   fmt::format("kernel {} has {}", machine.info.name,
                               timeline ? "no rings to draw" : "roles that wait for each other"),
                   {},
                   {},
                   "only loops of dots have rings: see docs/schedule.md"});
  return Picture(machine, s, verdict, *timeline, options.title).draw();
}

}  // namespace tegula::tools
