// The last collective operations of a rank, for diagnosis after a failure. Comparing the ranks' recorders shows which
// rank did not enter an operation.
//
//   rank 0   … all_reduce 811 │ all_reduce 812 entered, not left         waits
//   rank 1   … all_reduce 811 │                                          did not enter 812: the cause is here
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/clock.h"

namespace lockstep::trace {

/// One operation of one rank.
struct RecordedOperation {
  const char* group = "none";      // "setup" or "model", each numbered separately. A string literal
  const char* operation = "none";  // "exchange", "all_reduce", …: a string literal
  uint64_t sequence = 0;           // its number in the group, the same on every rank
  uint64_t bytes = 0;              // contributed by this rank
  int32_t schedule = -1;           // of its step; −1: none yet
  int32_t step = -1;
  TimePoint entered{};
  std::optional<TimePoint> left;  // empty while the rank is inside, or if the operation failed

  friend bool operator==(const RecordedOperation&, const RecordedOperation&) = default;
};

/// The contents of a dump besides the operations.
struct FlightFacts {
  int rank = 0;
  std::string host;
  std::string phase;     // "decode, schedule 3, step 5"
  std::string why;       // the error that ended the job; "asked" after SIGUSR1
  double unix_time = 0;  // seconds, of the dump
};

/// One thread writes (`enter`, `leave`, `begin_step`) and never waits; any thread may read at the same time. Entries
/// overwritten during a read are omitted.
class FlightRecorder {
 public:
  static constexpr size_t kCapacity = 256;

  explicit FlightRecorder(const Clock& clock) : clock_(clock) {}
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void enter(const char* group, const char* operation, uint64_t sequence, uint64_t bytes);
  /// Marks the last entered operation as completed.
  void leave();
  /// Assigns the operations entered from now on to this step.
  void begin_step(int32_t schedule, int32_t step);

  /// The last entered operation.
  RecordedOperation last() const;

  /// Everything as JSON, oldest first; times in seconds of unix time.
  std::string to_json(const FlightFacts& facts) const;

 private:
  /// A `RecordedOperation` that may be read while it is overwritten: a sequence lock.
  struct Entry {
    std::atomic<uint64_t> version = 0;  // 2n once it holds operation n of the recorder (from 1), odd while written
    std::atomic<const char*> group = nullptr;
    std::atomic<const char*> operation = nullptr;
    std::atomic<uint64_t> sequence = 0;
    std::atomic<uint64_t> bytes = 0;
    std::atomic<int32_t> schedule = -1;
    std::atomic<int32_t> step = -1;
    std::atomic<Duration::rep> entered = 0;  // since the clock's zero
    std::atomic<Duration::rep> left = 0;     // the smallest number: not left yet
  };

  /// Operation `number`; empty if it has been overwritten.
  std::optional<RecordedOperation> read(uint64_t number) const;

  const Clock& clock_;
  std::array<Entry, kCapacity> ring_{};
  std::atomic<uint64_t> entered_ = 0;
  // Used by the writing thread only.
  int32_t schedule_ = -1;
  int32_t step_ = -1;
};

}  // namespace lockstep::trace
