// The interface to an MPI library without its mpi.h: handles are numbers, and codes are MPI's return values.
//
//   Library ── new_requests ──► Requests: send, receive, duplicate … test … test   (non-blocking; the same for all)
//      ▲
//   adapter.cpp, compiled against Open MPI's mpi.h and against MPICH's
//
// Two libraries have one binary interface when they are of one family: Open MPI 3 to 5; MPICH, Intel MPI and others of
// the MPICH ABI. A process uses one library, and a single mutex serialises its calls unless its level is multiple.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::transport::mpi {

enum class Family { kOpenMpi, kMpich };

/// "Open MPI", "MPICH".
std::string_view to_string(Family family);

/// MPI's thread level.
enum class ThreadLevel { kSingle, kFunneled, kSerialized, kMultiple };

/// "serialized".
std::string_view to_string(ThreadLevel level);

/// An MPI_Comm as a number.
struct Comm {
  std::uintptr_t handle = 0;

  friend bool operator==(const Comm&, const Comm&) = default;
};

/// The return value of an MPI function.
using Code = int;
inline constexpr Code kSuccess = 0;

/// The envelope of a message: the other rank of a communicator, and the tag.
struct Envelope {
  Comm comm;
  int peer = 0;
  int tag = 0;
};

/// Pending requests, numbered from 0 in the order of their calls; a failed call has no number. The caller leaves their
/// memory untouched until they are complete. The destructor calls no MPI and abandons pending requests.
class Requests {
 public:
  /// A completed message.
  struct Done {
    int request = 0;
    int bytes = 0;  // received
  };

  /// The result of one call of `test`.
  struct Look {
    Code code = kSuccess;        // of the call, or of the first request that failed
    bool is_over = false;        // no request is pending
    std::span<const Done> done;  // by this call; until the next one
  };

  virtual ~Requests() = default;

  /// At most 2^31 - 1 bytes.
  virtual Code receive(const Envelope& from, std::span<std::byte> bytes) = 0;
  virtual Code send(const Envelope& to, std::span<const std::byte> bytes) = 0;
  /// Starts to duplicate a communicator, once for this object. @collective
  virtual Code duplicate(Comm parent) = 0;
  /// The duplicate, after its request is complete.
  virtual Comm duplicated() const = 0;

  virtual Look test() = 0;
  virtual bool is_pending(int request) const = 0;
  /// Cancels requests where MPI can, and abandons the others. Does not wait.
  virtual void give_up() = 0;
  /// Forgets all completed requests; the next one is number 0.
  virtual void clear() = 0;
};

/// A loaded library. It stays loaded until the process ends.
class Library {
 public:
  /// The meaning of a failing code.
  struct Failure {
    std::string text;
    ErrorKind kind = ErrorKind::kPeerLost;
  };

  virtual ~Library() = default;

  /// The text of MPI_Get_library_version: "Open MPI v4.1.4, package: …". Also before MPI is started.
  virtual std::string version() const = 0;
  virtual bool is_initialized() const = 0;
  virtual bool is_finalized() const = 0;

  /// Stores the granted level in `granted`. @collective @blocking
  virtual Code initialize(ThreadLevel wanted, ThreadLevel& granted) = 0;
  /// Of an initialised MPI. Without the mutex from here on if it is multiple.
  virtual ThreadLevel thread_level() = 0;
  /// Whether this thread initialised MPI.
  virtual bool is_main_thread() const = 0;
  /// @collective @blocking
  virtual Code finalize() = 0;

  virtual Comm world() const = 0;
  /// Of an initialised MPI. Fails with `kInvalidArgument` where no intra-communicator has this Fortran handle.
  virtual Result<Comm> from_fortran(int handle) const = 0;
  virtual int rank_in(Comm comm) const = 0;
  virtual int size_of(Comm comm) const = 0;
  /// The largest tag of a message.
  virtual int last_tag() const = 0;
  /// Failing calls on `comm` return instead of ending the process.
  virtual Code return_errors(Comm comm) = 0;
  /// @collective
  virtual Code free(Comm comm) = 0;
  virtual std::unique_ptr<Requests> new_requests() = 0;
  virtual Failure describe(Code code) const = 0;
};

/// "Open MPI 4.1.4", "MPICH 4.0.2", from `Library::version`.
std::string name_of(std::string_view version);

/// The error of `rank` in `what` after a failing code.
Error mpi_error(const Library& library, Code code, int rank, std::string_view what);

/// Turns the code of an MPI call into a result.
inline Result<void> check(const Library& library, Code code, int rank, std::string_view what) {
  if (code == kSuccess) return ok();
  return mpi_error(library, code, rank, what);
}

}  // namespace lockstep::transport::mpi
