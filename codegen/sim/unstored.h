#pragma once
// Elements of arguments that a launch must define but did not store.
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "codegen/sim/simulator.h"

namespace tegula::sim {

class Unstored {
 public:
  /// Tracks the ranges that must be stored.
  explicit Unstored(std::span<const GlobalRange> ranges);

  void store(std::uint64_t address, std::uint64_t bytes) {
    if (address < highest_ && address + bytes > lowest_) mark(address, bytes);
  }
  /// Records that an op with a false predicate would have stored here.
  void leave_out(ir::OpId op, std::uint64_t address) {
    if (address < highest_ && address >= lowest_) note(op, address);
  }
  /// Returns one finding per argument.
  std::vector<Finding> find(const ir::Kernel& kernel) const;

 private:
  struct LeftOut {
    ir::OpId op;
    std::uint64_t address = 0;
  };
  struct Argument {
    const GlobalRange* range = nullptr;
    std::uint64_t begin = 0, end = 0, size = 1;
    std::vector<std::uint8_t> stored;  ///< by element from `begin`
    std::vector<LeftOut> left_out;     ///< lowest address of each op, among those not yet stored

    std::uint64_t number(std::uint64_t address) const { return (address - begin) / size; }
    bool is_stored(std::uint64_t address) const;
  };

  void mark(std::uint64_t address, std::uint64_t bytes);
  void note(ir::OpId op, std::uint64_t address);
  static Finding finding(const Argument& a, const ir::Kernel& kernel);

  std::uint64_t lowest_ = ~std::uint64_t{0}, highest_ = 0;
  std::vector<Argument> arguments_;
  std::mutex mutex_;  ///< guards left_out
};

}  // namespace tegula::sim
