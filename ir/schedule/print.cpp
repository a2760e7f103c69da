#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/schedule/reason.h"
#include "ir/schedule/text.h"

namespace tegula::ir {
namespace {

constexpr std::size_t kLineWidth = 100;

/// Joins items by two spaces into lines of at most kLineWidth characters, each indented by four.
std::string filled(const std::vector<std::string>& items) {
  std::string out, line;
  for (const std::string& item : items) {
    if (!line.empty() && 4 + line.size() + 2 + item.size() > kLineWidth) {
      out += "    " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "  ") + item;
  }
  return line.empty() ? out : out + "    " + line + "\n";
}

std::string text_of(const Role& r) {
  return fmt::format("{}(warps {}{}{})", r.name, r.warps,
                     r.copies > 1 ? fmt::format(" x {}", r.copies) : "",
                     r.regs != 0 ? fmt::format(", regs {}", r.regs) : "");
}

std::string text_of(const DotForm& d) {
  return fmt::format("{} {}{}", d.dot, name(d.engine), d.flip ? " flip" : "");
}

std::string text_of(const Tiles& t) {
  return fmt::format(
      "{}{}{}{}", name(t.order), t.cluster > 1 ? fmt::format(" cluster {}", t.cluster) : "",
      t.overlap ? " overlap" : "", t.ctas > 1 ? fmt::format(" ctas {}", t.ctas) : "");
}

std::string text_of(const Channel& c) {
  std::string out = fmt::format("{} {} slots {}", c.name, name(c.kind), c.slots);
  for (Label l : c.payload) out += fmt::format(" {}", l);
  if (c.multicast) out += " multicast";
  if (c.columns != 0) out += fmt::format(" columns {}", c.columns);
  return out;
}

std::string text_of(const Schedule& s, const Token& t) {
  return fmt::format("{} {} {{ {}{} }}", t.name, s.roles.at(t.role).name, t.first,
                     t.first == t.last ? "" : fmt::format(" .. {}", t.last));
}

std::string text_of(const Schedule& s, const Step& step) {
  return fmt::format("{} {} {}.{}{}{}", step.op, s.roles.at(step.role).name, step.stage, step.order,
                     step.in_flight != 0 ? fmt::format(" in_flight {}", step.in_flight) : "",
                     step.pin ? " pin" : "");
}

/// Returns true if two steps of a role have the same order, which renumbering would hide.
bool has_ties(const std::vector<Step>& sorted) {
  const auto have_equal_order = [](const Step& a, const Step& b) {
    return a.role == b.role && a.order == b.order;
  };
  return std::ranges::adjacent_find(sorted, have_equal_order) != sorted.end();
}

}  // namespace

Schedule canonical(Schedule s) {
  for (LoopSchedule& loop : s.loops) {
    std::ranges::stable_sort(loop.steps, {},
                             [](const Step& p) { return std::tuple(p.role, p.order); });
    if (has_ties(loop.steps)) continue;
    std::int16_t next = 0;
    for (std::size_t i = 0; i < loop.steps.size(); ++i) {
      if (i > 0 && loop.steps[i].role != loop.steps[i - 1].role) next = 0;
      loop.steps[i].order = next++;
    }
  }
  return s;
}

std::string print(const Schedule& given) {
  const Schedule s = canonical(given);
  std::string out = fmt::format("schedule {} {{\n", s.target.name());
  const auto line = [&](std::string_view keyword, std::string_view text) {
    out += fmt::format("  {:<8} {}\n", keyword, text);
  };
  std::string list;
  for (const Role& r : s.roles) list += (list.empty() ? "" : " ") + text_of(r);
  if (!list.empty()) line("roles", list);
  list.clear();
  for (const DotForm& d : s.dots) list += (list.empty() ? "" : ", ") + text_of(d);
  if (!list.empty()) line("dots", list);
  line("tiles", text_of(s.tiles));
  for (const Channel& c : s.channels) line("channel", text_of(c));
  for (const Token& t : s.tokens) line("token", text_of(s, t));
  for (const LoopSchedule& loop : s.loops) {
    std::vector<std::string> steps;
    for (const Step& step : loop.steps) steps.push_back(text_of(s, step));
    out += fmt::format("  {} {{\n{}  }}\n", loop.loop, filled(steps));
  }
  return out + "}\n";
}

Schedule with_numbered_names(Schedule s) {
  for (std::size_t i = 0; i < s.channels.size(); ++i)
    s.channels[i].name = Name(fmt::format("c{}", i));
  for (std::size_t i = 0; i < s.tokens.size(); ++i) s.tokens[i].name = Name(fmt::format("t{}", i));
  return s;
}

Hash128 hash(const Schedule& s) { return hash128(print(with_numbered_names(s))); }

}  // namespace tegula::ir
