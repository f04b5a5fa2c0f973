// Where names become things: the only place that knows every backend and every communicator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"
#include "transport/choosing.h"
#include "transport/loopback/loopback.h"

namespace lockstep::launcher {

/// Where rank 0 listens for the others' control connections: the address that it binds and the one that they call.
struct ControlAddress {
  std::string bind;
  std::string host;
};
ControlAddress control_address(const std::vector<transport::RankPlace>& places);

/// Whether all ranks run on the same host.
bool on_one_host(const std::vector<transport::RankPlace>& places);

/// The compute threads of one rank: the cores that it does not share with the other ranks of its host, and its share of
/// those that it does.
int default_threads(const std::vector<transport::RankPlace>& places, int rank);

/// "cpu" or "reference".
Result<std::unique_ptr<device::Backend>> make_backend(const std::string& name, int threads);

/// A communicator and, when it was measured, what was chosen for which size.
struct ChosenCommunicator {
  std::unique_ptr<device::Communicator> communicator;  // null in a group of one
  std::vector<transport::Choice> choices;
};

/// `name`: auto, shm, mpi or loopback. `threads` is the group of `--launch threads`, null between processes.
/// Fails with `kInvalidArgument` when the name does not fit the launch. @collective @blocking
Result<ChosenCommunicator> make_communicator(const std::string& name, transport::Bootstrap& bootstrap,
                                             const std::shared_ptr<transport::loopback::Group>& threads,
                                             const std::vector<transport::RankPlace>& places,
                                             const transport::WaitOptions& wait);

}  // namespace lockstep::launcher
