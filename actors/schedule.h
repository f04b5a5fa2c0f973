// A schedule: a batch of steps that the coordinator sends to every rank, and what a step gave back.
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

/// A slot into which another one's caches are copied before that one is used again.
struct SavedSlot {
  SlotId to;
  int64_t tokens = 0;  // that are kept

  friend bool operator==(const SavedSlot&, const SavedSlot&) = default;
};
LOCKSTEP_FIELDS(SavedSlot, to, tokens);

/// A slot that starts a new sequence.
struct OpenedSlot {
  SlotId slot;
  shards::SlotParameters parameters;
  std::vector<SavedSlot> saved = {};  // first: where what it still holds goes; none or one
  shards::KeptPrefix prefix = {};     // then: what it begins with; nothing without ids

  friend bool operator==(const OpenedSlot&, const OpenedSlot&) = default;
};
LOCKSTEP_FIELDS(OpenedSlot, slot, parameters, saved, prefix);

/// The slots of a request that the host chooses for. After a step that gave one of them logits every rank takes rank
/// 0's decision.
struct HostSlots {
  RequestId request;
  std::vector<SlotId> slots;  // [rows of the chooser], as they were opened

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
LOCKSTEP_FIELDS(HostSlots, request, slots);

/// Whether a schedule is the session's last.
enum class Last { kNo, kYes };

/// Steps in the order in which they run: closes, opens, prefills, scores, decodes. Steps count from 0 over the last
/// three.
struct Schedule {
  int32_t number = 0;  // consecutive from 0
  std::vector<SlotId> closed;
  std::vector<OpenedSlot> opened;
  std::vector<shards::PrefillRows> prefills;
  std::vector<shards::ScoreRows> scores = {};
  int32_t decode_steps = 0;                 // at most; a schedule ends early when every slot has finished
  Last last = Last::kNo;                    // the executor returns after it
  std::vector<HostSlots> host_chosen = {};  // all that are open while the schedule runs
  Logits logits = Logits::kOmit;            // whether a request wants to see those of the graph's choices
  Delivery delivery = Delivery::kTogether;  // at once where a request wants it so

  int32_t steps() const { return static_cast<int32_t>(prefills.size() + scores.size()) + decode_steps; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};
LOCKSTEP_FIELDS(Schedule, number, closed, opened, prefills, scores, decode_steps, last, host_chosen, logits, delivery);

/// What a request's chooser said in a step.
struct HostChoice {
  RequestId request;
  std::vector<int32_t> certain;                                              // tokens that may be shown
  std::vector<std::shared_ptr<const generation::TokenRecord>> records = {};  // [certain], or none
  std::optional<generation::FinishReason> finished;                          // set when the request is over
  std::optional<Error> error;                                                // with `kError`

  friend bool operator==(const HostChoice&, const HostChoice&) = default;
};

/// What a step that scores texts found.
struct ScoredRows {
  std::vector<int32_t> slot;  // [rows]
  std::vector<float> scores;  // [rows, columns] as the graph operation `score` makes them

  friend bool operator==(const ScoredRows&, const ScoredRows&) = default;
};

/// The tokens of one step, released: the ranks agreed on them afterwards. Stays in the process of rank 0.
struct StepResult {
  int32_t schedule = 0;
  int32_t step = 0;
  std::vector<int32_t> tokens;  // [slots, tokens of the step]: new ones, then −1; pad for a finished slot; −1 for
                                // slots that the host chooses for
  TimePoint made = {};          // when the step had ended
  std::vector<float> logits = {};        // [slots, vocabulary], or empty
  std::vector<HostChoice> choices = {};  // of the requests that the host chose for
  ScoredRows scored = {};

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

/// One line: "schedule 7: close 0; open 0 1; prefill 16+4 rows; decode 32".
std::string to_string(const Schedule& schedule);

/// One line: "schedule 7 step 2: tokens 17 −1 4".
std::string to_string(const StepResult& result);

}  // namespace lockstep::actors
