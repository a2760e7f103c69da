// Records written by running kernels: their words are stored through pointers, as in a user's
// kernel.
#include "tegula/print.h"

#include "dsl/elementwise.h"
#include "dsl/memory_attrs.h"
#include "runtime/records.h"
#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/shape_ops.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

using runtime::RecordKind;

constexpr std::int64_t kMaxElements = 4096;

/// A value of a record: two words per element, and whether each element is present.
struct PrintedWords {
  Tile low, high, is_present;
  std::int64_t count;
  runtime::RecordedValue value;
};

std::string_view name_of(RecordKind kind) {
  if (kind == RecordKind::Nan) return "watch_nan";
  return kind == RecordKind::Print ? "print" : "device_assert";
}

/// Throws CompileError unless the text has a `{}` for each value.
void require_places(RecordKind kind, const detail::PlacedText& text, std::size_t values) {
  const std::string_view all(text.text);
  std::size_t places = 0;
  for (auto at = all.find("{}"); at != all.npos; at = all.find("{}", at + 2)) ++places;
  if (places != values)
    fail(ErrorId::print_count, text.loc, {}, name_of(kind), places, values, "{}");
}

/// Returns the type in which an element is written.
DType written_as(DType d) {
  if (is_bool(d)) return d;
  if (is_float(d)) return d == DType::f64 ? d : DType::f32;
  return is_signed(d) ? DType::i64 : DType::u64;
}

PrintedWords printed_words(Tracer& t, const Arg& x) {
  const ir::Value given = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(given);
  if (type.is_pointer())
    fail(ErrorId::pointer_operand, x.loc(), {t.origin(given, "the value")}, "print");
  const DType d = written_as(type.dtype());
  PrintedWords w;
  w.count = type.is_tile() ? type.count() : 1;
  w.value = {d, {type.shape().begin(), type.shape().end()}};
  Tile v = t.tile(given);
  if (type.rank() > 1) v = ravel(v);
  w.is_present = type.is_tile() ? dsl::presence(t, t.value(v)) : v == v || v != v;
  if (type.is_tile()) v = fill_absent(v, 0);
  v = cast(v, d);
  if (d == DType::f32 || is_bool(d)) {
    w.low = is_bool(d) ? cast<u32>(v) : bitcast<u32>(v);
    w.high = w.low & 0;
  } else {
    const Tile bits = bitcast<u64>(v);
    w.low = cast<u32>(bits & 0xffffffffu);
    w.high = cast<u32>(bits >> 32);
  }
  return w;
}

class Recorder {
 public:
  Recorder(Tracer& t, RecordKind kind, const detail::PlacedText& text, std::span<const Arg> values)
      : t_(t), pin_(t, text.loc) {
    if (t.grid_done) fail(ErrorId::after_grid, text.loc, {{t.grid_loc, "the grid loop"}});
    for (const auto& [scope, what] :
         {std::pair{ScopeKind::Map, "map"}, {ScopeKind::Fold, "reduce or scan"}})
      if (t.in_scope(scope)) fail(ErrorId::fold_body, text.loc, {}, name_of(kind), what, what);
    std::int64_t elements = 0;
    for (const Arg& x : values) {
      values_.push_back(printed_words(t, x));
      elements += values_.back().count;
    }
    if (elements > kMaxElements) fail(ErrorId::print_size, text.loc, {}, elements, kMaxElements);
    length_ = runtime::kRecordHeader + runtime::kElementWords * elements;
    runtime::RecordSite site{kind, t.kernel.info.name, std::string(text.text), text.loc, {}};
    for (const PrintedWords& w : values_) site.values.push_back(w.value);
    site_ = runtime::record_site(site);
    buffer_ = t.tile(t.param(t.param_of_records()));
  }

  void record() {
    const Tile at = atomic_add(buffer_, length_);
    const Tile fits =
        at < static_cast<std::int64_t>(runtime::kRecordWords) - runtime::kRecordHead - length_;
    atomic_add(buffer_ + 1, 1, fits == false);
    const Tile first = buffer_ + (at + runtime::kRecordHead);
    const Tile program = t_.tile(
        t_.build.op(Opcode::ProgramId, {}, ir::Type::scalar(DType::i32), {{AttrName::axis, 0}}));
    store(first + 1, site_, fits);
    store(first + 2, cast<u32>(program), fits);
    std::int64_t offset = runtime::kRecordHeader;
    for (const PrintedWords& w : values_) {
      put(first + offset, w, fits);
      offset += runtime::kElementWords * w.count;
    }
    // Store the length last: the host may read while other kernels run.
    atomic_store(first, length_, fits, MemoryOrder::release, MemoryScope::sys);
  }

 private:
  static void put(const Tile& to, const PrintedWords& w, const Tile& fits) {
    const int stride = runtime::kElementWords;
    const Tile at = w.low.rank() == 0 ? to : to + arange(w.count) * stride;
    store(at, w.low, fits);
    store(at + 1, w.high, fits);
    store(at + 2, cast<u32>(w.is_present), fits);
  }

  Tracer& t_;
  Tracer::Pin pin_;
  std::vector<PrintedWords> values_;
  std::int64_t length_ = 0;
  std::int64_t site_ = 0;
  Tile buffer_;
};

}  // namespace

void detail::record_print(const PlacedText& format, std::span<const Arg> values) {
  Tracer& t = Tracer::at(format.loc, "print");
  require_places(RecordKind::Print, format, values.size());
  Recorder(t, RecordKind::Print, format, values).record();
}

void detail::record_assert(const Arg& condition, const PlacedText& message,
                           std::span<const Arg> values) {
  Tracer& t = Tracer::at(message.loc, "device_assert");
  const Tracer::Pin pin(t, message.loc);
  require_places(RecordKind::Assert, message, values.size());
  const ir::Value holds = dsl::truth(t, condition);
  const bool is_tile = t.kernel.type(holds).is_tile();
  const Tile fails = t.tile(holds) == false;
  if_(is_tile ? any(fails) : fails,
      [&] { Recorder(t, RecordKind::Assert, message, values).record(); });
}

void watch_nan(const Arg& tile, const detail::PlacedText& name) {
  Tracer& t = Tracer::at(name.loc, "watch_nan");
  const Tracer::Pin pin(t, name.loc);
  const ir::Value v = dsl::operand(t, tile);
  const ir::Type type = t.kernel.type(v);
  dsl::require_floats("watch_nan", type.dtype(), tile.loc());
  Tile all_of = t.tile(v);
  if (type.rank() > 1) all_of = ravel(all_of);
  const Tile is_nan = all_of != all_of;
  const std::string format = std::string(name.text) + ": {} NaN, the first at {}";
  const detail::PlacedText text = [&] {
    detail::PlacedText p(format.c_str());
    p.loc = name.loc;
    return p;
  }();
  const auto record = [&](const Tile& count, const Tile& first) {
    if_(count > 0, [&] {
      const std::array<Arg, 2> found{Arg(count), Arg(first)};
      Recorder(t, RecordKind::Nan, text, found).record();
    });
  };
  if (!type.is_tile()) return record(cast<i32>(is_nan), cast<i32>(is_nan) & 0);
  const auto n = static_cast<std::int64_t>(type.count());
  record(sum(cast<i32>(is_nan), axis(0)), min(where(is_nan, arange(n), n), axis(0)));
}

}  // namespace tegula
