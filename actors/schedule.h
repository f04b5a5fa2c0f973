// Schedules, the batches of steps that the coordinator sends to every rank, and results of steps.
//
//   Schedule 7   close slots ─► open slots ─► prefill … ─► score … ─► decode × n (fewer if every slot finishes) ─►
//   confirm
//
// Every rank runs the same schedules, in the order of their numbers, without gaps. Values: regular, printable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// The slot's place in tables of slots.
inline size_t index(SlotId slot) { return static_cast<size_t>(slot.value); }

/// A slot that receives a copy of another slot's caches before the other slot is reused.
struct SavedSlot {
  SlotId to;
  int64_t tokens = 0;  // of the copy

  friend bool operator==(const SavedSlot&, const SavedSlot&) = default;
};
LOCKSTEP_FIELDS(SavedSlot, to, tokens);

/// A slot that starts a new sequence.
struct OpenedSlot {
  SlotId slot;
  shards::SlotParameters parameters;
  std::vector<SavedSlot> saved = {};  // copied first: its current contents; none or one
  shards::KeptPrefix prefix = {};     // then: its initial contents; none without ids

  friend bool operator==(const OpenedSlot&, const OpenedSlot&) = default;
};
LOCKSTEP_FIELDS(OpenedSlot, slot, parameters, saved, prefix);

/// The slots of a request with a chooser. After a step with logits for one of them, every rank applies rank 0's
/// decision.
struct HostSlots {
  RequestId request;
  std::vector<SlotId> slots;  // [rows of the chooser], as they were opened

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
LOCKSTEP_FIELDS(HostSlots, request, slots);

/// Whether a schedule is the session's last.
enum class Last { kNo, kYes };

/// When the ranks agree on the tokens of a step, which may be shown from then on: in the exchange of the next step,
/// which costs nothing, or in one of its own, a step earlier.
enum class Agreement { kWithNextStep, kAfterEachStep };

/// Work in execution order: closes, opens, prefills, scores, decodes. The last three are steps, numbered from 0.
struct Schedule {
  int32_t number = 0;  // consecutive from 0
  std::vector<SlotId> closed;
  std::vector<OpenedSlot> opened;
  std::vector<shards::PrefillRows> prefills;
  std::vector<shards::ScoreRows> scores = {};
  int32_t decode_steps = 0;                        // at most; a schedule ends early when every slot has finished
  Last last = Last::kNo;                           // the executor returns after it
  std::vector<HostSlots> host_chosen = {};         // of all open requests with choosers
  std::vector<SlotId> logits_of = {};              // slots whose requests want the logits of the graph's choices
  Delivery delivery = Delivery::kTogether;         // at once if a request wants it
  Agreement agreement = Agreement::kWithNextStep;  // of decode steps; the last one has its own in any case

  int32_t steps() const { return static_cast<int32_t>(prefills.size() + scores.size()) + decode_steps; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};
LOCKSTEP_FIELDS(Schedule, number, closed, opened, prefills, scores, decode_steps, last, host_chosen, logits_of,
                delivery, agreement);

/// The choice of a request's chooser in a step.
struct HostChoice {
  RequestId request;
  std::vector<int32_t> certain;                                              // tokens that may be delivered
  std::vector<std::shared_ptr<const generation::TokenRecord>> records = {};  // [certain], or none
  std::vector<int32_t> fed = {};                     // the token that a chooser of one row chose
  std::optional<generation::FinishReason> finished;  // set at the end of the request
  std::optional<Error> error;                        // with `kError`

  friend bool operator==(const HostChoice&, const HostChoice&) = default;
};

/// The result of a score step.
struct ScoredRows {
  std::vector<int32_t> slot;  // [rows]
  std::vector<float> scores;  // [rows, columns] as in the graph operation `score`
  std::vector<float> logits;  // [rows, vocabulary] raw, or empty

  friend bool operator==(const ScoredRows&, const ScoredRows&) = default;
};

/// The tokens of one step after the ranks agreed on them. Stays in rank 0's process.
struct StepResult {
  int32_t schedule = 0;
  int32_t step = 0;
  std::vector<int32_t> tokens;  // [slots, tokens of the step]: new ones, then −1; pad for a finished slot; −1 for
                                // slots that the host chooses for
  TimePoint made = {};          // the end of the step
  std::vector<SlotId> logits_of = {};    // ascending
  std::vector<float> logits = {};        // [logits_of, vocabulary]
  std::vector<HostChoice> choices = {};  // of requests with choosers
  std::optional<ScoredRows> scored = {};

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

/// One line: "schedule 7: close 0; open 0 1; prefill 16+4 rows; decode 32".
std::string to_string(const Schedule& schedule);

/// One line: "schedule 7 step 2: tokens 17 −1 4".
std::string to_string(const StepResult& result);

}  // namespace lockstep::actors
