#pragma once
// A store in a separate folder, and rows to put into it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "autotune/store/tuning_store.h"
#include "tests/unit/faulty_vfs.h"

namespace tegula::autotune {

inline TuningKey key_of(int i) {
  return {"NVIDIA Test cc 9.0 sms 132", "matmul", 1, "m " + std::to_string(i) + " n 128 k 64",
          "n0"};
}

inline Winner winner_of(int i) {
  Winner w;
  w.key = key_of(i);
  w.config = "bm 128 bn " + std::to_string(64 + i);
  w.code = std::string(32, static_cast<char>('a' + i % 6));
  w.ratio = 0.75 + i / 1024.0;
  w.ratio_high = 0.76 + i / 1024.0;
  w.candidates = 24;
  w.tools = "llvm 19.1.7";
  return w;
}

inline Timing timing_of(int i, int code) {
  Timing t;
  t.key = key_of(i);
  t.policy = "cold";
  t.code = "code " + std::to_string(code);
  t.ns = 1000.5 + code;
  t.samples = 45;
  t.verdict = "ok";
  return t;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("tegula-store-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {}
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  StoreOptions options(runtime::Vfs& vfs = runtime::Vfs::posix()) {
    StoreOptions o;
    o.folder = folder_;
    o.vfs = &vfs;
    o.warn = [this](const std::string& text) { warnings_.push_back(text); };
    o.now = [this] { return now_; };
    o.read_patience_ms = 50;
    return o;
  }
  std::filesystem::path file() const { return folder_ / "tuning.db"; }
  std::string bytes() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
    std::filesystem::permissions(file(), std::filesystem::perms(0600));
  }
  /// The winner as a store keeps it.
  Winner stored(int i) const {
    Winner w = winner_of(i);
    w.at = now_;
    return w;
  }
  Timing stored(int i, int code) const {
    Timing t = timing_of(i, code);
    t.at = now_;
    return t;
  }

  static inline int next_ = 0;
  std::filesystem::path folder_;
  std::vector<std::string> warnings_;
  std::int64_t now_ = 1'764'000'000;
};

}  // namespace tegula::autotune
