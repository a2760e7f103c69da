// Paged views: subscripts along the rows become pairs of index tiles, pages and rows of a page.
#include "tegula/paged_view.h"

#include "dsl/elementwise.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula::detail {

void report_unless(const Tile& holds, const char* kind, const char* message, const Loc& at) {
  Tracer& t = Tracer::at(at, "a paged view");
  const Tracer::Pin pin(t, at);
  t.build.effect(dsl::Opcode::Assume, {t.value(holds)},
                 {{dsl::AttrName::kind, std::string_view(kind)},
                  {dsl::AttrName::message, std::string_view(message)}});
}

PageRows::PageRows(const View& cache, std::optional<In<i32, 2>> table, const Arg& request,
                   const Arg& length, PageAxes axes, Loc at)
    : table_(std::move(table)), axes_(axes) {
  Tracer& t = Tracer::at(at, "paged");
  const Tracer::Pin pin(t, at);
  cache.do_not_specialize(axes.page);
  request_ = t.tile(dsl::index_operand(t, request));
  pages_ = cache.dim(axes.page);
  Tile room = cache.dim(axes.row);
  if (table_) {
    for (const int axis : {0, 1}) table_->do_not_specialize(axis);
    table_->do_not_specialize_stride(0);
    rows_ = cache.static_dim(axes.row);
    room = table_->dim(1) * rows_;
  }
  const Tile rows = t.tile(dsl::index_operand(t, length));
  report_unless(rows <= room, "page room", "the rows of a request exceed its part of the pages",
                at);
  length_ = min(rows, room);
}

Tile PageRows::selected(const Subscript& s) const {
  if (s.is_all())
    fail(ErrorId::kernel_argument, s.loc(), {}, "a paged view", "the subscript of the rows", "all",
         "an Index, such as one of steps(length, 64), or an index tile");
  Tracer& t = Tracer::at(s.loc(), "a paged view");
  const Tile first = t.tile(dsl::index_operand(t, s.first()));
  if (s.drops_dimension()) return where(first >= 0 && first < length_, first, -1);
  const Index rows(first, s.block());
  if (!s.end().present()) return rows.until(length_).indices();
  return rows.until(min(length_, t.tile(t.value(s.end())))).indices();
}

Tile PageRows::entries(const Tile& row, const Loc& at) const {
  const Tile page = where(row >= 0, (*table_)(request_, row / rows_), -1);
  report_unless(page < pages_, "page entry",
                "an entry of the page table names no page of the cache", at);
  return page;
}

std::vector<Subscript> PageRows::subscripts(std::span<const Subscript> logical) const {
  const auto along = static_cast<std::size_t>(axes_.row - (axes_.page < axes_.row ? 1 : 0));
  const Loc at = logical[along].loc();
  Tracer& t = Tracer::at(at, "a paged view");
  const Tracer::Pin pin(t, at);
  const Tile row = selected(logical[along]);
  std::vector<Subscript> all(logical.begin(), logical.end());
  all[along] = Subscript(table_ ? row % rows_ : row).at(at);
  const Tile page = table_ ? entries(row, at) : request_;
  all.insert(all.begin() + axes_.page, Subscript(page).at(at));
  return all;
}

}  // namespace tegula::detail
