// Decides what runs next: which request gets which slot, which prompt rows go into which prefill step, how many decode
// steps follow. Pure: no threads, no clock, no messages.
//
//   queue  D E ──►  slot 0  A ▒▒▒▒████████        ▒ prompt rows, packed into chunks in the order of admission
//                   slot 1  B ▒▒████|D ▒▒▒██      █ decode steps
//                   slot 2  C ▒▒▒▒▒▒▒▒███         | a finished slot is closed, and refilled from the queue, in the
//                                                   next schedule, while its neighbours go on decoding
//
// A schedule is planned before the results of the one before are known. What arithmetic tells (a spent budget of new
// tokens) counts at once; what only results tell (EOS, a client's stop) counts from `finish` on.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/request.h"
#include "actors/schedule.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::actors {

/// What the engine can hold and how much goes into one schedule. The same on every rank.
struct PlannerLimits {
  int64_t slots = 1;
  int64_t chunk = 1;     // rows of a prefill step
  int64_t capacity = 1;  // tokens of a slot
  bool rows_of_one_slot = false;
  int32_t decode_steps = 32;  // of one schedule, at most
  int32_t prefill_steps = 8;  // of one schedule, at most: bounds how long decoding slots wait

  friend bool operator==(const PlannerLimits&, const PlannerLimits&) = default;
};

/// Fails with `kInvalidArgument` when no engine with these limits could answer `request`: an empty prompt, one that
/// does not fit beside its new tokens (the last of which needs no room), a budget below 1, too many EOS ids.
Result<void> check_request(const Request& request, const PlannerLimits& limits);

/// The state of slots and queue. Used by one thread.
class Planner {
 public:
  explicit Planner(PlannerLimits limits);

  /// Puts a request that `check_request` accepts at the end of the queue.
  void add(Request request);

  /// The request needs no more steps: its slot closes with the next schedule, or it leaves the queue. Unknown and
  /// already finished requests are ignored.
  void finish(RequestId request);

  /// The next schedule, or nothing when there is none to run until `add` is called.
  std::optional<Schedule> next();

  /// An empty schedule that closes all slots and ends the executors. Nothing may be planned after it.
  Schedule last();

  /// The requests that the schedules planned so far leave in the slots; element s is slot s.
  std::vector<std::optional<RequestId>> occupants() const;

  /// Whether schedules yet to come will make tokens for `request`.
  bool expects(RequestId request) const;

  int64_t queued() const { return static_cast<int64_t>(queue_.size()); }

 private:
  struct Slot {
    std::optional<Request> request;  // empty: the slot is free
    int64_t prefilled = 0;           // prompt rows in schedules so far
    int64_t made = 0;                // new tokens that schedules so far make at most
    bool finished = false;
    uint64_t admitted = 0;  // order of admission

    bool is_filling() const { return request && !finished && prefilled < prompt(); }
    bool is_decoding() const { return request && !finished && prefilled == prompt() && budget() > 0; }
    bool is_over() const { return request && (finished || (prefilled == prompt() && budget() == 0)); }
    int64_t prompt() const { return static_cast<int64_t>(request->ids.size()); }
    int64_t budget() const { return request->parameters.max_new_tokens - made; }
  };

  bool has_work() const;
  void close_slots(Schedule& schedule);
  void open_slots(Schedule& schedule);
  void add_prefills(Schedule& schedule);
  shards::PrefillRows fill_chunk(std::vector<SlotId>& filling);
  void add_decodes(Schedule& schedule);
  Slot& at(SlotId slot) { return slots_[static_cast<size_t>(slot.value)]; }

  PlannerLimits limits_;
  std::vector<Slot> slots_;
  std::deque<Request> queue_;
  int32_t next_number_ = 0;
  uint64_t admissions_ = 0;
};

}  // namespace lockstep::actors
