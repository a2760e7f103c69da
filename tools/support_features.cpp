#include "tools/support_probe.h"

namespace tegula::tools {
namespace {

constexpr std::int64_t kElements = 256, kBlock = 64;

struct Feature {
  std::string text;
  KernelOf<In<f32, 1>, Ptr<u32>, Out<f32, 1>> kernel;
};

/// Kernels with one use of something that has no element type of its own. `counter` is a u32 that
/// is 0.
#define FEATURE(text, options, statements)                                                       \
  Feature {                                                                                      \
    text, kernel("feature", [](In<f32, 1> x, [[maybe_unused]] Ptr<u32> counter, Out<f32, 1> y) { \
      for (auto i : grid options) statements                                                     \
    })                                                                                           \
  }
std::vector<Feature> features() {
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
      FEATURE("`ptx`, inline PTX", (y, kBlock),
              { y(i) = ptx<f32>("neg.f32 $0, $1;", "=f,f", x(i)); }),
  };
}
#undef FEATURE

Probe probe_of(const Feature& feature) {
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

}  // namespace

std::vector<FeatureSupport> feature_support(bool assembles) {
  std::vector<FeatureSupport> list;
  for (const Feature& f : features()) list.push_back({f.text, outcome_of(probe_of(f), assembles)});
  return list;
}

}  // namespace tegula::tools
