#pragma once
// The experts of a layer in double precision, forward and backward.
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

#include "tests/differential/moe/routing_reference.h"

namespace tegula::test::experts {

/// a(gate, up) and its partial derivatives. Without a gate, `up` is 0 and ignored.
struct HostActivation {
  bool is_gated = true;
  std::function<double(double g, double u)> value;
  std::function<std::pair<double, double>(double g, double u)> gradient;
};

inline double host_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline HostActivation host_swiglu() {
  return {true, [](double g, double u) { return g * host_sigmoid(g) * u; },
          [](double g, double u) {
            const double s = host_sigmoid(g);
            return std::pair{u * s * (1 + g * (1 - s)), g * s};
          }};
}
inline HostActivation host_geglu() {
  const auto cdf = [](double g) { return std::erfc(-g / std::numbers::sqrt2) / 2; };
  return {true, [cdf](double g, double u) { return g * cdf(g) * u; },
          [cdf](double g, double u) {
            const double pdf = std::exp(-g * g / 2) / std::sqrt(2 * std::numbers::pi);
            return std::pair{u * (cdf(g) + g * pdf), g * cdf(g)};
          }};
}
inline HostActivation host_relu_squared() {
  return {false, [](double g, double) { return g > 0 ? g * g : 0; },
          [](double g, double) { return std::pair{g > 0 ? 2 * g : 0, 0.0}; }};
}
/// gpt-oss.
inline HostActivation host_clamped_swiglu(double limit = 7, double alpha = 1.702) {
  return {true,
          [=](double g, double u) {
            g = std::min(g, limit), u = std::clamp(u, -limit, limit);
            return g * host_sigmoid(alpha * g) * (u + 1);
          },
          [=](double g, double u) {
            const double cg = std::min(g, limit), cu = std::clamp(u, -limit, limit),
                         s = host_sigmoid(alpha * cg);
            return std::pair{g <= limit ? (cu + 1) * s * (1 + alpha * cg * (1 - s)) : 0,
                             std::abs(u) <= limit ? cg * s : 0};
          }};
}

/// Extents of a layer: hidden size h, intermediate size i.
struct LayerShape {
  int tokens = 0, h = 0, i = 0, experts = 0;
};

/// Row-major tensors of a layer: x [tokens, h], up [experts, rows of up, h] (gates, then ups), down
/// [experts, h, i], biases [experts, rows], which may be empty.
struct LayerTensors {
  Doubles x, up, down, up_bias = {}, down_bias = {};
};

/// Gradients of all of them, and of the routing weights.
struct LayerGradients {
  LayerTensors of;
  Doubles weights;
};

/// A choice of a token: the input of its expert's down projection, and the weight of its outputs.
struct ExpertRow {
  int token = 0, expert = 0;
  double weight = 1;
  Doubles activations;
};

class HostLayer {
 public:
  HostLayer(LayerShape shape, HostActivation activation)
      : s_(shape), act_(std::move(activation)), up_rows_((act_.is_gated ? 2 : 1) * shape.i) {}

  int up_rows() const { return up_rows_; }

  /// Rounds the values that are stored between the products.
  std::function<double(double)> round = [](double x) { return x; };
  /// Stores a row of activations, if storing does more than round each of them.
  std::function<void(Doubles&)> store_activations;
  /// Rounds scaled inputs, if `round` does not.
  std::function<double(double)> round_input;
  /// Rounds the pre-activations that backward reads, which may move them across a clamp.
  std::function<double(double)> round_hidden = [](double x) { return x; };

  /// y [tokens, h]; choices without an expert (id -1) count as 0.
  Doubles forward(const LayerTensors& p, const Routed& r) const { return combined(p, rows(p, r)); }
  /// Weights scale the inputs of the experts.
  Doubles forward_scaled(const LayerTensors& p, const Routed& r) const {
    return combined(p, scaled_rows(p, r));
  }

  std::vector<ExpertRow> rows(const LayerTensors& p, const Routed& r) const {
    std::vector<ExpertRow> out;
    for_each_choice(r, [&](std::size_t choice, int t, int e) {
      out.push_back({t, e, r.weights[choice], activated(hidden(p, t, e))});
    });
    return out;
  }
  std::vector<ExpertRow> scaled_rows(const LayerTensors& p, const Routed& r) const {
    std::vector<ExpertRow> out;
    for_each_choice(r, [&](std::size_t choice, int t, int e) {
      LayerTensors scaled = p;
      for (int c = 0; c < s_.h; ++c)
        scaled.x[at(t, c, s_.h)] =
            (round_input ? round_input : round)(r.weights[choice] * p.x[at(t, c, s_.h)]);
      out.push_back({t, e, 1, activated(hidden(scaled, t, e))});
    });
    return out;
  }
  /// y of all rows, each output rounded before it is weighted.
  Doubles combined(const LayerTensors& p, const std::vector<ExpertRow>& rows) const {
    Doubles y(size(s_.tokens, s_.h));
    for (const ExpertRow& row : rows) {
      const Doubles out = outputs(p, row.activations, row.expert);
      for (int c = 0; c < s_.h; ++c)
        y[at(row.token, c, s_.h)] += row.weight * round(out[static_cast<std::size_t>(c)]);
    }
    return y;
  }

  /// Gradients of a layer whose weights scale the inputs of the experts.
  LayerGradients backward_scaled(const LayerTensors& p, const Routed& r, const Doubles& dy) const {
    LayerGradients d = backward(p, {r.k, std::vector<int>(r.ids.size(), -1), r.weights}, dy);
    for_each_choice(r, [&](std::size_t choice, int t, int e) {
      LayerTensors scaled = p;
      for (int c = 0; c < s_.h; ++c) scaled.x[at(t, c, s_.h)] *= r.weights[choice];
      LayerGradients row = d;
      for (double& x : row.of.x) x = 0;
      backward_row(scaled, {choice, t, e, 1}, kept_hidden(scaled, t, e), dy, row);
      row.weights[choice] = 0;
      for (int c = 0; c < s_.h; ++c) {
        const double dx = row.of.x[at(t, c, s_.h)];
        row.weights[choice] += dx * p.x[at(t, c, s_.h)];
        row.of.x[at(t, c, s_.h)] = d.of.x[at(t, c, s_.h)] + r.weights[choice] * dx;
      }
      for (int other = 0; other < s_.tokens; ++other)
        for (int c = 0; c < s_.h; ++c)
          if (other != t) row.of.x[at(other, c, s_.h)] = d.of.x[at(other, c, s_.h)];
      d = row;
    });
    return d;
  }

  LayerGradients backward(const LayerTensors& p, const Routed& r, const Doubles& dy) const {
    LayerGradients d{{Doubles(p.x.size()), Doubles(p.up.size()), Doubles(p.down.size()),
                      Doubles(p.up_bias.size()), Doubles(p.down_bias.size())},
                     Doubles(r.weights.size())};
    for_each_choice(r, [&](std::size_t choice, int t, int e) {
      backward_row(p, {choice, t, e, r.weights[choice]}, kept_hidden(p, t, e), dy, d);
    });
    return d;
  }

 private:
  struct Choice {
    std::size_t number;
    int token, expert;
    double weight;
  };
  static std::size_t size(int a, int b) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
  }
  static std::size_t at(int row, int column, int columns) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
           static_cast<std::size_t>(column);
  }
  template <class Fn>
  void for_each_choice(const Routed& r, const Fn& fn) const {
    for (std::size_t c = 0; c < r.ids.size(); ++c)
      if (r.ids[c] >= 0) fn(c, static_cast<int>(c / static_cast<std::size_t>(r.k)), r.ids[c]);
  }
  std::size_t up_at(int e, int row, int c) const { return at(e * up_rows_ + row, c, s_.h); }
  std::size_t down_at(int e, int c, int j) const { return at(e * s_.h + c, j, s_.i); }

  /// Pre-activations of a row.
  Doubles hidden(const LayerTensors& p, int t, int e) const {
    Doubles out(static_cast<std::size_t>(up_rows_));
    for (int j = 0; j < up_rows_; ++j) {
      double sum = p.up_bias.empty() ? 0 : p.up_bias[at(e, j, up_rows_)];
      for (int c = 0; c < s_.h; ++c) sum += p.x[at(t, c, s_.h)] * p.up[up_at(e, j, c)];
      out[static_cast<std::size_t>(j)] = sum;
    }
    return out;
  }
  Doubles kept_hidden(const LayerTensors& p, int t, int e) const {
    Doubles row = hidden(p, t, e);
    for (double& x : row) x = round_hidden(x);
    return row;
  }
  double gate(const Doubles& hidden_row, int j) const {
    return hidden_row[static_cast<std::size_t>(j)];
  }
  double up(const Doubles& hidden_row, int j) const {
    return act_.is_gated ? hidden_row[static_cast<std::size_t>(j + s_.i)] : 0;
  }
  Doubles activated(const Doubles& hidden_row) const {
    Doubles a(static_cast<std::size_t>(s_.i));
    for (int j = 0; j < s_.i; ++j)
      a[static_cast<std::size_t>(j)] = act_.value(gate(hidden_row, j), up(hidden_row, j));
    if (store_activations) {
      store_activations(a);
      return a;
    }
    for (double& x : a) x = round(x);
    return a;
  }
  Doubles outputs(const LayerTensors& p, const Doubles& a, int e) const {
    Doubles out(static_cast<std::size_t>(s_.h));
    for (int c = 0; c < s_.h; ++c) {
      double sum = p.down_bias.empty() ? 0 : p.down_bias[at(e, c, s_.h)];
      for (int j = 0; j < s_.i; ++j)
        sum += a[static_cast<std::size_t>(j)] * p.down[down_at(e, c, j)];
      out[static_cast<std::size_t>(c)] = sum;
    }
    return out;
  }

  void backward_row(const LayerTensors& p, const Choice& choice, const Doubles& hidden_row,
                    const Doubles& dy, LayerGradients& d) const {
    const auto [number, t, e, w] = choice;
    const Doubles a = activated(hidden_row), out = outputs(p, a, e);
    for (int c = 0; c < s_.h; ++c) {
      const double g = dy[at(t, c, s_.h)];
      d.weights[number] += g * out[static_cast<std::size_t>(c)];
      if (!p.down_bias.empty()) d.of.down_bias[at(e, c, s_.h)] += w * g;
      for (int j = 0; j < s_.i; ++j)
        d.of.down[down_at(e, c, j)] += w * g * a[static_cast<std::size_t>(j)];
    }
    for (int j = 0; j < s_.i; ++j) {
      double da = 0;
      for (int c = 0; c < s_.h; ++c) da += w * dy[at(t, c, s_.h)] * p.down[down_at(e, c, j)];
      const auto [dg, du] = act_.gradient(gate(hidden_row, j), up(hidden_row, j));
      backward_hidden(p, choice, j, da * dg, d);
      if (act_.is_gated) backward_hidden(p, choice, j + s_.i, da * du, d);
    }
  }
  void backward_hidden(const LayerTensors& p, const Choice& choice, int row, double dh,
                       LayerGradients& d) const {
    const auto [number, t, e, w] = choice;
    if (!p.up_bias.empty()) d.of.up_bias[at(e, row, up_rows_)] += dh;
    for (int c = 0; c < s_.h; ++c) {
      d.of.x[at(t, c, s_.h)] += dh * p.up[up_at(e, row, c)];
      d.of.up[up_at(e, row, c)] += dh * p.x[at(t, c, s_.h)];
    }
  }

  LayerShape s_;
  HostActivation act_;
  int up_rows_;
};

}  // namespace tegula::test::experts
