// Planning of schedules: slots of requests, prompt rows of prefill steps, number of decode steps.
// Pure: no threads, no clock, no messages.
//
//   queue  D E ──►  slot 0  A ▒▒▒▒████████        ▒ prompt rows, packed into chunks in the order of admission
//                   slot 1  B ▒▒████|D ▒▒▒██      █ decode steps
//                   slot 2  C ▒▒▒▒▒▒▒▒███         | a finished slot is closed, and refilled from the queue, in the
//                                                   next schedule, while other slots continue to decode
//
// With a bound on rows beside decodes, a schedule has one prefill or score step at most while slots decode, so that a
// long prompt or text delays each token of the others by one short chunk:
//
//   chunk 8, 2 rows beside decodes     A ████|▒▒|█|▒▒|█|▒▒|█      A decodes a token after every two rows of B
//
// A schedule is planned before the results of the previous one are known. Ends that follow from arithmetic (a budget of
// new tokens, at one token per step) count at once; ends that only results show (EOS, a client's stop, accepted drafts)
// count from `finish` on.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "actors/admission.h"
#include "actors/fair_queue.h"
#include "actors/prompt_queue.h"
#include "actors/schedule.h"
#include "actors/slot_contents.h"
#include "actors/text_queue.h"
#include "runtime/core/ids.h"
#include "runtime/trace/activity.h"

namespace lockstep::actors {

/// Bounds of later schedules. Answers do not depend on them.
struct ScheduleBounds {
  int64_t prefill_rows = 0;  // of the one prefill step while slots decode: at least 1, or 0 for no such bound
  int64_t score_rows = 0;    // of the one score step, likewise
  int32_t decode_steps = 1;  // at least 1, as the next
  int32_t prefill_steps = 1;
  Agreement agreement = Agreement::kWithNextStep;  // while a request wants its tokens at once

  friend bool operator==(const ScheduleBounds&, const ScheduleBounds&) = default;
};

/// The state of slots and queue. Used by one thread.
class Planner {
 public:
  explicit Planner(PlannerLimits limits);

  /// Puts a request, admitted with the same limits, into the queue. The queue's first request gets its slots when all
  /// of them are free; no other overtakes it then, except one of a higher priority.
  void add(Admission admission);

  /// Puts the rest of a request at the head of the queue, before all others; its current slots close.
  void go_on(Admission rest);

  /// The request needs no more steps: its slots close with the next schedule, or it leaves the queue. Unknown and
  /// already finished requests are ignored.
  void finish(RequestId request);

  /// Notes the next token of `request`.
  void note_token(RequestId request, int32_t id);

  /// Changes the bounds of later schedules.
  void set_bounds(const ScheduleBounds& bounds);

  /// The next schedule; empty when no request has work until the next `add`.
  std::optional<Schedule> next();

  /// An empty schedule that closes all slots and ends the executors. Nothing may be planned after it.
  Schedule last();

  /// The requests in the slots after all planned schedules; element s is slot s.
  std::vector<std::optional<RequestId>> occupants() const { return occupants_; }

  /// Whether later schedules will make tokens for `request`.
  bool expects(RequestId request) const;

  int64_t queued() const { return static_cast<int64_t>(queue_.size()); }

  /// The state of each slot: tokens of prompts as planned, new tokens as noted. [slots]
  std::vector<trace::SlotActivity> activity() const;

 private:
  /// A request that has slots.
  struct Job {
    Admission admission;
    std::vector<SlotId> slots;  // [rows]
    int64_t prompts = 0;        // prompts and texts that are unfinished after the planned schedules
    int64_t made = 0;           // least number of new tokens in the planned schedules
    int64_t noted = 0;          // new tokens that were noted
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
  bool must_spare_decodes() const;
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
  FairQueue queue_;
  std::vector<int64_t> prefilled_;  // [slots]: tokens of the prompt in the planned schedules, held ones included
  bool scores_are_next_ = false;    // where a schedule has one prefill or score step
  Agreement agreement_ = Agreement::kWithNextStep;
  int32_t next_number_ = 0;
};

}  // namespace lockstep::actors
