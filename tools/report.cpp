// tegula report: shows a tuning run as one self-contained HTML page.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <stdexcept>

#include "tools/commands.h"
#include "tools/markup.h"
#include "tools/report_plots.h"

namespace tegula::tools {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.4 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child, td.text { text-align: left }
svg { width: 100%; max-width: 44em; display: block; background: #fafafa; margin: .6em 0 } svg text { font-size: 11px }
.axis { stroke: #888 } .best, .ceiling { fill: none; stroke: #0a6; stroke-width: 2 } circle { fill: #258; fill-opacity: .6 }
.setting { fill: none; stroke-width: 1.5; stroke-opacity: .7 } .hidden { display: none }
rect.registers { fill: #c63 } rect.shared { fill: #258 } rect.threads { fill: #888 }
)";

/// The slider of a shape hides slower settings.
constexpr const char* kScript = R"(
for (const input of document.querySelectorAll('input.slowest'))
  input.addEventListener('input', () => {
    const section = input.closest('section');
    for (const path of section.querySelectorAll('.setting'))
      path.classList.toggle('hidden', Number(path.dataset.ratio) > Number(input.value));
  });
)";

std::string summary(const ReportedRun& run) {
  std::string rows;
  for (const ReportedShape& s : run.shapes)
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td "
        "class=\"text\">{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.3f}"
        "</td><td>{:.3f}</td><td>{}</td></tr>\n",
        escaped(s.shape), escaped(s.verdict), escaped(s.config), s.default_us, s.us, s.ratio,
        s.ratio_high, s.candidates.size());
  return fmt::format(
      "<section "
      "id=\"summary\"><h2>Shapes</h2><table><tr><th>shape</th><th>verdict</th><th>setting</th>"
      "<th>defaults, us</th><th>winner, us</th><th>ratio</th><th>at "
      "most</th><th>timed</th></tr>\n{}"
      "</table></section>\n",
      rows);
}

std::string rejections(const ReportedShape& s) {
  if (s.rejected.empty()) return {};
  std::string items;
  for (const std::string& why : s.rejected) items += "<li>" + escaped(why) + "</li>\n";
  return fmt::format(
      "<details class=\"rejected\"><summary>{} settings were left "
      "out</summary><ul>{}</ul></details>\n",
      s.rejected.size(), items);
}

std::string section_of(const ReportedShape& s, const ReportedDevice& device, std::size_t number) {
  double slowest = 1;
  for (const ReportedCandidate& c : s.candidates) slowest = std::max(slowest, c.ratio);
  return fmt::format(
      "<section class=\"shape\" "
      "id=\"shape-{}\"><h2>{}</h2>{}\n<h3>Convergence</h3>{}<h3>Settings</h3>\n"
      "<label>slowest shown <input class=\"slowest\" type=\"range\" min=\"0\" "
      "max=\"{:.3f}\" "
      "step=\"0.001\" "
      "value=\"{:.3f}\"></label>\n{}<h3>Model</h3>{}<h3>Occupancy</h3>{}<h3>Roofline</h3>{}{}</"
      "section>\n",
      number, escaped(s.shape), s.why.empty() ? "" : "<p class=\"why\">" + escaped(s.why) + "</p>",
      convergence_svg(s), slowest, slowest, parallel_svg(s), model_svg(s), occupancy_svg(s, device),
      roofline_svg(s, device), rejections(s));
}

std::string page_of(const ReportedRun& run) {
  std::string body = summary(run);
  for (std::size_t i = 0; i < run.shapes.size(); ++i)
    body += section_of(run.shapes[i], run.device, i);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tegula tune</title>"
      "<style>{}</style></head>\n<body><h1>Tuning run on "
      "{}</h1>\n{}<script>{}</script></body></html>\n",
      kStyle, escaped(run.device.name.empty() ? "an unnamed device" : run.device.name), body,
      kScript);
}

}  // namespace

void add_report(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("report", "Draw a tuning run as one page of HTML");
  command->footer(
      "Example:\n  tegula tune --lib libmine.so --shapes shapes.txt --json > run.jsonl\n"
      "  tegula report run.jsonl -o run.html");
  struct Args {
    std::string run, page;
  };
  const auto args = std::make_shared<Args>();
  command->add_option("RUN", args->run, "Events of `tegula tune --json`")->required();
  command->add_option("-o,--output", args->page, "The page (.html)")->required();
  command->callback([args] {
    const ReportedRun run = read_run(args->run);
    std::ofstream out(args->page);
    out << page_of(run);
    if (!out.flush()) throw std::runtime_error("cannot write " + args->page);
    fmt::print("{} shapes: {}\n", run.shapes.size(), args->page);
  });
}

}  // namespace tegula::tools
