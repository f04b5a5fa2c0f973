// MPI as bootstrap and as communicator: whatever network the cluster's MPI knows. It moves bytes; the sums are ours, so
// they have the same bits as everywhere else. No MPI is linked: a library of Open MPI or of the MPICH family is loaded
// when it is needed.
//
//   start(library)        initialises MPI             ─► World: the ranks that the launcher started
//   adopt(communicator)   of a program's own MPI      ─► World: the ranks of that communicator, on a duplicate
//                                                          │
//                               make_bootstrap, make_communicator, any number: each has messages of its own
//
// The thread level decides which threads call MPI:
//
//   multiple            all, at once
//   serialized          all; a mutex of the process serialises the calls, none of which blocks. The program itself
//                       calls no MPI while ranks of ours exchange anything
//   funneled, single    the thread that called `start` or `adopt`, during its own exchanges and in `lend`; other
//                       threads hand it theirs
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/bootstrap.h"
#include "transport/launch_environment.h"
#include "transport/parts.h"

namespace lockstep::transport::mpi {

/// What decides which MPI library is loaded.
struct LibraryChoice {
  std::filesystem::path file;     // a library, or a folder that has one; empty: chosen (library_search.h)
  LaunchEnvironment launch = {};  // what the launcher says of this process
};

/// The choice of a program: the user names a library by LOCKSTEP_MPI_LIBRARY. Pure.
LibraryChoice library_choice(const EnvironmentLookup& lookup, const LaunchEnvironment& launch);

/// A library that is loaded. MPI is not started.
struct ChosenLibrary {
  std::string file;  // as the system's loader takes it; empty: the program itself is linked to it
  std::string name;  // "Open MPI 4.1.4", "MPICH 4.0.2"
  std::string note;  // why it is this one, where another fits the launcher better: "MPICH was not loaded: …"
  LaunchEnvironment launch;
};

/// Fails with `kFailedPrecondition` when there is no library that this build can use and when the library would end the
/// process under this launcher, and with `kUnavailable` when MPI was left out of the build.
Result<ChosenLibrary> choose_library(const LibraryChoice& choice);

/// Ranks that MPI connects: numbered from 0 on, each in a process of its own. Outlives all that is made of it. The
/// destructor waits for no peer: without `finish` MPI stays as it is.
class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether only the thread that made it may call MPI, see above.
  virtual bool is_funneled() const = 0;

  /// On any thread; every rank makes the same bootstraps and communicators in the same order.
  virtual Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait) = 0;

  /// Between `members`, ranks in any order, this one among them, numbered in that order; empty: all. Ranks that name
  /// each other name the same members. Errors call ranks by their numbers here. `places` says where the ranks are, all
  /// of them. On any thread, in the same order on every rank, with whatever members.
  virtual Result<std::unique_ptr<PartCommunicator>> make_communicator(std::span<const RankPlace> places,
                                                                      const WaitOptions& wait,
                                                                      std::vector<int> members = {}) = 0;

  /// Where MPI is funneled: performs the exchanges of other threads on this one, which made the world, until `until`
  /// holds; it is asked often, from here. Elsewhere it just waits for that. Fails with the reason of an abort, and with
  /// `kDeadlineExceeded` when there was nothing to perform for the length of the deadline. @blocking
  virtual Result<void> lend(const std::function<bool()>& until, const WaitOptions& wait) = 0;

  /// Leaves in good order, when nothing that was made of it is used any more, on the thread that made it: meets the
  /// others under the deadline, then finalises an MPI that `start` initialised and frees the duplicate of `adopt`.
  /// Fails without doing so when not all came: MPI_Finalize would wait for a dead peer without end. @collective
  /// @blocking
  virtual Result<void> finish(const WaitOptions& wait) = 0;
};

/// Initialises MPI (once per process, on the main thread where MPI grants no more than funneled). Fails with
/// `kFailedPrecondition` when MPI was initialised before, or sees another group than the launcher started, and with
/// `kUnavailable` when MPI does not start. @collective @blocking
Result<std::unique_ptr<World>> start(const ChosenLibrary& library, const WaitOptions& wait);

/// The ranks of a communicator whose program has initialised MPI: {MPI_Comm_c2f(comm)}. It is duplicated, and stays the
/// program's, as do MPI and all error handlers. Where MPI is funneled, on the thread that initialised it. Fails with
/// `kFailedPrecondition` when MPI is not initialised, or on another thread, and with `kInvalidArgument` for an
/// inter-communicator. Programs that adopt several communicators do so in the same order on all ranks.
/// @collective @blocking
Result<std::unique_ptr<World>> adopt(int fortran_handle, const WaitOptions& wait);

}  // namespace lockstep::transport::mpi
