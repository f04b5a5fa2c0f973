// A batch of one rank's messages, posted together and polled until all are complete.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/mpi/funneled_queue.h"
#include "transport/mpi/library.h"
#include "transport/waiting.h"

namespace lockstep::transport::mpi {

/// The ranks of a batch's messages.
struct Channel {
  std::shared_ptr<Library> library;  // shared: an abandoned batch may outlive its world
  Comm comm;
  int tag = 0;               // unique among the communicator's channels
  std::vector<int> members;  // [size]: ranks of the communicator, by their numbers here
  int rank = 0;              // the own one among the members
  int first = 0;             // the rank of the communicator that errors call 0

  /// The name of a member in errors.
  int name_of(int member) const { return members[static_cast<size_t>(member)] - first; }
};

/// Reusable: collects posts, then polls until they are complete. Used by one thread at a time.
class MessageBatch final : public PolledWork {
 public:
  MessageBatch(Channel channel, const WaitOptions& wait, const WaitStages& stages);

  const Channel& channel() const { return channel_; }
  Patience& patience() { return patience_; }

  /// The caller leaves the memory untouched until the batch is complete. Zero bytes: no message.
  void receive(int peer, std::span<std::byte> bytes);
  void send(int peer, std::span<const std::byte> bytes);

  /// Starts the collected posts, which `poll` performs; errors name `operation`.
  void begin(const device::OperationMark& operation);
  bool poll() override;
  void abandon() override;

  /// The outcome, after completion. A failed batch cannot be used again.
  Result<void> take_result();

  /// The missing members at the deadline; empty if it did not pass.
  std::optional<std::span<const int>> missing() const;

 private:
  struct Post {
    int peer = 0;  // a member
    std::byte* data = nullptr;
    size_t size = 0;
    bool is_receive = false;
  };

  Result<void> post_all();
  Result<bool> look();
  Result<void> check_received(std::span<const Requests::Done> done) const;
  Error expired();
  int own_rank() const { return channel_.name_of(channel_.rank); }

  const Channel channel_;
  Patience patience_;
  std::unique_ptr<Requests> requests_;
  std::vector<Post> posts_;  // by request number
  bool is_posted_ = false;
  device::OperationMark operation_;
  std::optional<Error> error_;
  std::vector<int> missing_;
  bool has_expired_ = false;
};

}  // namespace lockstep::transport::mpi
