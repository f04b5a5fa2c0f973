// The rows that another process shares out (row_server.h), for this process's group of ranks.
#pragma once

#include <memory>
#include <mutex>

#include "launcher/rows/row_source.h"
#include "launcher/rows/row_wire.h"

namespace lockstep::launcher {

class RowClient final : public RowSource {
 public:
  /// Connects as group number `group`. Fails with `kUnavailable`, and with `kPeerLost` when the other process does not
  /// answer. @blocking
  static Result<std::unique_ptr<RowClient>> connect(const RowAddress& address, size_t group);

  const RowSetup& setup() const { return setup_; }

  std::optional<size_t> next() override;
  void put(journal::RowResult row) override;
  void hold(size_t row) override;

  /// Whether the other process is there; fails with `kPeerLost`.
  Result<void> status() const;

 private:
  explicit RowClient(Descriptor socket) : socket_(std::move(socket)) {}

  void send(RowMessage kind, std::span<const uint64_t> words);

  const Descriptor socket_;
  RowSetup setup_;
  mutable std::mutex mutex_;  // guards sending, and the next
  bool is_lost_ = false;
};

}  // namespace lockstep::launcher
