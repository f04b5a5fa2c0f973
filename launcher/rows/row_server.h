// Shares the rows of a job out to groups of ranks in other processes.
//
//   connection of a group ─► its thread ─► SharedRows        the connection ends: others answer the group's rows
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launcher/rows/row_wire.h"
#include "launcher/rows/shared_rows.h"
#include "runtime/core/stop_event.h"
#include "transport/rank_listener.h"

namespace lockstep::launcher {

class RowServer {
 public:
  /// Listens at `address`; groups may connect at once. Each works on fewer than `most` rows. `rows` is borrowed. Fails
  /// as `listen_for_groups`.
  /// `on_refused` gets lines for a log about connections of TCP without the secret, on another thread. A group over TCP
  /// whose host does not answer for `silence` is lost.
  static Result<std::unique_ptr<RowServer>> open(SharedRows& rows, RowSetup setup, size_t most, RowAddress address,
                                                 std::function<void(const std::string&)> on_refused = {},
                                                 Duration silence = kSilence);
  /// Ends all connections.
  ~RowServer();
  RowServer(const RowServer&) = delete;
  RowServer& operator=(const RowServer&) = delete;

  /// Waits until every group that has come has gone, with all that it has said; false: some are there after `limit`.
  /// @blocking
  bool wait_gone(Duration limit = std::chrono::seconds(30));

  /// Where it listens.
  const RowAddress& address() const { return address_; }

 private:
  RowServer(SharedRows& rows, RowSetup setup, size_t most, RowAddress address, Duration silence);

  void accept_all();
  void accept_local();
  void begin(Descriptor connection);
  void serve(Descriptor& connection);
  bool answer(const RowFrame& frame, size_t group, const Descriptor& connection);
  bool answer_next(size_t group, const Descriptor& connection);

  SharedRows& rows_;
  const RowSetup setup_;
  const size_t most_;
  const Duration silence_;
  RowAddress address_;
  Descriptor listener_;                            // of a Unix socket
  std::optional<transport::RankListener> groups_;  // of TCP
  StopEvent stop_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable gone_;
  std::list<Descriptor> connections_;  // closed by the destructor
  size_t open_ = 0;                    // of these
  std::list<std::thread> threads_;     // of the thread that accepts
  std::thread accepting_;
};

}  // namespace lockstep::launcher
