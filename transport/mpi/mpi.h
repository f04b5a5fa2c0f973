// MPI as bootstrap and as communicator, over any network that the cluster's MPI supports. MPI only moves bytes; the
// sums are computed here, with the same bits as in other communicators. MPI is not linked: a library of Open MPI or of
// the MPICH family is loaded when needed.
//
//   start(library)        initialises MPI             ─► World: the ranks that the launcher started
//   adopt(communicator)   of a program's own MPI      ─► World: the ranks of that communicator, on a duplicate
//                                                          │
//                               make_bootstrap, make_communicator, any number, with separate messages
//
// The thread level decides which threads call MPI:
//
//   multiple            all, at once
//   serialized          all; a mutex of the process serialises the calls, none of which blocks. The program itself
//                       calls no MPI while ranks of this library exchange data
//   funneled, single    the thread that called `start` or `adopt`, during its own exchanges and in `lend`; other
//                       threads queue theirs for it
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

/// The inputs of the choice of an MPI library.
struct LibraryChoice {
  std::filesystem::path file;     // a library, or a folder that has one; empty: chosen (library_search.h)
  LaunchEnvironment launch = {};  // the launcher's description of this process
};

/// The choice under the user's LOCKSTEP_MPI_LIBRARY. Pure.
LibraryChoice library_choice(const EnvironmentLookup& lookup, const LaunchEnvironment& launch);

/// A loaded library. MPI is not started.
struct ChosenLibrary {
  std::string file;  // as the system's loader takes it; empty: the program itself is linked to it
  std::string name;  // "Open MPI 4.1.4", "MPICH 4.0.2"
  std::string note;  // why this one, if another fits the launcher better: "MPICH was not loaded: …"
  LaunchEnvironment launch;
};

/// Fails with `kFailedPrecondition` when there is no library that this build can use and when the library would end the
/// process under this launcher, and with `kUnavailable` when MPI was left out of the build.
Result<ChosenLibrary> choose_library(const LibraryChoice& choice);

/// Ranks that MPI connects: numbered from 0, each in a separate process. Outlives all objects made from it. The
/// destructor does not wait for peers; without `finish` MPI stays initialised.
class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether only the thread that made it may call MPI, see above.
  virtual bool is_funneled() const = 0;

  /// On any thread. Every rank makes the same bootstraps and communicators in the same order.
  virtual Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait) = 0;

  /// Between `members`, ranks in any order, this one among them, numbered in that order; empty: all. Ranks that name
  /// each other name the same members. Errors name ranks by their numbers in this world. `places`: the places of all
  /// ranks of the world. On any thread; in the same order on every rank, also with different members.
  virtual Result<std::unique_ptr<PartCommunicator>> make_communicator(std::span<const RankPlace> places,
                                                                      const WaitOptions& wait,
                                                                      std::vector<int> members = {}) = 0;

  /// The `ranks` consecutive ranks among which this one is when the world, from rank 0, is cut into such parts; they
  /// divide its size. A part counts its ranks from 0, has messages of its own, and needs no other part, not even to
  /// `finish`, which leaves MPI as it is. `crowded`: all parts together have more ranks than cores.
  virtual std::unique_ptr<World> part(int ranks, bool crowded) = 0;

  /// If MPI is funneled: performs the exchanges of other threads on this one, which made the world, until `until`
  /// holds; this thread checks it often. Otherwise it only waits for `until`. Fails with the reason of an abort, and
  /// with `kDeadlineExceeded` when there was nothing to perform for the length of the deadline. @blocking
  virtual Result<void> lend(const std::function<bool()>& until, const WaitOptions& wait) = 0;

  /// Leaves the world, after all objects made from it, on the thread that made it: waits for the other ranks under the
  /// deadline, then finalises an MPI that `start` initialised and frees the duplicate of `adopt`. Fails before that
  /// when ranks are missing, because MPI_Finalize would wait for a dead peer without a deadline. @collective @blocking
  virtual Result<void> finish(const WaitOptions& wait) = 0;
};

/// Initialises MPI (once per process, on the main thread where MPI grants no more than funneled). Fails with
/// `kFailedPrecondition` when MPI was initialised before, or sees another group than the launcher started, and with
/// `kUnavailable` when MPI does not start. @collective @blocking
Result<std::unique_ptr<World>> start(const ChosenLibrary& library, const WaitOptions& wait);

/// The ranks of a communicator whose program has initialised MPI: {MPI_Comm_c2f(comm)}. It is duplicated;
/// the program keeps the communicator, MPI and all error handlers. If MPI is funneled, call it on MPI's thread. Fails
/// with `kFailedPrecondition` when MPI is not initialised, or on another thread, and with `kInvalidArgument` for an
/// inter-communicator. Programs that adopt several communicators do so in the same order on all ranks.
/// @collective @blocking
Result<std::unique_ptr<World>> adopt(int fortran_handle, const WaitOptions& wait);

}  // namespace lockstep::transport::mpi
