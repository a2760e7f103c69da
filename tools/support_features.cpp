#include "tools/support_probe.h"

namespace tegula::tools {
namespace {

constexpr std::int64_t kElements = 256, kBlock = 64;

using FeatureKernel = KernelOf<In<f32, 1>, Ptr<u32>, Out<f32, 1>>;
struct Feature {
  std::string text;
  FeatureKernel kernel;
};

/// Kernels with one use of a feature that does not depend on an element type. `counter` is a u32
/// with the value 0.
#define FEATURE(text, options, statements)                                                       \
  Feature {                                                                                      \
    text, kernel("feature", [](In<f32, 1> x, [[maybe_unused]] Ptr<u32> counter, Out<f32, 1> y) { \
      for (auto i : grid options) statements                                                     \
    })                                                                                           \
  }
std::vector<Feature> plain_features() {
  return {
      FEATURE("`grid`, `idx`", (y, kBlock), { y(i) = x(i) + cast<f32>(i.indices()); }),
      FEATURE("`x(integers)`, a gather", (y, kBlock), { y(i) = x(i.indices()); }),
      FEATURE("`steps`", (y, kBlock),
              {
                Tile total = x(i);
                for (auto k : steps(x.dim(0), kBlock)) total += sum(x(k));
                y(i) = total;
              }),
      FEATURE("`if_`", (y, kBlock),
              {
                Tile v = x(i);
                if_(i.first() > 0, [&] { v = v + 1.0f; });
                y(i) = v;
              }),
      FEATURE("`while_`", (y, kBlock),
              {
                Tile n = full<i32>(0);
                while_([&] { return n < 3; }, [&] { n += 1; });
                y(i) = x(i) + cast<f32>(n);
              }),
      FEATURE("`assume`", (y, kBlock),
              {
                assume(x.dim(0) > 0);
                y(i) = x(i);
              }),
      FEATURE("`x.stride`", (y, kBlock), { y(i) = x(i) * cast<f32>(x.stride(0)); }),
      FEATURE("`reassociable`", (y, kBlock),
              { y(i) = reassociable([&] { return x(i) * sum(x(i)); }); }),
      FEATURE("`arrive_and_test_last`", (y, kBlock),
              {
                y(i) = x(i);
                if_(arrive_and_test_last(counter, 4), [&] { y(i) = x(i) + 1.0f; });
              }),
      FEATURE("`grid_dependency_wait`", (y, kBlock),
              {
                grid_dependency_wait();
                y(i) = x(i);
              }),
      FEATURE("`grid_launch_dependents`", (y, kBlock),
              {
                grid_launch_dependents();
                y(i) = x(i);
              }),
      FEATURE("`cluster(2)`, `cluster_rank`, `cluster_reduce_scatter`", (y, kBlock, cluster(2)),
              {
                const Index part = cluster_slice(i);
                y(part) = cluster_reduce_scatter(x(i) + cast<f32>(cluster_rank()), axis(0));
              }),
      FEATURE("`cluster_gather`, `cluster_max`, `cluster_reduce`", (y, kBlock, cluster(2)),
              {
                const Tile top = cluster_max(max(x(i)));
                y(cluster_slice(i)) = x(cluster_slice(i)) - top;
              }),
      FEATURE("`ptx`, inline PTX", (y, kBlock),
              { y(i) = ptx<f32>("neg.f32 $0, $1;", "=f,f", x(i)); }),
      FEATURE(
          "`ptx` with a model", (y, kBlock),
          { y(i) = ptx<f32>("neg.f32 $0, $1;", "=f,f", [](const Tile& t) { return -t; }, x(i)); }),
  };
}

/// Loops and programs that end early, and loops with a stride.
std::vector<Feature> early_ends() {
  return {
      FEATURE("`break_if`", (y, kBlock),
              {
                Tile total = x(i);
                for (auto k : steps(x.dim(0), kBlock)) {
                  break_if(k.first() > 100);
                  total += sum(x(k));
                }
                y(i) = total;
              }),
      FEATURE("`exit_program_if`", (y, kBlock),
              {
                y(i) = x(i);
                exit_program_if(i.first() > 100);
                y(i) = x(i) + 1.0f;
              }),
      FEATURE("`steps` by a traced stride", (y, kBlock),
              {
                Tile total = x(i);
                for (auto k : steps(0, x.dim(0), kBlock, x.dim(0) / 2)) total += sum(x(k));
                y(i) = total;
              }),
  };
}

/// Programs that wait for each other, and output from a running kernel.
std::vector<Feature> programs_and_prints() {
  return {
      FEATURE("`barrier`", (y, kBlock),
              {
                barrier();
                y(i) = x(i);
              }),
      FEATURE("`ticket`, `Semaphore`", (y, kBlock),
              {
                y(i) = x(i);
                Semaphore(counter).signal();
                Semaphore(counter).wait(1);
              }),
      FEATURE("`sm_id`, `sm_clock`, `global_timer`", (y, kBlock),
              {
                const Tile before = sm_clock();
                y(i) = x(i) + where(sm_clock() >= before && global_timer() >= 0 && sm_id() < 1000u,
                                    1.0f, 0.0f);
              }),
      FEATURE("`print`", (y, kBlock),
              {
                if_(i.first() < 0, [&] { print("{}", x(i)); });
                y(i) = x(i);
              }),
      FEATURE("`device_assert`", (y, kBlock),
              {
                device_assert(x(i) >= 0.0f, "negative");
                y(i) = x(i);
              }),
      FEATURE("`watch_nan`", (y, kBlock),
              {
                watch_nan(x(i), "x");
                y(i) = x(i);
              }),
      {"`grid_barrier`", kernel("feature",
                                [](In<f32, 1> x, [[maybe_unused]] Ptr<u32> counter, Out<f32, 1> y) {
                                  for (auto i : grid(y, kBlock)) y(i) = x(i);
                                  grid_barrier();
                                  for (auto i : grid(y, kBlock)) y(i) = x(i) + x(0);
                                })},
  };
}
#undef FEATURE

std::vector<Feature> features() {
  std::vector<Feature> all = plain_features();
  for (auto* more : {&early_ends, &programs_and_prints})
    for (Feature& f : more()) all.push_back(std::move(f));
  return all;
}

Probe feature_probe(const Feature& feature) {
  const auto call = [](Device device, const auto& use) {
    const Tensor y = Tensor::zeros({kElements}, DType::f32, device);
    return use(Tensor::iota({kElements}, DType::f32, device),
               Tensor::zeros({1}, DType::u32, device), y);
  };
  const auto kernel = feature.kernel;
  return {
      [=] { return call(Device::cpu(), [&](const auto&... all) { return kernel.trace(all...); }); },
      [=](Device device) {
        return call(device, [&](const Tensor& x, const Tensor& counter, const Tensor& y) {
          kernel(x, counter, y);
          std::vector<std::uint64_t> bits;
          for (const float v : y.to_vector<f32>()) bits.push_back(std::bit_cast<u32>(v));
          return bits;
        });
      }};
}

/// Returns the probe of a kernel that takes x [4, 64], some integers, and y of the shape of x.
template <class K>
Probe access_probe(K kernel, std::vector<i32> integers, Dims shape = {4, 64}) {
  const auto call = [=](Device device, const auto& use) {
    const Tensor x = Tensor::iota(shape, DType::f32, device),
                 y = Tensor::zeros(shape, DType::f32, device);
    return use(x, Tensor::from(integers, {static_cast<std::int64_t>(integers.size())}, device), y);
  };
  return {
      [=] { return call(Device::cpu(), [&](const auto&... all) { return kernel.trace(all...); }); },
      [=](Device device) {
        return call(device, [&](const Tensor& x, const Tensor& n, const Tensor& y) {
          kernel(x, n, y);
          std::vector<std::uint64_t> bits;
          for (const float v : y.to_vector<f32>()) bits.push_back(std::bit_cast<u32>(v));
          return bits;
        });
      }};
}

/// Lines selected by index tiles, pages, and segments with offsets in memory.
std::vector<std::pair<std::string, Probe>> access_probes() {
  std::vector<std::pair<std::string, Probe>> all;
  all.emplace_back("`x(rows, k)`, gathered lines",
                   access_probe(kernel("feature",
                                       [](In<f32, 2> x, In<i32, 1> rows, Out<f32, 2> y) {
                                         for (auto [r, c] : grid(y, 4, 64)) y(r, c) = x(rows(r), c);
                                       }),
                                {3, -1, 1, 1}));
  all.emplace_back("`y(rows, k) = t`, scattered lines",
                   access_probe(kernel("feature",
                                       [](In<f32, 2> x, In<i32, 1> rows, Out<f32, 2> y) {
                                         y.partial();
                                         for (auto [r, c] : grid(x, 4, 64)) y(rows(r), c) = x(r, c);
                                       }),
                                {3, 0, -1, 1}));
  all.emplace_back("`pages`",
                   access_probe(kernel("feature",
                                       [](In<f32, 4> x, In<i32, 1> table, Out<f32, 4> y) {
                                         for (auto h : grid(y.dim(2), 1))
                                           y(slice(0, 2), slice(0, 2), h, slice(0, 32)) =
                                               pages(x, table(slice(0, 2)), h).reshape({2, 2, 32});
                                       }),
                                {1, 0}, {2, 2, 2, 32}));
  all.emplace_back("`segments`",
                   access_probe(kernel("feature",
                                       [](In<f32, 2> x, In<i32, 1> offsets, Out<f32, 2> y) {
                                         for (auto [s, r, c] :
                                              grid(segments(offsets, y.rows()).by(y.cols()), 2, 64))
                                           y(r, c) = x(r, c) + cast<f32>(s);
                                       }),
                                {0, 3, 3, 4}));
  return all;
}

}  // namespace

std::vector<FeatureSupport> feature_support(AssembledShare& assembled) {
  std::vector<FeatureSupport> list;
  for (const Feature& f : features())
    list.push_back({f.text, outcome_of(feature_probe(f), assembled.takes_next())});
  for (const auto& [text, probe] : access_probes())
    list.push_back({text, outcome_of(probe, assembled.takes_next())});
  return list;
}

}  // namespace tegula::tools
