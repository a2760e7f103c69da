#include "tools/support_matrix.h"

#include <fmt/format.h>

#include <array>

#include "tools/support_probe.h"

namespace tegula::tools {
namespace {

constexpr std::int64_t kRows = 8, kColumns = 32;

/// Names that a row's expression may use.
struct Operands {
  Tile a, b, c;  ///< for TILES
  Tile p, m;     ///< for POINTERS
  DType to = DType::f32;
};
using OnTiles = Tile (*)(const Operands&);
using OnView = Tile (*)(const ViewTile& y, const Tile& a);
using InCluster = Tile (*)(const Tile& a);

/// Wraps a store as an expression.
Tile stored(const Tile& p, const Tile& a) {
  store(p, a);
  return a;
}

/// Returns a view with the tile's shape at an address.
template <Element T>
AddressView<T, 2> view_of_all(const Tile& memory, Alignment alignment) {
  return view<T, 2>(memory, {kRows, kColumns}, {kColumns, 1}, alignment);
}
Tile at_address(const Tile& memory, const Tile& a, Alignment alignment) {
  return visit_dtype(a.dtype(), [&](auto tag) -> Tile {
    using T = typename decltype(tag)::type;
    return view_of_all<T>(memory, alignment)(slice(0, kRows), slice(0, kColumns));
  });
}
Tile stored_at_address(const Tile& memory, const Tile& a) {
  return visit_dtype(a.dtype(), [&](auto tag) -> Tile {
    using T = typename decltype(tag)::type;
    const auto all = view_of_all<T>(memory, aligned(16));
    all(slice(0, kRows), slice(0, kColumns)) = a;
    return all(slice(0, kRows), slice(0, kColumns));
  });
}

/// The same with the atomic operations that programs use to wait for each other.
Tile stored_by_atomics(const Tile& p, const Tile& a) {
  atomic_store(p, a);
  return atomic_load(p);
}
Tile waited_for(const Tile& memory, const Tile& a) {
  atomic_store(memory, 5);
  wait_until(memory, 5);
  return a;
}

Tile larger_halved(Tile x) {
  if_(x > 2, [&] { x = cast(x / 2, x.dtype()); });
  return x;
}

/// A reduction over a cluster by a function, and a sum of which each program gets a part.
Tile reduced_in_cluster(const Tile& a) {
  return cluster_reduce(
      std::array{a}, [](const auto& x, const auto& y) { return std::array{Tile(x[0] + y[0])}; })[0];
}
Tile scattered_in_cluster(const Tile& a) {
  const Tile part = cluster_reduce_scatter(a, axis(0));
  return cat({part, part}, 0);
}

/// Replaces absent elements by zero, so that the probe stores all elements.
Tile filled(const Tile& a) { return fill_absent(a, 0); }

/// Random numbers of the tile's type, and conversions with explicit rounding.
Tile uniform(const Tile& a) { return rand(1, 2, a.dtype()) + a; }
Tile cut_down(const Tile& a) { return cast(cast<f32>(a) * 0.7f, a.dtype(), Round::zero); }
Tile saturated(const Tile& a) {
  return cast(cast<f32>(a) * 1e30f, a.dtype(), Round::nearest, Saturate::always);
}
Tile by_random_bits(const Tile& a) {
  return cast(cast<f32>(a) * 0.7f, a.dtype(), Stochastic{0x9e3779b9u});
}

/// Returns the flags that start segments of five elements.
Tile every_fifth() { return broadcast(arange(kColumns) % 5 == 0, {kRows, kColumns}); }

/// Returns keys from 0 to 7.
Tile eighths_of_columns() { return broadcast(arange(kColumns) % 8, {kRows, kColumns}); }

/// Returns the identity of a sum in the tile's type.
Tile zero_of(const Tile& a) { return cast(Tile(0), a.dtype()); }

/// A combining function for reduce.
Tile added(Tile x, Tile y) { return x + y; }

struct MatrixRow {
  std::string group, text;
  OnTiles tiles = nullptr, pointers = nullptr;
  OnView view = nullptr;
  InCluster cluster = nullptr;
};

/// Spaces after commas and around operators are those of the source, except in strings of several
/// lines.
std::vector<MatrixRow> matrix_rows() {
  std::vector<MatrixRow> list;
  std::string group;
#define GROUP(heading) group = heading;
#define TILES(...)                                                        \
  list.push_back({group, #__VA_ARGS__, [](const Operands& o) -> Tile {    \
                    [[maybe_unused]] const auto& [a, b, c, p, m, to] = o; \
                    return __VA_ARGS__;                                   \
                  }});
#define POINTERS(...)                                                           \
  list.push_back({group, #__VA_ARGS__, nullptr, [](const Operands& o) -> Tile { \
                    [[maybe_unused]] const auto& [a, b, c, p, m, to] = o;       \
                    return __VA_ARGS__;                                         \
                  }});
#define VIEWS(...)                                       \
  list.push_back({group, #__VA_ARGS__, nullptr, nullptr, \
                  [](const ViewTile& y, const Tile& a) -> Tile { return __VA_ARGS__; }});
#define CLUSTERS(...)                                             \
  list.push_back({group, #__VA_ARGS__, nullptr, nullptr, nullptr, \
                  [](const Tile& a) -> Tile { return __VA_ARGS__; }});
#include "tools/support_matrix.def"
#undef GROUP
#undef TILES
#undef POINTERS
#undef VIEWS
#undef CLUSTERS
  return list;
}

/// Converts the bits of a result of any type and shape to the type of the probe's output.
Tile bits_of(const Tile& result) {
  Tile bits = result;
  if (is_float(bits.dtype())) {
    const int size = size_bits(bits.dtype());
    bits = bitcast(bits, size == 8    ? DType::u8
                         : size == 16 ? DType::u16
                         : size == 32 ? DType::u32
                                      : DType::u64);
  }
  bits = cast<u64>(bits);
  if (bits.rank() == 1) return bits.expand(1);
  if (bits.rank() == 2 && bits.dim(0) != kRows) return bits.reshape({kRows, kColumns});
  return bits;
}

/// Returns small numbers that every type can represent. Among boolean tensors, only that of seed 1
/// contains false.
Tensor numbers(DType type, std::uint64_t seed, Device device) {
  if (is_float(type)) return Tensor::uniform({kRows, kColumns}, type, 0.25, 3, seed, device);
  const std::int64_t low = is_bool(type) && seed == 1 ? 0 : 1, high = is_bool(type) ? 2 : 7;
  return Tensor::integers({kRows, kColumns}, type, low, high, seed, device);
}

Tensor results(Device device) { return Tensor::zeros({kRows, kColumns}, DType::u64, device); }

template <Element T>
auto tiles_kernel(OnTiles row, DType to) {
  return kernel("probe", [=](In<T, 2> x, In<T, 2> y, In<T, 2> z, Out<u64, 2> bits) {
    for (auto [r, c] : grid(bits, kRows, kColumns))
      bits(r, c) = bits_of(row({x(r, c), y(r, c), z(r, c), Tile(), Tile(), to}));
  });
}

template <Element T>
auto pointers_kernel(OnTiles row) {
  return kernel("probe", [=](In<T, 2> x, Ptr<T> memory, Out<u64, 2> bits) {
    for (auto [r, c] : grid(bits, kRows, kColumns)) {
      const Tile at = memory + arange(kRows * kColumns).reshape({kRows, kColumns});
      bits(r, c) = bits_of(row({x(r, c), Tile(), Tile(), at, memory + 0, DType::f32}));
    }
  });
}

template <Element T>
auto view_kernel(OnView row) {
  return kernel("probe", [=](In<T, 2> x, InOut<T, 2> y, Out<u64, 2> bits) {
    for (auto [r, c] : grid(bits, kRows, kColumns)) bits(r, c) = bits_of(row(y(r, c), x(r, c)));
  });
}

template <Element T>
auto cluster_kernel(InCluster row) {
  return kernel("probe", [=](In<T, 2> x, In<T, 2> y, Out<u64, 2> bits) {
    for (auto [r, c] : grid(bits, kRows, kColumns, cluster(2))) {
      const Tile is_first = cluster_rank() == 0;
      const Tile result = bits_of(row(where(is_first, x(r, c), y(r, c))));
      if_(is_first, [&] { bits(r, c) = result; });
    }
  });
}

/// Returns the probe of a kernel that takes `Count` tensors of numbers, then the tensor of result
/// bits.
template <int Count, class K>
Probe typed_probe(K kernel, DType type) {
  const auto call = [=](Device device, const auto& use) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const Tensor bits = results(device);
      return use(bits, numbers(type, I + 1, device)..., bits);
    }(std::make_index_sequence<Count>{});
  };
  return {[=] {
            return call(Device::cpu(),
                        [&](const Tensor&, const auto&... all) { return kernel.trace(all...); });
          },
          [=](Device device) {
            return call(device, [&](const Tensor& bits, const auto&... all) {
              kernel(all...);
              return bits.to_vector<u64>();
            });
          }};
}

Outcome support_of(const MatrixRow& row, DType type, DType to, AssembledShare& assembled) {
  const Probe probe = visit_dtype(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return row.tiles      ? typed_probe<3>(tiles_kernel<T>(row.tiles, to), type)
           : row.pointers ? typed_probe<2>(pointers_kernel<T>(row.pointers), type)
           : row.cluster  ? typed_probe<2>(cluster_kernel<T>(row.cluster), type)
                          : typed_probe<2>(view_kernel<T>(row.view), type);
  });
  return outcome_of(probe, assembled.takes_next());
}

// ---- matrix products

template <Element T>
Probe product_probe(Precision precision, bool is_transposed) {
  constexpr std::int64_t kM = 64, kN = 64, kK = 256, kStep = 128;
  const auto product = kernel("probe", [=](In<T, 2> A, In<T, 2> B, Out<Accumulator<T>, 2> C) {
    for (auto [m, n] : grid(C, kM, kN)) {
      Tile acc = zeros<Accumulator<T>>(kM, kN);
      for (auto k : steps(A.cols(), kStep))
        acc = dot(A(m, k), is_transposed ? B(n, k).T() : B(k, n), acc, precision);
      C(m, n) = acc;
    }
  });
  const auto call = [=](Device device, const auto& use) {
    const Tensor a = Tensor::integers({kM, kK}, dtype_of<T>, 0, 2, 1, device);
    const Dims shape = is_transposed ? Dims{kN, kK} : Dims{kK, kN};
    const Tensor b = Tensor::integers(shape, dtype_of<T>, 0, 2, 2, device);
    return use(a, b, Tensor::zeros({kM, kN}, dtype_of<Accumulator<T>>, device));
  };
  return {[=] {
            return call(Device::cpu(), [&](const Tensor& a, const Tensor& b, const Tensor& c) {
              return product.trace(a, b, c);
            });
          },
          [=](Device device) {
            return call(device, [&](const Tensor& a, const Tensor& b, const Tensor& c) {
              product(a, b, c);
              std::vector<std::uint64_t> values;  // sums of ones: integers
              for (const auto v : c.to_vector<Accumulator<T>>())
                values.push_back(static_cast<std::uint64_t>(static_cast<double>(v)));
              return values;
            });
          }};
}

ProductSupport product_of(DType type, Precision precision, AssembledShare& assembled) {
  return visit_dtype(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ProductSupport{
        fmt::format("{}{}", name(type), precision == Precision::tf32 ? " as tf32" : ""),
        std::string(name(dtype_of<Accumulator<T>>)),
        outcome_of(product_probe<T>(precision, false), assembled.takes_next()),
        outcome_of(product_probe<T>(precision, true), assembled.takes_next())};
  });
}

}  // namespace

std::vector<OperationSupport> operation_support(AssembledShare& assembled) {
  std::vector<OperationSupport> list;
  for (const MatrixRow& row : matrix_rows()) {
    list.push_back({row.group, row.text, {}});
    for (const DTypeInfo& type : kDTypeInfo)
      list.back().outcomes.push_back(support_of(row, type.dtype, DType::f32, assembled));
  }
  return list;
}

std::vector<OperationSupport> cast_support(AssembledShare& assembled) {
  const MatrixRow row{"", "", [](const Operands& o) { return cast(o.a, o.to); }};
  std::vector<OperationSupport> list;
  for (const DTypeInfo& from : kDTypeInfo) {
    list.push_back({"", std::string(from.name), {}});
    for (const DTypeInfo& to : kDTypeInfo)
      list.back().outcomes.push_back(support_of(row, from.dtype, to.dtype, assembled));
  }
  return list;
}

std::vector<ProductSupport> product_support(AssembledShare& assembled) {
  std::vector<ProductSupport> list;
  for (const DTypeInfo& type : kDTypeInfo) {
    list.push_back(product_of(type.dtype, Precision::ieee, assembled));
    if (type.dtype == DType::f32)
      list.push_back(product_of(type.dtype, Precision::tf32, assembled));
  }
  return list;
}

}  // namespace tegula::tools
