// Interning, queries and the text form of types.
#include "ir/type.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "ir/layout/linear_layout.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {

struct TypeData {
  TypeKind kind{};
  Elem elem;
  std::vector<std::int64_t> shape;
  const LinearLayout* layout = nullptr;
  const SharedLayout* shared = nullptr;
  ViewFacts facts;
  Type inner;
  std::string text;
};

namespace {

std::string join(std::span<const std::int64_t> values) {
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += 'x';
    out += values[i] == kDynamic ? "?" : fmt::format("{}", values[i]);
  }
  return out;
}

std::string elem_text(Elem e) {
  return e.pointer ? fmt::format("ptr<{}>", name(e.dtype)) : std::string(name(e.dtype));
}

bool all_ones(std::span<const std::int64_t> values) {
  for (std::int64_t v : values)
    if (v != 1) return false;
  return true;
}

bool all_dynamic(std::span<const std::int64_t> values) {
  for (std::int64_t v : values)
    if (v != kDynamic) return false;
  return true;
}

std::string view_text(const TypeData& d) {
  static constexpr const char* kAccess[] = {"in", "out", "inout"};
  std::string out = fmt::format("view<{}{}{}, {}", join(d.shape), d.shape.empty() ? "" : "x",
                                name(d.elem.dtype), kAccess[static_cast<int>(d.facts.access)]);
  if (d.facts.is_made) out += ", made";
  if (d.facts.align != 1) out += fmt::format(", align={}", d.facts.align);
  if (!all_dynamic(d.facts.strides)) out += ", strides=" + join(d.facts.strides);
  if (!all_ones(d.facts.dim_div)) out += ", dim_div=" + join(d.facts.dim_div);
  if (!all_ones(d.facts.stride_div)) out += ", stride_div=" + join(d.facts.stride_div);
  return out + ">";
}

std::string type_text(const TypeData& d) {
  switch (d.kind) {
    case TypeKind::Scalar:
      return elem_text(d.elem);
    case TypeKind::Tile:
      return fmt::format("tile<{}x{}{}>", join(d.shape), elem_text(d.elem),
                         d.layout ? ", #" + d.layout->str() : "");
    case TypeKind::Vec:
      return fmt::format("v<{}x{}>", d.shape[0], elem_text(d.elem));
    case TypeKind::View:
      return view_text(d);
    case TypeKind::Shared:
      return fmt::format("smem<{}x{}{}>", join(d.shape), name(d.elem.dtype),
                         d.shared ? ", #" + d.shared->str() : "");
    case TypeKind::Pending:
      return fmt::format("pending<{}>", d.inner.str());
    case TypeKind::TensorMap:
      return "tmap";
    case TypeKind::Token:
      return "token";
  }
  return {};
}

template <class Layout>
const Layout* intern_by_text(const Layout& layout) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::unique_ptr<const Layout>> pool;
  std::string key = layout.str();
  const std::scoped_lock lock(mutex);
  auto& slot = pool[std::move(key)];
  if (!slot) slot = std::make_unique<const Layout>(layout);
  return slot.get();
}

}  // namespace

namespace {

/// Hash of what most types differ in. Layouts are interned: their addresses identify them.
struct TypeHash {
  std::size_t operator()(const TypeData& d) const {
    std::size_t h = std::hash<const void*>{}(d.layout) ^ std::hash<const void*>{}(d.shared);
    const auto mix = [&](std::int64_t v) {
      h = (h ^ static_cast<std::size_t>(v)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    };
    mix(static_cast<std::int64_t>(d.kind) * 1024 + static_cast<std::int64_t>(d.elem.dtype) * 2 +
        (d.elem.pointer ? 1 : 0));
    for (std::int64_t extent : d.shape) mix(extent);
    for (std::int64_t stride : d.facts.strides) mix(stride);
    return h;
  }
};

struct TypeEqual {
  bool operator()(const TypeData& a, const TypeData& b) const {
    return a.kind == b.kind && a.elem == b.elem && a.shape == b.shape && a.layout == b.layout &&
           a.shared == b.shared && a.facts == b.facts && a.inner == b.inner;
  }
};

}  // namespace

Type intern_type(TypeData d) {
  static std::mutex mutex;
  static std::unordered_set<TypeData, TypeHash, TypeEqual> pool;
  const std::scoped_lock lock(mutex);
  auto found = pool.find(d);
  if (found == pool.end()) {
    d.text = type_text(d);
    found = pool.insert(std::move(d)).first;
  }
  return Type(&*found);
}

const LinearLayout* intern_layout(const LinearLayout& layout) { return intern_by_text(layout); }
const SharedLayout* intern_layout(const SharedLayout& layout) { return intern_by_text(layout); }

namespace {
TypeData data_of(TypeKind kind, Elem elem = {}, std::span<const std::int64_t> shape = {}) {
  TypeData d;
  d.kind = kind;
  d.elem = elem;
  d.shape.assign(shape.begin(), shape.end());
  return d;
}
}  // namespace

Type Type::of(Elem e) {
  // Scalars are cached: the tracer needs them so often that the lock would be measurable.
  static const auto table = [] {
    std::array<std::array<Type, 2>, kDTypeCount> t;
    for (std::size_t d = 0; d < kDTypeCount; ++d)
      for (int p = 0; p < 2; ++p)
        t[d][p] = intern_type(data_of(TypeKind::Scalar, {static_cast<DType>(d), p == 1}));
    return t;
  }();
  return table[static_cast<std::size_t>(e.dtype)][e.pointer ? 1 : 0];
}
Type Type::scalar(DType d) { return of({d, false}); }
Type Type::pointer(DType pointee) { return of({pointee, true}); }

Type Type::tile(Elem e, std::span<const std::int64_t> shape, const LinearLayout* layout) {
  TypeData d = data_of(TypeKind::Tile, e, shape);
  d.layout = layout;
  return intern_type(std::move(d));
}
Type Type::vec(Elem e, std::int64_t count) {
  return intern_type(data_of(TypeKind::Vec, e, std::span(&count, 1)));
}
Type Type::view(DType t, std::span<const std::int64_t> shape, ViewFacts facts) {
  TypeData d = data_of(TypeKind::View, {t, false}, shape);
  facts.strides.resize(shape.size(), kDynamic);
  facts.dim_div.resize(shape.size(), 1);
  facts.stride_div.resize(shape.size(), 1);
  d.facts = std::move(facts);
  return intern_type(std::move(d));
}
Type Type::shared(DType t, std::span<const std::int64_t> shape, const SharedLayout* layout) {
  TypeData d = data_of(TypeKind::Shared, {t, false}, shape);
  d.shared = layout;
  return intern_type(std::move(d));
}
Type Type::pending(Type result) {
  TypeData d = data_of(TypeKind::Pending, result.elem(), result.shape());
  d.inner = result;
  return intern_type(std::move(d));
}
Type Type::tensor_map() {
  static const Type t = intern_type(data_of(TypeKind::TensorMap));
  return t;
}
Type Type::token() {
  static const Type t = intern_type(data_of(TypeKind::Token));
  return t;
}

TypeKind Type::kind() const { return data_->kind; }
Elem Type::elem() const { return data_->elem; }
std::span<const std::int64_t> Type::shape() const { return data_->shape; }
std::int64_t Type::count() const {
  std::int64_t n = 1;
  for (std::int64_t extent : data_->shape) n *= extent;
  return n;
}
const LinearLayout* Type::layout() const { return data_->layout; }
const SharedLayout* Type::shared_layout() const { return data_->shared; }
const ViewFacts& Type::view_facts() const { return data_->facts; }
Type Type::inner() const { return data_->inner; }

Type Type::with_elem(Elem e) const {
  if (is_scalar()) return of(e);
  if (e == elem()) return *this;
  return intern_type(
      {data_->kind, e, data_->shape, data_->layout, data_->shared, data_->facts, data_->inner, {}});
}
Type Type::with_layout(const LinearLayout* layout) const {
  if (layout == data_->layout) return *this;
  return intern_type({data_->kind,
                      data_->elem,
                      data_->shape,
                      layout,
                      data_->shared,
                      data_->facts,
                      data_->inner,
                      {}});
}
std::string Type::str() const { return data_ ? data_->text : "none"; }

// ---- parsing
namespace {

bool take(std::string_view& s, std::string_view token) {
  if (!s.starts_with(token)) return false;
  s.remove_prefix(token.size());
  return true;
}

std::optional<std::int64_t> take_int(std::string_view& s) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc()) return std::nullopt;
  s.remove_prefix(static_cast<std::size_t>(end - s.data()));
  return v;
}

std::string_view take_word(std::string_view& s) {
  std::size_t n = 0;
  while (n < s.size() && (std::isalnum(static_cast<unsigned char>(s[n])) || s[n] == '_')) ++n;
  const std::string_view word = s.substr(0, n);
  s.remove_prefix(n);
  return word;
}

/// Parses `4x?x16` not followed by an element; stops before an `x` that no number follows.
std::vector<std::int64_t> take_list(std::string_view& s) {
  std::vector<std::int64_t> list;
  for (;;) {
    std::string_view rest = s;
    if (!list.empty() && !take(rest, "x")) return list;
    if (take(rest, "?")) {
      list.push_back(kDynamic);
    } else if (const auto v = take_int(rest)) {
      list.push_back(*v);
    } else {
      return list;
    }
    s = rest;
  }
}

std::optional<Elem> take_elem(std::string_view& s) {
  const bool pointer = take(s, "ptr<");
  const auto dtype = dtype_from_name(take_word(s));
  if (!dtype || (pointer && !take(s, ">"))) return std::nullopt;
  return Elem{*dtype, pointer};
}

/// Returns the text between a `#` and its matching end, which is a `,` or `>` outside all brackets.
std::string_view take_balanced(std::string_view& s) {
  int depth = 0;
  std::size_t n = 0;
  for (; n < s.size(); ++n) {
    const char c = s[n];
    if (c == '<' || c == '[' || c == '(') ++depth;
    if (c == '>' || c == ']' || c == ')')
      if (depth-- == 0) break;
  }
  const std::string_view text = s.substr(0, n);
  s.remove_prefix(n);
  return text;
}

template <class Layout>
bool take_layout(std::string_view& s, const Layout*& layout) {
  if (!take(s, ", #")) return true;
  const auto parsed = Layout::parse(take_balanced(s));
  if (!parsed) return false;
  layout = intern_layout(*parsed);
  return true;
}

std::optional<Type> receive_tile(std::string_view& s) {
  const auto shape = take_list(s);
  if (shape.empty() || !take(s, "x")) return std::nullopt;
  const auto elem = take_elem(s);
  const LinearLayout* layout = nullptr;
  if (!elem || !take_layout(s, layout) || !take(s, ">")) return std::nullopt;
  return Type::tile(*elem, shape, layout);
}

std::optional<Type> take_vec(std::string_view& s) {
  const auto count = take_int(s);
  if (!count || !take(s, "x")) return std::nullopt;
  const auto elem = take_elem(s);
  if (!elem || !take(s, ">")) return std::nullopt;
  return Type::vec(*elem, *count);
}

std::optional<Type> take_shared(std::string_view& s) {
  const auto shape = take_list(s);
  if (shape.empty() || !take(s, "x")) return std::nullopt;
  const auto elem = take_elem(s);
  const SharedLayout* layout = nullptr;
  if (!elem || !take_layout(s, layout) || !take(s, ">")) return std::nullopt;
  return Type::shared(elem->dtype, shape, layout);
}

bool take_access(std::string_view& s, Access& access) {
  const std::string_view word = take_word(s);
  if (word == "in")
    access = Access::In;
  else if (word == "out")
    access = Access::Out;
  else if (word == "inout")
    access = Access::InOut;
  else
    return false;
  return true;
}

std::optional<Type> take_view(std::string_view& s) {
  const auto shape = take_list(s);
  if (!shape.empty() && !take(s, "x")) return std::nullopt;
  const auto elem = take_elem(s);
  ViewFacts facts;
  if (!elem || !take(s, ", ") || !take_access(s, facts.access)) return std::nullopt;
  facts.is_made = take(s, ", made");
  if (take(s, ", align=")) facts.align = take_int(s).value_or(1);
  if (take(s, ", strides=")) facts.strides = take_list(s);
  if (take(s, ", dim_div=")) facts.dim_div = take_list(s);
  if (take(s, ", stride_div=")) facts.stride_div = take_list(s);
  if (!take(s, ">")) return std::nullopt;
  return Type::view(elem->dtype, shape, std::move(facts));
}

std::optional<Type> take_pending(std::string_view& s) {
  if (s.starts_with("pending<")) return std::nullopt;  // a pending value does not contain another
  const auto inner = parse_type(s);
  if (!inner || !take(s, ">")) return std::nullopt;
  return Type::pending(*inner);
}

struct TypeReader {
  std::string_view prefix;
  std::optional<Type> (*read)(std::string_view&);
};
constexpr TypeReader kReaders[] = {{"tile<", receive_tile},
                                   {"v<", take_vec},
                                   {"view<", take_view},
                                   {"smem<", take_shared},
                                   {"pending<", take_pending}};

}  // namespace

std::optional<Type> parse_type(std::string_view& text) {
  std::string_view rest = text;
  std::optional<Type> type;
  for (const TypeReader& r : kReaders) {
    if (!take(rest, r.prefix)) continue;
    type = r.read(rest);
    if (type) text = rest;
    return type;
  }
  if (take(rest, "tmap"))
    type = Type::tensor_map();
  else if (take(rest, "token"))
    type = Type::token();
  else if (const auto elem = take_elem(rest))
    type = Type::of(*elem);
  if (type) text = rest;
  return type;
}

}  // namespace tegula::ir
