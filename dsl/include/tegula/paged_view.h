#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tegula/view.h"

/// Caches whose rows are scattered over pages, as views of one request's rows.
namespace tegula {

/// The dimensions of a cache that count its pages and the rows of a page.
struct PageAxes {
  int page = 0, row = 1;
};

namespace detail {

/// Where the rows of one request are: row r is row r % rows of page table[request, r / rows], or,
/// without a table, row r of page `request`.
class PageRows {
 public:
  /// Compiles the kernel for the number of rows per page, if there is a table, and for any number
  /// of pages.
  PageRows(const View& cache, std::optional<In<i32, 2>> table, const Arg& request,
           const Arg& length, PageAxes axes, Loc at);

  /// Returns the subscripts of the cache for those of the paged view.
  std::vector<Subscript> subscripts(std::span<const Subscript> logical) const;
  const Tile& length() const { return length_; }

 private:
  /// Returns the rows that a subscript selects. Rows at or beyond the length are absent if they are
  /// part of a box; others are -1.
  Tile selected(const Subscript& s) const;
  Tile entries(const Tile& row, const Loc& at) const;

  std::optional<In<i32, 2>> table_;
  Tile request_, length_, pages_;
  std::int64_t rows_ = 0;  ///< per page; 0 without a table
  PageAxes axes_;
};

/// Makes `cpu` and `sim` report the finding of this kind where `holds` is false (findings.def).
void report_unless(const Tile& holds, const char* kind, const char* message, const Loc& at);

template <class Cache, class Ranks>
class Paged;
template <class Cache, std::size_t... I>
class Paged<Cache, std::index_sequence<I...>> {
 public:
  Paged(const Cache& cache, PageRows rows) : cache_(cache), rows_(std::move(rows)) {}

  /// Returns the number of rows: the length that was given, reduced to the room of the pages.
  const Tile& length() const { return rows_.length(); }

  auto operator()(SubscriptAt<I>... s) const {
    const std::array<Subscript, sizeof...(I)> logical{s...};
    const std::vector<Subscript> of_cache = rows_.subscripts(logical);
    return [&]<std::size_t... J>(std::index_sequence<J...>) {
      return cache_(of_cache[J]...);
    }(std::make_index_sequence<sizeof...(I) + 1>());
  }

 private:
  Cache cache_;
  PageRows rows_;
};

}  // namespace detail

/// The rows of one request in a cache of pages: a view with one dimension less than the cache, in
/// which the dimensions of pages and of rows are one dimension of `length` rows, in the place of
/// the rows' dimension. Subscripts are those of the cache. Rows of a box at or beyond the length
/// are absent; rows whose table entry is negative are 0, and stores to them are dropped.
template <Element T, int Rank, class Cache = In<T, Rank + 1>>
class PagedView : public detail::Paged<Cache, std::make_index_sequence<Rank>> {
 public:
  using detail::Paged<Cache, std::make_index_sequence<Rank>>::Paged;
};

/// Returns the first `length` rows of a request. `table` [requests, pages] names the pages of its
/// rows in order; without a table, page `request` has all of them. `cpu` and `sim` report entries
/// that name no page (T1689), and a length beyond the request's part of the table (T1690); on other
/// devices such rows are 0, and the length is reduced. Pages of one cache have equally many rows,
/// which the kernel is compiled for.
///
///     const auto K = paged(cache, table, request, length);   // cache [pages, rows, heads, dim]
///     for (auto n : steps(length, 64)) scores = dot(q, K(n, h, d).trans());
template <template <Element, int> class V, Element T, int Rank>
PagedView<T, Rank - 1, V<T, Rank>> paged(
    const V<T, Rank>& cache, const std::optional<In<i32, 2>>& table, const Arg& request,
    const Arg& length, PageAxes axes = {},
    std::source_location at = std::source_location::current()) {
  return {cache, detail::PageRows(cache, table, request, length, axes, at)};
}

}  // namespace tegula
