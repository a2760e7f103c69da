// {fmt} as an archive of ours: Debian 12, Ubuntu 24.04 (9.1) and Debian 13 (10.1) ship it as a
// shared library and as headers only, and the header-only form would cost every file of ours its
// compilation. The list is what 9.x and 10.x declare extern in their headers.
#include <fmt/format-inl.h>

static_assert(FMT_VERSION >= 90000 && FMT_VERSION < 110000,
              "TegulaDeps.cmake uses fmt header-only here");

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<format_context>,
                                 locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
