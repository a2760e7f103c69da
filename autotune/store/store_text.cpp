#include "autotune/store/store_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "autotune/store/tables.h"

namespace tegula::autotune {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;

bool take(const json& from, std::string& to) {
  if (!from.is_string()) return false;
  to = from.get<std::string>();
  return true;
}
bool take(const json& from, std::int64_t& to) {
  if (!from.is_number_integer()) return false;
  to = from.get<std::int64_t>();
  return true;
}
bool take(const json& from, double& to) {
  if (!from.is_number()) return false;
  to = from.get<double>();
  return true;
}

}  // namespace

std::string line_of(const Winner& row) {
  json fields = {{"table", Winner::kTable}};
  Winner::each_field(row, [&](const char* name, const auto& v) { fields[name] = v; });
  return fields.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

template <class R>
std::optional<R> row_of(std::string_view text) {
  if (text.size() > kMaxLineBytes) return std::nullopt;
  const json fields = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object() || fields.value("table", json()) != R::kTable) return std::nullopt;
  R row;
  std::size_t known = 1;
  bool is_whole = true;
  R::each_field(row, [&](const char* name, auto& v) {
    const auto at = fields.find(name);
    is_whole = is_whole && at != fields.end() && take(*at, v);
    ++known;
  });
  if (!is_whole || known != fields.size() || !can_be_stored(row)) return std::nullopt;
  return row;
}
template std::optional<Winner> row_of<Winner>(std::string_view);

}  // namespace tegula::autotune
