// Lesson 13: the steps of an inference engine. Requests start and end at any step; their keys and
// values are in pages of one shared cache. One call stores the keys and values of a step, another
// attends to them, for prompts and for requests that decode one token per step, of any lengths.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/kv_cache.h>
#include <tegula/kernels/masks.h>
#include <tegula/tegula.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <vector>

using namespace tegula;

namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 16, kVocabulary = 50, kLongest = 40;
constexpr std::int64_t kSlots = 3, kTokens = 32;  // limits of a step: requests and tokens
constexpr std::int64_t kPageRows = 8, kPages = 12, kPagesOfRequest = kLongest / kPageRows;

/// y(t) = table(ids(t)): in this model, queries, keys and values depend on the token alone.
const auto look_up = kernel("look_up", [](In<bf16, 2> table, In<i32, 1> ids, Out<bf16, 2> y) {
  for (auto t : grid(rows(y), 8)) y(t, all) = table(ids(t), all);
});

struct Request {
  std::vector<i32> tokens;  ///< the prompt and the tokens generated so far
  std::size_t wanted;       ///< number of tokens at which the request ends
  std::int64_t cached = 0;  ///< tokens whose keys and values are in the cache
  std::vector<i32> pages = {};
};

/// A projection (a table with one row per token) and its results for the tokens of a step.
struct Projection {
  Tensor table, rows;

  Projection(std::int64_t heads, std::uint64_t seed, Device device)
      : table(Tensor::normal({kVocabulary, heads * kDim}, DType::bf16, 0, 1, seed, device)),
        rows(Tensor::empty({kTokens, heads, kDim}, DType::bf16, device)) {}
  void run(const Stream& stream, const Tensor& ids) const {
    look_up(stream, table, ids, rows.reshape({kTokens, rows.size(1) * kDim}));
  }
};

kernels::RopeTables angles(Device device) {
  std::vector<float> cos, sin;
  for (int position = 0; position < kLongest; ++position)
    for (int i = 0; i < kDim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / kDim);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  return {Tensor::from(cos, {kLongest, kDim / 2}, device),
          Tensor::from(sin, {kLongest, kDim / 2}, device)};
}

class Engine {
 public:
  explicit Engine(Device device)
      : stream_(device),
        q_(kHeads, 1, device),
        k_(kKvHeads, 2, device),
        v_(kKvHeads, 3, device),
        rope_(angles(device)),
        O_(Tensor::empty({kTokens, kHeads, kDim}, DType::bf16, device)),
        ids_(numbers({kTokens})),
        batch_{numbers({kSlots + 1}), numbers({kSlots}), kTokens},
        cache_{pages(), pages(), numbers({kSlots, kPagesOfRequest})} {
    for (i32 page = 0; page < kPages; ++page) free_.push_back(page);
  }

  /// Runs the new tokens of all requests, and appends the next token of each.
  void step(std::vector<Request>& requests) {
    std::vector<i32> offsets{0}, lengths(kSlots, 0), ids, table(kSlots * kPagesOfRequest, -1);
    for (std::size_t b = 0; b < kSlots; ++b) {
      if (b < requests.size()) {
        Request& r = requests[b];
        ids.insert(ids.end(), r.tokens.begin() + r.cached, r.tokens.end());
        lengths[b] = static_cast<i32>(r.tokens.size());
        for (; std::ssize(r.pages) * kPageRows < lengths[b]; free_.pop_front())
          r.pages.push_back(free_.front());
        std::ranges::copy(r.pages, table.data() + b * kPagesOfRequest);
      }
      offsets.push_back(static_cast<i32>(ids.size()));  // no request: no queries, and length 0
    }
    ids.resize(kTokens, 0);
    // Only contents change: a CUDA graph of what follows could be replayed in each step.
    set(ids_, ids), set(batch_.q_offsets, offsets), set(batch_.kv_lengths, lengths);
    set(cache_.table, table);
    launch();
    const std::vector<double> o = O_.to_doubles();
    for (std::size_t b = 0; b < requests.size(); ++b) {
      Request& r = requests[b];
      r.cached = std::ssize(r.tokens);
      const std::ptrdiff_t last = (offsets[b + 1] - 1) * kHeads * kDim;
      last_ = {o.begin() + last, o.begin() + last + kHeads * kDim};
      worst_ = std::max(worst_, error_of(r));
      const auto largest = std::ranges::max_element(last_) - last_.begin();
      r.tokens.push_back(static_cast<i32>(largest % kVocabulary));
    }
  }

  void release(const Request& r) { free_.insert(free_.end(), r.pages.begin(), r.pages.end()); }
  std::size_t free_pages() const { return free_.size(); }
  double worst_error() const { return worst_; }

 private:
  Device device() const { return O_.device(); }
  Tensor numbers(const Dims& shape) const { return Tensor::zeros(shape, DType::i32, device()); }
  Tensor pages() const {
    return Tensor::empty({kPages, kPageRows, kKvHeads, kDim}, DType::bf16, device());
  }
  void set(const Tensor& to, const std::vector<i32>& values) const {
    to.copy_from(Tensor::from(values, to.shape(), device()));
  }

  void launch() const {
    for (const Projection* p : {&q_, &k_, &v_}) p->run(stream_, ids_);
    kernels::append(stream_, k_.rows, v_.rows, cache_, batch_, {.rope = rope_, .Q = q_.rows});
    attend_.paged(stream_, q_.rows, cache_, O_, batch_);
  }

  /// Returns the largest error of the last token's output, which attends to all tokens.
  double error_of(const Request& r) const {
    const std::size_t n = r.tokens.size();
    double worst = 0;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t kv = h / (kHeads / kKvHeads);
      const std::vector<double> q = rotated(q_, h, r.tokens[n - 1], n - 1);
      const double* got = last_.data() + h * kDim;
      std::vector<double> out(kDim);
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const std::vector<double> k = rotated(k_, kv, r.tokens[j], j);
        double s = 0;
        for (std::size_t d = 0; d < kDim; ++d) s += q[d] * k[d];
        const double weight = std::exp(s / std::sqrt(static_cast<double>(kDim)));
        const std::vector<double> v = row(v_, kv, r.tokens[j]);
        for (std::size_t d = 0; d < kDim; ++d) out[d] += weight * v[d];
        sum += weight;
      }
      for (std::size_t d = 0; d < kDim; ++d)
        worst = std::max(worst, std::abs(out[d] / sum - got[d]));
    }
    return worst;
  }
  static std::vector<double> row(const Projection& p, std::int64_t head, i32 token) {
    return p.table.select(0, token).slice(0, head * kDim, (head + 1) * kDim).to_doubles();
  }
  std::vector<double> rotated(const Projection& p, std::int64_t head, i32 token,
                              std::size_t position) const {
    const std::vector<double> x = row(p, head, token);
    const auto at = static_cast<std::int64_t>(position);
    const std::vector<double> cos = rope_.cos.select(0, at).to_doubles(),
                              sin = rope_.sin.select(0, at).to_doubles();
    std::vector<double> y(kDim);
    for (std::size_t i = 0; i < kDim / 2; ++i) {
      y[i] = x[i] * cos[i] - x[i + kDim / 2] * sin[i];
      y[i + kDim / 2] = x[i + kDim / 2] * cos[i] + x[i] * sin[i];
    }
    return y;
  }

  Stream stream_;
  Projection q_, k_, v_;
  kernels::RopeTables rope_;
  Tensor O_, ids_;
  kernels::KvBatch batch_;
  kernels::KvCache cache_;
  kernels::Attention attend_{{.mask = kernels::masks::causal()}};
  std::deque<i32> free_;
  std::vector<double> last_;
  double worst_ = 0;
};

}  // namespace

int main() {
  const Device device = Device::best();
  Engine engine(device);
  std::deque<Request> queue{{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 16},
                            {{2, 7, 1, 8}, 17},
                            {{1, 6, 1, 8, 0, 3, 3, 9}, 10},
                            {{1, 4, 1, 4, 2, 1, 3}, 12},
                            {{31, 41, 5}, 9}};
  std::vector<Request> running;
  for (int step = 0; !queue.empty() || !running.empty(); ++step) {
    while (!queue.empty() && running.size() < kSlots) {
      running.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    std::size_t tokens = 0;
    for (const Request& r : running) tokens += r.tokens.size() - static_cast<std::size_t>(r.cached);
    engine.step(running);
    std::printf("step %2d: %zu requests, %2zu tokens, %2zu pages free\n", step, running.size(),
                tokens, engine.free_pages());
    std::erase_if(running, [&](const Request& r) {
      if (r.tokens.size() < r.wanted) return false;
      engine.release(r);
      return true;
    });
  }
  std::printf("largest error on %s: %.1e\n", device.str().c_str(), engine.worst_error());
  return engine.worst_error() < 0.03 && engine.free_pages() == kPages ? 0 : 1;
}
