#include "launcher/process/interruption.h"

#include <pthread.h>
#include <csignal>

#include "runtime/core/check.h"

namespace lockstep::launcher {
namespace {

sigset_t watched() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

Interruption::Interruption(std::function<void(int)> on_signal) {
  const sigset_t signals = watched();
  LOCKSTEP_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  thread_ = std::thread([this, act = std::move(on_signal), signals] {
    for (int signal = 0; sigwait(&signals, &signal) == 0 && !leaving_;) act(signal);
  });
}

Interruption::~Interruption() {
  leaving_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

}  // namespace lockstep::launcher
