// Forms of a choice compute the same: small calls of each on the simulator.
#include "bench/choices.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tegula/tegula.h"

namespace tegula::bench::choices_test {
namespace {

const Device kSim = Device::sim();

struct Call {
  std::vector<Tensor> inputs;  ///< before the result
  Tensor result;
  std::vector<Tensor> further = {};
};

Tensor random_of(const Dims& shape, std::uint64_t seed) {
  return Tensor::normal(shape, DType::bf16, 0, 1, seed, kSim);
}

Call attention_call(std::int64_t queries, std::int64_t keys, std::vector<Tensor> further = {}) {
  const Dims rows{1, 2, queries, 64}, of_keys{1, 2, keys, 64};
  further.insert(further.begin(), Tensor::zeros({1, 2, queries}, DType::f32, kSim));
  return {{random_of(rows, 1), random_of(of_keys, 2), random_of(of_keys, 3)},
          Tensor::zeros(rows, DType::bf16, kSim),
          std::move(further)};
}

/// Small integers, whose sums are exact in any order.
Call product_call(std::int64_t m, DType result) {
  const auto integers = [](const Dims& shape, std::uint64_t seed) {
    return Tensor::integers(shape, DType::bf16, -2, 3, seed, kSim);
  };
  return {{integers({m, 512}, 1), integers({512, 256}, 2)}, Tensor::zeros({m, 256}, result, kSim)};
}

Call call_of(const std::string& choice) {
  std::vector<i32> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(i / 80);
  const Tensor document = Tensor::from(ids, kSim);
  if (choice == "bias") return attention_call(200, 200, {random_of({1, 2, 200, 200}, 4)});
  if (choice == "order") return attention_call(300, 300, {document});
  if (choice == "decode") return attention_call(3, 300, {document});
  if (choice == "weights") return attention_call(150, 150);
  if (choice == "sums_in_memory") return product_call(256, DType::f32);
  return product_call(choice == "few_rows" ? 16 : 256, DType::bf16);
}

TEST(Choices, FormsComputeTheSame) {
  std::vector<Case> list;
  add_choices(list);
  std::map<std::string, std::vector<double>> results;
  std::map<std::string, std::set<std::string>> forms;
  for (const Case& c : list) {
    SCOPED_TRACE(c.name);
    const std::string choice = c.name.substr(0, c.name.find('/'));
    EXPECT_TRUE(forms[choice].insert(c.name).second);
    const Call call = call_of(choice);
    std::vector<Tensor> tensors = call.inputs;
    tensors.push_back(call.result);
    tensors.insert(tensors.end(), call.further.begin(), call.further.end());
    c.run(Stream(kSim), tensors, 0);
    const std::vector<double> got = call.result.to_doubles();
    if (choice == "weights") {
      EXPECT_TRUE(results.try_emplace(c.name, got).second);
      continue;
    }
    const auto [at, is_first] = results.try_emplace(choice, got);
    if (is_first) continue;
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], at->second[i], 0.02 * std::abs(got[i]) + 0.01) << i;
  }
  for (const auto& [choice, names] : forms) EXPECT_GE(names.size(), 2u) << choice;
}

}  // namespace
}  // namespace tegula::bench::choices_test
