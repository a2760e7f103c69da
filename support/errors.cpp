// The table of mistakes (errors.def), and the formatting of their messages and hints.
#include "support/errors.h"

#include <iterator>
#include <string_view>

namespace tegula {
namespace {

constexpr ErrorRow kErrorRows[] = {
#define TEGULA_ERROR(code, name, message, hint) {#code, #name, message, hint},
#include "support/errors.def"
#undef TEGULA_ERROR
};

int placeholders(std::string_view text) {
  int n = 0;
  for (std::size_t i = text.find("{}"); i != text.npos; i = text.find("{}", i + 2)) ++n;
  return n;
}

}  // namespace

const ErrorRow& row(ErrorId mistake) { return kErrorRows[static_cast<std::size_t>(mistake)]; }
int mistake_count() { return static_cast<int>(std::size(kErrorRows)); }

Diagnostic diagnose(ErrorId mistake, Loc loc, std::vector<Note> notes, fmt::format_args arguments,
                    std::size_t count) {
  const ErrorRow& r = row(mistake);
  const int in_message = placeholders(r.message);
  if (static_cast<int>(count) != in_message + placeholders(r.hint))
    throw InternalError(fmt::format("{} is reported with a wrong number of arguments", r.code));
  // Formats both texts at once, so that automatic numbering of the arguments continues from the
  // message into the hint. Neither text contains the separator.
  constexpr char kSeparator = '\x1f';
  const std::string both =
      fmt::vformat(fmt::format("{}{}{}", r.message, kSeparator, r.hint), arguments);
  const std::size_t cut = both.find(kSeparator);
  return {r.code, both.substr(0, cut), loc, std::move(notes), both.substr(cut + 1)};
}

}  // namespace tegula
