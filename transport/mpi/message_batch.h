// Messages of one rank that are posted together, and the looks that drive them until all are over.
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

/// Between which ranks a batch's messages go.
struct Channel {
  std::shared_ptr<Library> library;  // shared: a batch that was given up may outlive its world
  Comm comm;
  int tag = 0;               // no other channel of the communicator has it
  std::vector<int> members;  // [size]: ranks of the communicator, by their numbers here
  int rank = 0;              // the own one among the members
};

/// Used again and again: posts are collected, then polled until they are over. Calls of one thread at a time.
class MessageBatch final : public PolledWork {
 public:
  MessageBatch(Channel channel, const WaitOptions& wait, const WaitStages& stages);

  const Channel& channel() const { return channel_; }
  Patience& patience() { return patience_; }

  /// Memory stays untouched until the batch is over. No bytes: no message.
  void receive(int peer, std::span<std::byte> bytes);
  void send(int peer, std::span<const std::byte> bytes);

  /// The posts so far are to be performed by `poll`; `operation` is named in errors.
  void begin(const device::OperationMark& operation);
  bool poll() override;
  void abandon() override;

  /// How it went, once it is over. After a failure the batch is of no more use.
  Result<void> take_result();

  /// The members that were waited for when the deadline passed; nothing if it did not.
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
  int own_rank() const { return channel_.members[static_cast<size_t>(channel_.rank)]; }

  const Channel channel_;
  Patience patience_;
  std::unique_ptr<Requests> requests_;
  std::vector<Post> posts_;  // beside the request of the same number
  bool is_posted_ = false;
  device::OperationMark operation_;
  std::optional<Error> error_;
  std::vector<int> missing_;
  bool has_expired_ = false;
};

}  // namespace lockstep::transport::mpi
