// Collectives between processes of one host through shared memory: spin with a bound, then yield, then sleep on a
// futex. The fastest way between ranks of one machine.
#pragma once

#include <memory>

#include "transport/bootstrap.h"
#include "transport/parts.h"
#include "transport/waiting.h"

namespace lockstep::transport::shm {

/// How a rank's bytes get into the shared region. Which is faster depends on how far the cores are from each other, so
/// offer both to `choose_communicator`. "shm" and "shm past cache" are their names.
enum class Copies { kThroughCache, kPastCache };

/// What the memory is in /dev/shm. Nameless: a file that only the first rank's descriptor leads to, so that nothing can
/// be left behind; where the ranks may not open it (containers that do not see each other's processes), a named one is
/// made. Named: its name is there for as long as it takes all ranks to open it.
enum class FileKind { kNameless, kNamed };

struct Options {
  size_t message_bytes = 1 << 20;  // the largest piece that one round moves
  Copies copies = Copies::kThroughCache;
  FileKind file = FileKind::kNameless;
  Crowding crowding = Crowding::kAsPlaced;
};

/// Makes the region and agrees on it through `bootstrap`. Fails alike on every rank: with `kUnavailable` when the ranks
/// are not on one host or cannot open each other's files, and with `kResourceExhausted` when /dev/shm is too small (the
/// message says what is needed and what is there). Errors call ranks by their numbers in the world.
/// @collective @blocking
Result<std::unique_ptr<HostCommunicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                            const Options& options = {});

}  // namespace lockstep::transport::shm
