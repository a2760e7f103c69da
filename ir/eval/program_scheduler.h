#pragma once
// Runs programs of the interpreter that may wait for one another, by switching between them.
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

/// Runs the programs of a launch, one at a time. Each program that has begun and not ended has a
/// dedicated host thread, which preserves its position in the kernel; exactly one thread is active.
/// A waiting program becomes active again after another one has changed something; new programs
/// begin when no started program can continue.
class ProgramScheduler {
 public:
  using RunFn = void (*)(std::span<const std::unique_ptr<Program>> programs, std::int64_t number);

  /// `order`: numbers of programs, or of clusters; `run` runs one of them to its end.
  ProgramScheduler(Evaluation& evaluation, std::span<const std::int64_t> order, RunFn run);

  /// Runs all programs. Rethrows the first exception of a program.
  void run_all();

  /// Suspends the active program until something has changed that it may wait for. Returns false if
  /// no program can continue.
  bool wait(const Program& program);
  /// Lets other programs run before the active one continues.
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
    std::uint64_t counted = 0;  ///< changes by its programs that are included in changes_
    std::uint64_t seen = 0;     ///< value of changes_ when it last found no progress
  };
  struct Stopped {};
  using Lock = std::unique_lock<std::mutex>;

  Worker& worker_of(const Program& program);
  Worker& new_worker();
  void work(Worker& me);
  void run_program(Worker& me, std::int64_t number);
  void count_changes(Worker& me);
  /// Resumes the next worker, if there is one.
  void resume_next();
  Worker* next();
  Worker* first_in(State state, bool may_go_on);
  void take_turn(Worker& me, Lock& lock);
  bool pause(const Program& program, State as);

  Evaluation& evaluation_;
  std::span<const std::int64_t> order_;
  RunFn run_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Worker>> workers_;
  std::deque<Worker*> queue_;  ///< workers that wait, yield or are idle, in order of arrival
  std::size_t begun_ = 0;
  std::uint64_t changes_ = 0;
  bool is_stuck_ = false;
  std::exception_ptr failure_;
};

}  // namespace tegula::ir::interp
