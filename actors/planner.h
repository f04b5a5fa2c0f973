// Decides what runs next: which request gets which slots, which prompt rows go into which prefill step, how many decode
// steps follow. Pure: no threads, no clock, no messages.
//
//   queue  D E ──►  slot 0  A ▒▒▒▒████████        ▒ prompt rows, packed into chunks in the order of admission
//                   slot 1  B ▒▒████|D ▒▒▒██      █ decode steps
//                   slot 2  C ▒▒▒▒▒▒▒▒███         | a finished slot is closed, and refilled from the queue, in the
//                                                   next schedule, while its neighbours go on decoding
//
// A schedule is planned before the results of the one before are known. What arithmetic tells (a budget of new tokens
// that is spent even if every step makes one token only) counts at once; what only results tell (EOS, a client's stop,
// drafts that came true) counts from `finish` on.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "actors/admission.h"
#include "actors/prompt_queue.h"
#include "actors/schedule.h"
#include "actors/slot_contents.h"
#include "actors/text_queue.h"
#include "runtime/core/ids.h"

namespace lockstep::actors {

/// The state of slots and queue. Used by one thread.
class Planner {
 public:
  explicit Planner(PlannerLimits limits);

  /// Puts a request, admitted with the same limits, at the end of the queue. It gets its slots when all of them are
  /// free; nobody overtakes it.
  void add(Admission admission);

  /// Puts the rest of a request at the head of the queue; what ran so far closes.
  void go_on(Admission rest);

  /// The request needs no more steps: its slots close with the next schedule, or it leaves the queue. Unknown and
  /// already finished requests are ignored.
  void finish(RequestId request);

  /// `request` has been given its next token.
  void note_token(RequestId request, int32_t id) { contents_.note_token(request, id); }

  /// The next schedule, or nothing when there is none to run until `add` is called.
  std::optional<Schedule> next();

  /// An empty schedule that closes all slots and ends the executors. Nothing may be planned after it.
  Schedule last();

  /// The requests that the schedules planned so far leave in the slots; element s is slot s.
  std::vector<std::optional<RequestId>> occupants() const { return occupants_; }

  /// Whether schedules yet to come will make tokens for `request`.
  bool expects(RequestId request) const;

  int64_t queued() const { return static_cast<int64_t>(queue_.size()); }

 private:
  /// A request that has slots.
  struct Job {
    Admission admission;
    std::vector<SlotId> slots;  // [rows]
    int64_t prompts = 0;        // and texts that have not run to their ends in the schedules so far
    int64_t made = 0;           // new tokens that these make at least
    bool finished = false;

    bool is_filling() const { return !finished && prompts > 0; }
    bool is_decoding() const { return !finished && prompts == 0 && budget() > 0; }
    bool is_over() const { return finished || (prompts == 0 && budget() == 0); }
    int64_t budget() const { return admission.new_tokens - made; }
  };

  bool has_work() const;
  void close_slots(Schedule& schedule);
  void open_slots(Schedule& schedule);
  void open(Admission admission, Schedule& schedule);
  OpenedSlot open_row(const Admission& admission, const AdmittedRow& row);
  std::vector<SlotId> free_slots() const;
  SlotId take_free_slot(RequestId request);
  void add_prefills(Schedule& schedule);
  template <typename Rows>
  void note_rows(const Rows& rows);
  void note_ended_prompts(const shards::PrefillRows& rows);
  void add_scores(Schedule& schedule);
  void add_decodes(Schedule& schedule);
  void describe_jobs(Schedule& schedule) const;

  PlannerLimits limits_;
  std::vector<std::optional<RequestId>> occupants_;  // [slots]
  std::list<Job> jobs_;                              // in the order of their admission
  PromptQueue prompts_;
  TextQueue texts_;
  SlotContents contents_;
  std::deque<Admission> queue_;
  int32_t next_number_ = 0;
};

}  // namespace lockstep::actors
