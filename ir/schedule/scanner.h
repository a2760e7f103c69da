#pragma once
// Scanner for the text of a Schedule, or for edits of one.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Splits a text into words and the characters `{ } ( ) , ;`. A word that starts with `#` begins a
/// comment, which extends to the end of the line. Errors are CompileErrors at the line of the
/// current word, counted from that of the text.
class ScheduleScanner {
 public:
  ScheduleScanner(std::string_view text, Loc loc);

  bool at_end() const { return next_ == words_.size(); }
  /// Returns the word `ahead` words after the next one without consuming it; empty at the end.
  std::string_view peek(std::size_t ahead = 0) const;
  /// Returns true if the next word is a label such as dot#0.
  bool at_label() const { return peek().find('#') != std::string_view::npos; }
  std::string_view take();
  /// Consumes the next word if it equals `word`, and returns true if so.
  bool take_if(std::string_view word);
  /// Consumes `word`, or throws if it is not the next word.
  void expect(std::string_view word);
  /// Consumes and returns a name or label; throws for punctuation.
  std::string_view take_name(std::string_view what);
  /// Consumes a number in [least, most] and returns it in the type of a field.
  template <class Field = int>
  Field take_number(std::string_view what, std::int64_t least = 0,
                    std::int64_t most = std::numeric_limits<Field>::max()) {
    return static_cast<Field>(take_int(what, least, most));
  }
  /// Consumes a step's stage and order, such as "1.2".
  std::pair<std::int8_t, std::int16_t> take_place();
  Loc loc() const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  std::int64_t take_int(std::string_view what, std::int64_t least, std::int64_t most);
  struct Word {
    std::string_view text;
    std::uint32_t line;
  };
  std::vector<Word> words_;
  std::size_t next_ = 0;
  Loc at_;
};

/// Parsers of phrases that a Schedule and its edits share. Callers look up the names of roles.
DotForm take_dot_form(ScheduleScanner& in);
Tiles take_tiles(ScheduleScanner& in);
Role take_role(ScheduleScanner& in);
/// Parses "4 x 2": warps per copy, and number of copies.
void take_warps(ScheduleScanner& in, Role& r);
/// Parses "{ FIRST [.. LAST] }", the range of a token.
std::pair<Label, Label> take_range(ScheduleScanner& in);
Channel take_channel(ScheduleScanner& in);
ChannelKind take_channel_kind(ScheduleScanner& in);

}  // namespace tegula::ir
