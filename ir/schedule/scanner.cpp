#include "ir/schedule/scanner.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <utility>

#include "ir/schedule/words.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

constexpr std::string_view kPunctuation = "{}(),;";

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool is_mark(std::string_view word) {
  return word.size() == 1 && kPunctuation.find(word[0]) != std::string_view::npos;
}

/// Returns true if the whole word is a number of the type, and stores the number in `value`.
template <class Number>
bool is_number(std::string_view word, Number& value) {
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value);
  return error == std::errc() && end == last;
}

template <std::size_t N>
std::string listed(const std::array<std::string_view, N>& words) {
  std::string out;
  for (std::string_view w : words) out += (out.empty() ? "" : ", ") + std::string(w);
  return out;
}

template <class Enum, std::size_t N>
Enum take_word(ScheduleScanner& in, std::string_view what,
               const std::array<std::string_view, N>& words) {
  const auto value = value_of_word<Enum>(words, in.peek());
  if (!value) in.fail(fmt::format("{} ({})", what, listed(words)));
  in.take();
  return *value;
}

}  // namespace

ScheduleScanner::ScheduleScanner(std::string_view text, Loc loc) : at_(loc) {
  std::uint32_t line = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\n') ++line;
    if (is_blank(text[i])) {
      ++i;
    } else if (text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else {
      std::size_t end = i + 1;
      if (!is_mark(text.substr(i, 1)))
        while (end < text.size() && !is_blank(text[end]) && !is_mark(text.substr(end, 1))) ++end;
      words_.push_back({text.substr(i, end - i), line});
      i = end;
    }
  }
}

std::string_view ScheduleScanner::peek(std::size_t ahead) const {
  return next_ + ahead < words_.size() ? words_[next_ + ahead].text : std::string_view();
}

std::string_view ScheduleScanner::take() {
  if (at_end()) fail("more text");
  return words_[next_++].text;
}

bool ScheduleScanner::take_if(std::string_view word) {
  if (peek() != word) return false;
  ++next_;
  return true;
}

void ScheduleScanner::expect(std::string_view word) {
  if (!take_if(word)) fail(fmt::format("'{}'", word));
}

std::string_view ScheduleScanner::take_name(std::string_view what) {
  if (at_end() || is_mark(peek())) fail(std::string(what));
  return take();
}

std::int64_t ScheduleScanner::take_int(std::string_view what, std::int64_t least,
                                       std::int64_t most) {
  std::int64_t value = 0;
  if (!is_number(peek(), value) || value < least || value > most)
    fail(fmt::format("{} (a number from {} to {})", what, least, most));
  take();
  return value;
}

std::pair<std::int8_t, std::int16_t> ScheduleScanner::take_place() {
  const std::string_view word = peek();
  const std::size_t dot = word.find('.');
  std::int8_t stage = 0;
  std::int16_t order = 0;
  if (dot == std::string_view::npos || !is_number(word.substr(0, dot), stage) ||
      !is_number(word.substr(dot + 1), order) || order < 0)
    fail("a place stage.order, such as 1.0");
  take();
  return {stage, order};
}

Loc ScheduleScanner::loc() const {
  const std::uint32_t line = words_.empty() ? 0
                             : at_end()     ? words_.back().line
                                            : words_[next_].line;
  return at_.known() ? Loc(at_.file, at_.line + line) : Loc("schedule", 1 + line);
}

void ScheduleScanner::fail(const std::string& message) const {
  const std::string found = at_end() ? "the end" : fmt::format("'{}'", peek());
  tegula::fail(ErrorId::bad_schedule, loc(), {}, message, found);
}

// ---- phrases
ChannelKind take_channel_kind(ScheduleScanner& in) {
  return take_word<ChannelKind>(in, "a channel's kind", kChannelKinds);
}

DotForm take_dot_form(ScheduleScanner& in) {
  DotForm d;
  d.dot = Label(in.take_name("a dot's label"));
  d.engine = take_word<Engine>(in, "a dot's engine", kEngines);
  d.flip = in.take_if("flip");
  return d;
}

Tiles take_tiles(ScheduleScanner& in) {
  Tiles t;
  t.order = take_word<TileOrder>(in, "the order of tiles", kTileOrders);
  if (in.take_if("cluster")) t.cluster = in.take_number("a cluster", 1, 16);
  t.overlap = in.take_if("overlap");
  if (in.take_if("ctas")) t.ctas = in.take_number("CTAs of an SM", 1, 32);
  return t;
}

void take_warps(ScheduleScanner& in, Role& r) {
  r.warps = in.take_number("the warps of a role", 1, 32);
  r.copies = in.take_if("x") ? in.take_number("copies of a role", 1, 8) : 1;
}

std::pair<Label, Label> take_range(ScheduleScanner& in) {
  in.expect("{");
  const Label first(in.take_name("a label"));
  const Label last = in.take_if("..") ? Label(in.take_name("a label")) : first;
  in.expect("}");
  return {first, last};
}

Role take_role(ScheduleScanner& in) {
  Role r;
  r.name = Name(in.take_name("a role's name"));
  in.expect("(");
  in.expect("warps");
  take_warps(in, r);
  if (in.take_if(",")) {
    in.expect("regs");
    r.regs = in.take_number("registers", 0, 255);
  }
  in.expect(")");
  return r;
}

Channel take_channel(ScheduleScanner& in) {
  Channel c;
  c.name = Name(in.take_name("a channel's name"));
  c.kind = take_channel_kind(in);
  if (in.take_if("slots")) c.slots = in.take_number("slots", 1, 64);
  while (in.at_label() && in.peek(1) != "{") c.payload.emplace_back(in.take());
  if (c.payload.empty()) in.fail("a label of an op that uses the channel");
  c.multicast = in.take_if("multicast");
  if (in.take_if("columns")) c.columns = in.take_number("columns", 1, 4096);
  return c;
}

}  // namespace tegula::ir
