#include "dsl/hint_attrs.h"

#include <string_view>

namespace tegula::dsl {
namespace {

constexpr std::string_view kCache[] = {"", "ca", "cg", "cs", "cv", "wb", "wt"};
constexpr std::string_view kEvict[] = {"", "first", "last", "no_allocate"};

}  // namespace

ir::AttrList attrs_of(Hints h) {
  ir::AttrList attrs;
  if (h.cache != Cache::normal) attrs.set(ir::AttrName::cache, kCache[static_cast<int>(h.cache)]);
  if (h.evict != Evict::normal) attrs.set(ir::AttrName::evict, kEvict[static_cast<int>(h.evict)]);
  return attrs;
}

}  // namespace tegula::dsl
