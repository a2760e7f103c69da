#pragma once
// Words of a Schedule's text, or of edits of one.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Splits a text into words and the characters `{ } ( ) , ;`; `#` between blanks begins a comment.
/// Errors are CompileErrors at the word's line, counted from that of the text.
class ScheduleScanner {
 public:
  ScheduleScanner(std::string_view text, Loc at);

  bool at_end() const { return next_ == words_.size(); }
  /// The word `ahead` words on, without taking it; empty at the end.
  std::string_view peek(std::size_t ahead = 0) const;
  /// The next word is a label such as dot#0.
  bool at_label() const { return peek().find('#') != std::string_view::npos; }
  std::string_view take();
  /// Takes the word if it is the next one.
  bool take_if(std::string_view word);
  /// Takes the word or fails.
  void expect(std::string_view word);
  /// A name or label: no punctuation.
  std::string_view take_name(std::string_view what);
  /// A number within bounds, as the type of a field.
  template <class Field = int>
  Field take_number(std::string_view what, std::int64_t least = 0,
                    std::int64_t most = std::numeric_limits<Field>::max()) {
    return static_cast<Field>(take_int(what, least, most));
  }
  /// "1.2": a step's stage and order.
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

/// Phrases that a Schedule and its edits share. Words of roles are looked up by the caller.
DotForm take_dot_form(ScheduleScanner& in);
Tiles take_tiles(ScheduleScanner& in);
Role take_role(ScheduleScanner& in);
/// "4 x 2": warps of a copy, and copies.
void take_warps(ScheduleScanner& in, Role& r);
/// "{ FIRST [.. LAST] }" of a token.
std::pair<Label, Label> take_range(ScheduleScanner& in);
Channel take_channel(ScheduleScanner& in);
ChannelKind take_channel_kind(ScheduleScanner& in);

}  // namespace tegula::ir
