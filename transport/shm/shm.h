// Collectives between processes of one host through POSIX shared memory: spin with a bound, then yield, then sleep on a
// futex. The fastest way between ranks of one machine.
#pragma once

#include <memory>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"

namespace lockstep::transport::shm {

/// How a rank's bytes get into the shared region. Which is faster depends on how far the cores are from each other, so
/// offer both to `choose_communicator`. "shm" and "shm past cache" are their names.
enum class Copies { kThroughCache, kPastCache };

struct Options {
  size_t message_bytes = 1 << 20;  // the largest piece that one round moves
  Copies copies = Copies::kThroughCache;
};

/// Makes the region, agrees on it through `bootstrap` and unlinks its name as soon as every rank has it, so that
/// nothing is left behind however the job ends. Fails with `kUnavailable` when the ranks are not on one host, and with
/// `kResourceExhausted` when /dev/shm is too small (the message says what is needed and what is there).
/// @collective @blocking
Result<std::unique_ptr<device::Communicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                                const Options& options = {});

}  // namespace lockstep::transport::shm
