#include "autotune/race/tune_listener.h"

namespace tegula::autotune {
namespace {

thread_local const TuneListener* listener = nullptr;

}  // namespace

TuneListener::TuneListener(Callbacks c) : callbacks(std::move(c)) { listener = this; }
TuneListener::~TuneListener() { listener = nullptr; }
const TuneListener* TuneListener::current() { return listener; }

}  // namespace tegula::autotune
