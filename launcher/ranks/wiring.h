// Communicators by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/cli/command_line.h"
#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"
#include "transport/choosing.h"
#include "transport/loopback/loopback.h"
#include "transport/mpi/mpi.h"
#include "transport/shm/shm.h"
#include "transport/two_level/two_level.h"

namespace lockstep::launcher {

/// Whether all ranks run on the same host.
bool on_one_host(const std::vector<transport::RankPlace>& places);

/// The compute threads of one rank: the cores that it does not share with the other ranks of its host, and its share of
/// those that it does.
int default_threads(const std::vector<transport::RankPlace>& places, int rank);

/// A communicator and, when it was measured, what was chosen for which size.
struct ChosenCommunicator {
  std::unique_ptr<device::Communicator> communicator;  // null in a group of one
  std::vector<transport::Choice> choices;
  std::vector<std::string> notes;  // for the user, once; the same on every rank
};

/// How the parts of a two-level communicator move bytes.
struct TwoLevelOptions {
  transport::shm::Options within;
  transport::two_level::Options across;
};

/// Shared memory inside the hosts of `places`, MPI between them. `bootstrap` is that of `mpi`. Fails alike on every
/// rank, with the error of a host that cannot share memory. @collective @blocking
Result<std::unique_ptr<device::Communicator>> make_two_level(transport::mpi::World& mpi,
                                                             transport::Bootstrap& bootstrap,
                                                             const std::vector<transport::RankPlace>& places,
                                                             const transport::WaitOptions& wait,
                                                             TwoLevelOptions options = {});

/// "auto", and the ways that a user may name.
std::vector<std::string> communicator_names();

/// `name` is one of `communicator_names`. `mpi` connects ranks that are processes, `threads` is the group of
/// `--launch threads`; the other one is null.
/// auto takes what is fastest per message size, of shm and mpi on one host, of two-level and mpi on several; what it
/// has to do without is said in `notes`. Fails with `kInvalidArgument` when the name does not fit the launch or the
/// hosts, and then alike on every rank. @collective @blocking
Result<ChosenCommunicator> make_communicator(const std::string& name, transport::Bootstrap& bootstrap,
                                             transport::mpi::World* mpi,
                                             const std::shared_ptr<transport::loopback::Group>& threads,
                                             const std::vector<transport::RankPlace>& places,
                                             const transport::WaitOptions& wait);

}  // namespace lockstep::launcher
