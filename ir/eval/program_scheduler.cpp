#include "ir/eval/program_scheduler.h"

#include <algorithm>

namespace tegula::ir::interp {

namespace {

/// Maximum number of programs that wait at a time; a GPU has a few thousand resident.
constexpr std::size_t kMaxWorkers = 2048;

}  // namespace

ProgramScheduler::ProgramScheduler(Evaluation& evaluation, std::span<const std::int64_t> order,
                                   RunFn run)
    : evaluation_(evaluation), order_(order), run_(run) {}

void ProgramScheduler::run_all() {
  evaluation_.scheduler = this;
  {
    const Lock lock(mutex_);
    resume_next();
  }
  // Workers create other workers; elements of the deque do not move.
  for (std::size_t i = 0;; ++i) {
    Worker* worker = nullptr;
    {
      const Lock lock(mutex_);
      if (i < workers_.size()) worker = workers_[i].get();
    }
    if (worker == nullptr) break;
    worker->thread.join();
  }
  evaluation_.scheduler = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

ProgramScheduler::Worker& ProgramScheduler::worker_of(const Program& program) {
  return **std::ranges::find_if(workers_, [&](const auto& w) {
    return std::ranges::any_of(w->programs, [&](const auto& p) { return p.get() == &program; });
  });
}

ProgramScheduler::Worker& ProgramScheduler::new_worker() {
  workers_.push_back(std::make_unique<Worker>());
  Worker& w = *workers_.back();
  for (int rank = 0; rank < evaluation_.kernel.info.cluster; ++rank)
    w.programs.push_back(std::make_unique<Program>(evaluation_));
  w.thread = std::thread([this, &w] { work(w); });
  return w;
}

void ProgramScheduler::take_turn(Worker& me, Lock& lock) {
  me.wakes.wait(lock, [&] { return me.has_turn; });
  me.has_turn = false;
  me.state = State::Runs;
}

void ProgramScheduler::work(Worker& me) {
  Lock lock(mutex_);
  for (;;) {
    take_turn(me, lock);
    if (failure_ || begun_ == order_.size()) break;
    const std::int64_t number = order_[begun_++];
    lock.unlock();
    run_program(me, number);
    lock.lock();
    count_changes(me);
    me.state = State::Idle;
    queue_.push_back(&me);
    resume_next();
  }
  resume_next();
}

void ProgramScheduler::run_program(Worker& me, std::int64_t number) {
  try {
    run_(me.programs, number);
  } catch (const Stopped&) {
  } catch (...) {
    const Lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void ProgramScheduler::count_changes(Worker& me) {
  std::uint64_t all = 0;
  for (const auto& p : me.programs) all += p->effects;
  changes_ += all - me.counted;
  me.counted = all;
}

ProgramScheduler::Worker* ProgramScheduler::first_in(State state, bool may_go_on) {
  const auto it = std::ranges::find_if(queue_, [&](const Worker* w) {
    return w->state == state && (!may_go_on || w->seen != changes_);
  });
  if (it == queue_.end()) return nullptr;
  Worker* found = *it;
  queue_.erase(it);
  return found;
}

ProgramScheduler::Worker* ProgramScheduler::next() {
  if (failure_ == nullptr) {
    if (Worker* w = first_in(State::Waits, true)) return w;
    if (Worker* w = first_in(State::Yields, false)) return w;
    if (begun_ < order_.size()) {
      if (Worker* w = first_in(State::Idle, false)) return w;
      if (workers_.size() < kMaxWorkers) return &new_worker();
    }
  }
  for (const State state : {State::Waits, State::Yields, State::Idle})
    if (Worker* w = first_in(state, false)) {
      is_stuck_ = state == State::Waits;
      return w;
    }
  return nullptr;
}

void ProgramScheduler::resume_next() {
  Worker* to = next();
  if (to == nullptr) return;
  to->has_turn = true;
  to->wakes.notify_one();
}

bool ProgramScheduler::pause(const Program& program, State as) {
  Lock lock(mutex_);
  Worker& me = worker_of(program);
  count_changes(me);
  me.seen = changes_;
  me.state = as;
  queue_.push_back(&me);
  resume_next();
  take_turn(me, lock);
  if (failure_) throw Stopped();
  return !std::exchange(is_stuck_, false);
}

bool ProgramScheduler::wait(const Program& program) { return pause(program, State::Waits); }
void ProgramScheduler::yield(const Program& program) { pause(program, State::Yields); }

bool Program::wait_for_others() {
  return evaluation_.scheduler != nullptr && evaluation_.scheduler->wait(*this);
}

void Program::let_others_run() {
  if (evaluation_.scheduler != nullptr) evaluation_.scheduler->yield(*this);
}

}  // namespace tegula::ir::interp
