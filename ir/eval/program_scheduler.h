#pragma once
// Programs of the interpreter that wait for one another: another one runs meanwhile.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// Runs the programs of a launch, one at a time. Each that has begun and not ended has a thread of
/// the host to itself, which keeps its place in the kernel; the threads hand a turn to one another.
/// A program that waits gets the turn again once another one has changed something; further
/// programs begin where none that has begun can go on.
class ProgramScheduler {
 public:
  using RunFn = void (*)(std::span<const std::unique_ptr<Program>> programs, std::int64_t number);

  /// `order`: numbers of programs, or of clusters, each of which `run` runs to its end.
  ProgramScheduler(Evaluation& evaluation, std::span<const std::int64_t> order, RunFn run);

  /// Runs all of them. Throws what one of them throws.
  void run_all();

  /// The program that has the turn cannot go on: returns once something has changed that it may
  /// wait for. False: no program can go on any more.
  bool wait(const Program& program);
  /// Others get the turn before the program that has it goes on.
  void yield(const Program& program);

 private:
  enum class State : std::uint8_t { Idle, Runs, Waits, Yields };
  /// A thread with the program, or the cluster of programs, that it runs.
  struct Worker {
    std::vector<std::unique_ptr<Program>> programs;
    std::thread thread;
    std::condition_variable wakes;
    State state = State::Idle;
    bool has_turn = false;
    std::uint64_t counted = 0;  ///< changes by its programs that are among changes_
    std::uint64_t seen = 0;     ///< the changes that it has seen in vain
  };
  struct Stopped {};
  using Lock = std::unique_lock<std::mutex>;

  Worker& worker_of(const Program& program);
  Worker& new_worker();
  void work(Worker& me);
  void run_program(Worker& me, std::int64_t number);
  void count_changes(Worker& me);
  /// Gives the turn to the next worker, if there is one to have it.
  void hand_over();
  Worker* next();
  Worker* first_in(State state, bool may_go_on);
  void take_turn(Worker& me, Lock& lock);
  bool pause(const Program& program, State as);

  Evaluation& evaluation_;
  std::span<const std::int64_t> order_;
  RunFn run_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Worker>> workers_;
  std::deque<Worker*> queue_;  ///< those that wait, yield or are idle; who came last stands last
  std::size_t begun_ = 0;
  std::uint64_t changes_ = 0;
  bool is_stuck_ = false;
  std::exception_ptr failure_;
};

}  // namespace tegula::ir::interp
