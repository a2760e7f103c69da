#pragma once
// Text parsing shared by LinearLayout and SharedLayout, and tables of layouts for human readers.

#include <string>
#include <string_view>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Cursor over the text of a layout. Every `accept` skips blanks first and consumes text only on
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

/// Returns the text of one index: `0`, `7` (rank 1) or `(0,8)`.
std::string basis_str(const Dims& basis);
/// Parses the output of basis_str.
bool accept_basis(LayoutText& text, int rank, Dims& basis);

/// Returns a table of a tile of rank <= 2 (for a higher rank: of its first slice). Each cell
/// contains `w0 l5 r3`; a `+` at the end marks elements held at several coordinates, absent
/// elements are `.`. At most `max_cells` rows and columns are shown.
std::string picture(const LinearLayout& layout, int max_cells = 32);

}  // namespace tegula::ir
