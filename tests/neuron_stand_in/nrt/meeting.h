// The connection of a job's processes for collectives. Rank 0 listens at NEURON_RT_ROOT_COMM_ID, the others connect to
// it, and every collective goes through it.
//
//   rank 1 ──own──►            ┌─ all ──► rank 1
//   rank 2 ──own──►   rank 0   ├─ all ──► rank 2        one connection a rank; a rank that dies closes its own
//   rank 3 ──own──►            └─ all ──► rank 3
//
// All ranks run one module, so each collective of a module is one exchange of all ranks; those of a replica group get
// what their group gave. Every wait ends at a deadline.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/neuron/nrt/abi.h"
#include "tests/neuron_stand_in/interpreter/exchange.h"

namespace lockstep::stand_in {

class Meeting final : public Exchange {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    uint32_t rank = 0;
    uint32_t ranks = 1;
    std::chrono::seconds limit{60};  // for all ranks to connect
  };

  /// Waits until every rank is there: NRT_TIMEOUT after the limit, NRT_FAILURE when the address cannot be used.
  /// @collective @blocking
  static nrt::NRT_STATUS open(const Options& options, std::unique_ptr<Meeting>& meeting);

  ~Meeting() override;

  const Options& options() const { return options_; }
  /// How long the next collectives may wait for a rank.
  void set_limit(std::chrono::seconds limit) { limit_ = limit; }
  /// Whether the last fault was a deadline that passed, and not a rank that left.
  bool has_timed_out() const { return has_timed_out_; }

  Outcome all_gather(std::span<const int64_t> group, std::span<const std::byte> own, std::span<std::byte> all) override;

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Meeting(Options options) : options_(std::move(options)), limit_(options_.limit) {}

  /// Closes all connections: every later exchange of any rank fails.
  void leave();
  nrt::NRT_STATUS listen(Deadline deadline);
  nrt::NRT_STATUS connect(Deadline deadline);
  Outcome gather_at_root(std::span<const int64_t> group, std::span<const std::byte> own, std::span<std::byte> all);
  Outcome receive(uint32_t rank, void* bytes, size_t size, Deadline deadline);
  Outcome send(uint32_t rank, const void* bytes, size_t size, Deadline deadline);
  Fault lost(uint32_t rank, bool is_late);

  const Options options_;
  std::chrono::seconds limit_;
  bool has_timed_out_ = false;
  std::vector<int> sockets_;  // by rank; of others only rank 0's
};

}  // namespace lockstep::stand_in
