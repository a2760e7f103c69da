#pragma once
// Reading layouts: the pieces of text that LinearLayout and SharedLayout share, and pictures for
// humans.

#include <string>
#include <string_view>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Cursor over the text of a layout; every `accept` skips blanks first and consumes only on
/// success.
class LayoutText {
 public:
  explicit LayoutText(std::string_view text) : rest_(text) {}
  bool accept(std::string_view token);
  bool accept(int& number);
  bool at_end();
  std::string where() const { return std::string(rest_.substr(0, 20)); }

 private:
  std::string_view rest_;
};

/// The spelling of one index: `0`, `7` (rank 1) or `(0,8)`.
std::string basis_str(const Dims& basis);
/// Reads what basis_str wrote.
bool accept_basis(LayoutText& text, int rank, Dims& basis);

/// Table of a tile of rank <= 2 (of higher rank: its first slice): each cell says `w0 l5 r3`,
/// duplicates on more places end in `+`, absent elements are `.`. At most `max_cells` rows and
/// columns are shown.
std::string picture(const LinearLayout& layout, int max_cells = 32);

}  // namespace tegula::ir
