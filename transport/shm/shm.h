// Collectives between processes of one host through shared memory: spin with a bound, then yield, then sleep on a
// futex. The fastest communicator between ranks of one machine.
#pragma once

#include <memory>

#include "transport/bootstrap.h"
#include "transport/parts.h"
#include "transport/waiting.h"

namespace lockstep::transport::shm {

/// The copy of a rank's bytes into the shared region. The faster one depends on the distance between the cores, so
/// offer both to `choose_communicator`. "shm" and "shm past cache" are their names.
enum class Copies { kThroughCache, kPastCache };

/// The kind of file. Nameless, in /dev/shm: reachable only by the first rank's descriptor, so no file can be left
/// behind; if the ranks cannot open it (containers with separate process ids), a named file is made instead, whose name
/// exists until all ranks have opened it. Memory: a file of the kernel's memory (memfd_create), reachable as the
/// nameless one, where /dev/shm is missing or read-only.
enum class FileKind { kNameless, kNamed, kMemory };

struct Options {
  size_t message_bytes = 1 << 20;  // the largest piece that one round moves
  Copies copies = Copies::kThroughCache;
  FileKind file = FileKind::kNameless;
  Crowding crowding = Crowding::kAsPlaced;
};

/// Makes the region and agrees on it through `bootstrap`. Fails alike on every rank: with `kUnavailable` when the ranks
/// are not on one host or cannot open each other's files, and with `kResourceExhausted` when /dev/shm is too small (the
/// message gives the needed and the available size). Errors name world ranks.
/// @collective @blocking
Result<std::unique_ptr<HostCommunicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                            const Options& options = {});

}  // namespace lockstep::transport::shm
