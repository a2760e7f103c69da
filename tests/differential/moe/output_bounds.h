#pragma once
// How far the outputs of a layer may be from its reference in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/differential/moe/expert_reference.h"

namespace tegula::test::experts {

/// The distance of neighbours of f8e4m3 times `scale` around a value.
inline double spacing_of_8_bits(double value, double scale) {
  constexpr int kMantissaBits = 3, kMinExponent = -6;
  int exponent = 0;
  std::frexp(std::abs(value) / scale, &exponent);
  return std::ldexp(scale, std::max(exponent - 1, kMinExponent) - kMantissaBits);
}

/// Bounds of errors. What is stored between the products may round to a neighbour of its type,
/// `unit` of numbers around 1.
///
/// An activation of 8 bits that rounds to the other neighbour (tensor cores add products of 8 bits
/// in fewer bits than f32 has) moves an output by its spacing, up to an eighth of the value, times
/// a weight. A row whose largest activation rounds otherwise in 16 bits has another scale, by which
/// up to 2^-8 of the value over 2^-4 of it, a sixteenth of its activations, do so; accumulators add
/// about as many. So a share of the activations counts in each norm, in quadrature, and the largest
/// few count whole, in single outputs too.
class OutputBounds {
 public:
  OutputBounds(const LayerShape& shape, double unit)
      : s_(shape),
        unit_(unit),
        steps_(size(s_.tokens) * size(s_.h)),
        of_tokens_(size(s_.tokens)),
        of_outputs_(size(s_.h)) {}

  /// Activations of these rows are of 8 bits, with the given scale or that of their largest one.
  void add_8_bit_activations(const LayerTensors& p, const std::vector<ExpertRow>& rows,
                             std::optional<double> scale) {
    are_8_bits_ = true;
    for (const ExpertRow& row : rows) {
      double largest = 0;
      for (const double a : row.activations) largest = std::max(largest, std::abs(a));
      if (largest > 0) add(p, row, scale.value_or(largest / 448));
    }
  }

  testing::AssertionResult hold(const Doubles& got, const Doubles& want) const {
    if (got.size() != want.size()) return testing::AssertionFailure() << "another size";
    std::vector<Norm> tokens(of_tokens_.size()), outputs(of_outputs_.size());
    Norm all;
    for (std::size_t n = 0; n < got.size(); ++n) {
      const std::size_t t = n / size(s_.h), c = n % size(s_.h);
      const double error = std::abs(got[n] - want[n]),
                   bound = 6 * unit_ * (1 + std::abs(want[n])) + kWholeSteps * steps_[n];
      if (!(error <= bound))
        return testing::AssertionFailure() << "token " << t << ", output " << c << ": " << got[n]
                                           << ", wanted " << want[n] << " within " << bound;
      for (Norm* norm : {&all, &tokens[t], &outputs[c]}) norm->add(error, want[n]);
    }
    Flips of_all;
    for (const Flips& f : of_tokens_) of_all.join(f);
    if (auto fault = exceeds("all", all, of_all); !fault.empty())
      return testing::AssertionFailure() << fault;
    for (std::size_t t = 0; are_8_bits_ && t < tokens.size(); ++t)
      if (auto fault = exceeds("token " + std::to_string(t), tokens[t], of_tokens_[t]);
          !fault.empty())
        return testing::AssertionFailure() << fault;
    for (std::size_t c = 0; are_8_bits_ && c < outputs.size(); ++c)
      if (auto fault = exceeds("output " + std::to_string(c), outputs[c], of_outputs_[c]);
          !fault.empty())
        return testing::AssertionFailure() << fault;
    return testing::AssertionSuccess();
  }

 private:
  static constexpr double kShare = 1.0 / 8;  ///< of activations that may round otherwise
  static constexpr int kWholeSteps = 3;

  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  struct Norm {
    double error = 0, size = 0;  // squared
    void add(double e, double x) { error += e * e, size += x * x; }
  };
  /// Squares of steps: of all that may be, and the largest.
  struct Flips {
    double all = 0, largest = 0;
    void add(double step) { all += step * step, largest = std::max(largest, step * step); }
    void join(const Flips& o) { all += o.all, largest = std::max(largest, o.largest); }
    double norm() const { return std::sqrt(kShare * all + kWholeSteps * largest); }
  };

  /// Adds the square of each output's change for a change of one activation by one spacing.
  void add(const LayerTensors& p, const ExpertRow& row, double scale) {
    const std::size_t i = size(s_.i), h = size(s_.h), t = size(row.token);
    const double* down = &p.down[size(row.expert) * h * i];
    Doubles spacings(i), of_activation(i);
    for (std::size_t j = 0; j < i; ++j)
      spacings[j] = std::abs(row.weight) * spacing_of_8_bits(row.activations[j], scale);
    for (std::size_t c = 0; c < h; ++c) {
      double largest = 0;
      for (std::size_t j = 0; j < i; ++j) {
        const double step = spacings[j] * std::abs(down[c * i + j]);
        largest = std::max(largest, step), of_activation[j] += step * step;
        of_outputs_[c].add(step);
      }
      steps_[t * h + c] += largest;
    }
    for (const double squared : of_activation) of_tokens_[t].add(std::sqrt(squared));
  }

  std::string exceeds(const std::string& what, const Norm& norm, const Flips& flips) const {
    // A norm of few outputs is that of their errors, of which each may be larger than usual.
    const double usual = what == "all" ? unit_ : 4 * unit_;
    const double error = std::sqrt(norm.error), bound = usual * std::sqrt(norm.size) + flips.norm();
    if (error <= bound) return {};
    return what + ": an error of norm " + std::to_string(error) + ", at most " +
           std::to_string(bound) + " of " + std::to_string(std::sqrt(norm.size));
  }

  LayerShape s_;
  double unit_;
  bool are_8_bits_ = false;
  Doubles steps_;  ///< largest ones of outputs [tokens, h]
  std::vector<Flips> of_tokens_, of_outputs_;
};

}  // namespace tegula::test::experts
