// Byte messages between ranks, posted together and then waited for under the abort flag and the deadline. Everything
// that we ask of MPI is here: non-blocking sends and receives on a private communicator, and a test loop.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "transport/waiting.h"

namespace lockstep::transport::mpi {

/// One rank's end. Between two `finish_all` the ranks post sends and receives that match; order between two ranks is
/// kept. Used by the thread that made it. The destructor gives up what is pending and never waits for peers.
class Messages {
 public:
  /// Over a private duplicate of MPI_COMM_WORLD, between `members`: ranks of the world in any order, this one among
  /// them, numbered here from 0 on. Empty: all. Every rank of the world calls it, and ranks that name each other name
  /// the same members. @collective @blocking
  static Result<std::unique_ptr<Messages>> open(const WaitOptions& wait, bool crowded, std::vector<int> members = {});

  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages();

  /// The place among the members and their number.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  Patience& patience() { return patience_; }

  /// Posts; memory stays untouched until `finish_all`. No bytes: no message. The first error is kept for `finish_all`.
  void receive(int peer, std::span<std::byte> bytes);
  void send(int peer, std::span<const std::byte> bytes);

  /// The members that were waited for when a deadline passed; nothing if none passed.
  std::optional<std::span<const int>> missing() const;

  /// Waits until everything that was posted is done. `operation` is named in errors.
  /// @blocking
  Result<void> finish_all(const device::OperationMark& operation);

 private:
  struct Pending {           // beside the request of the same index
    int peer = 0;            // a member
    int receive_bytes = -1;  // −1: a send
  };

  Messages(const WaitOptions& wait, bool crowded, std::vector<int> members);
  Result<void> duplicate_world();
  void find_own_place();
  /// Runs the test loop until nothing is active.
  Result<void> drive(const device::OperationMark& operation);
  Result<void> check_received(const device::OperationMark& operation, int completed);
  Error gave_up(Patience::Verdict verdict, const device::OperationMark& operation);

  Patience patience_;
  const std::thread::id thread_ = std::this_thread::get_id();
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<int> members_;  // [size]: ranks of the world
  int rank_ = 0;
  int status_ = MPI_SUCCESS;  // of posting
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> completed_;
  std::vector<int> missing_;
  bool expired_ = false;
};

}  // namespace lockstep::transport::mpi
