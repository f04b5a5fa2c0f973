// The interface between an executor and one rank's model: slots, prefill steps and decode steps. `Shard` implements it;
// tests of the actors use a small fake.
//
// Every rank makes the same calls with the same arguments in the same order. The steps contain the collectives, so the
// ranks need no other protocol.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/device/device_time.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::shards {

/// Stopping and sampling parameters of a sequence in a slot.
struct SlotParameters {
  sampling::Parameters sampling;
  int32_t max_new_tokens = 1;    // at least 1; of the whole sequence, `first_output` included
  std::vector<int32_t> eos_ids;  // at most `sampling::kMaxEosIds`
  int32_t pad_id = 0;
  int32_t min_new_tokens = 0;  // EOS tokens cannot be chosen before
  int32_t first_output = 0;    // index of the next output token; above 0 if a sequence continues in another slot
  bool long_rope = false;      // use the model's long rope factors (longrope models only)

  friend bool operator==(const SlotParameters&, const SlotParameters&) = default;
};
LOCKSTEP_FIELDS(SlotParameters, sampling, max_new_tokens, eos_ids, pad_id, min_new_tokens, first_output, long_rope);

/// A slot that becomes a copy of another: caches, length, seen ids. `dst` keeps its own stopping and sampling
/// parameters.
struct SlotCopy {
  SlotId src, dst;

  friend bool operator==(const SlotCopy&, const SlotCopy&) = default;
};
LOCKSTEP_FIELDS(SlotCopy, src, dst);

/// A prefix of a sequence that a slot's caches still hold, also after the slot was closed.
struct KeptPrefix {
  SlotId source;
  std::vector<int32_t> ids;  // its first tokens; at least one

  friend bool operator==(const KeptPrefix&, const KeptPrefix&) = default;
};
LOCKSTEP_FIELDS(KeptPrefix, source, ids);

/// The positions from which a new sequence may continue in a used slot: any position if the slot had at most `whole`
/// tokens, otherwise one of the last `rewind` (rings have lost the others). Zeros: a slot keeps nothing.
struct KeptTokens {
  int64_t whole = 0;
  int64_t rewind = 0;

  bool allows(int64_t begin, int64_t written) const { return written <= whole || written - begin <= rewind; }
  friend bool operator==(const KeptTokens&, const KeptTokens&) = default;
};
LOCKSTEP_FIELDS(KeptTokens, whole, rewind);

/// The id of a prompt's position that has an embedding instead of a token.
inline constexpr int32_t kEmbedded = -1;

/// The token rows of one prefill step: at most `chunk` of them, padding is added by the engine. The positions of a slot
/// are consecutive over the steps.
struct PrefillRows {
  std::vector<int32_t> ids;
  std::vector<int32_t> slot;
  std::vector<int32_t> position;       // index in the slot's cache
  std::vector<int32_t> logit_rows;     // [slots]: the row that holds the last token of slot s's prompt, or −1
  std::vector<SlotCopy> copies = {};   // made before the rows run, for prompts with a common prefix
  std::vector<float> embeddings = {};  // [rows with the id kEmbedded, embedding size]

  friend bool operator==(const PrefillRows&, const PrefillRows&) = default;
};
LOCKSTEP_FIELDS(PrefillRows, ids, slot, position, logit_rows, copies, embeddings);

/// The token rows of one score step: the log-probability of each row's target, given the row and all rows before it. At
/// most `score_rows` of them.
struct ScoreRows {
  std::vector<int32_t> ids;
  std::vector<int32_t> slot;
  std::vector<int32_t> position;  // index in the slot's cache
  std::vector<int32_t> targets;   // the id after the row's id

  friend bool operator==(const ScoreRows&, const ScoreRows&) = default;
};
LOCKSTEP_FIELDS(ScoreRows, ids, slot, position, targets);

/// The step's place in its schedule; part of the ranks' checksum, which detects a rank that is off by one.
struct StepTag {
  int32_t schedule = 0;
  int32_t step = 0;
};

/// The output of a step. Borrowed from the engine; valid until its next step.
struct StepOutput {
  // [slots, width]: the new tokens, then −1; pad for a finished slot. The width is 1 in a prefill step and
  // `tokens_per_step` in a decode step.
  std::span<const int32_t> tokens;
  std::span<const float> logits;  // [slots, width, vocabulary]: raw; empty unless asked for at start
};

/// The output of a score step. Borrowed from the engine; valid until its next step.
struct ScoreOutput {
  std::span<const float> scores;  // [rows of the step, columns]: see the graph operation `score`
  int64_t columns = 1;
  std::span<const float> logits;  // [rows of the step, vocabulary]: raw; empty unless asked for at start
};

/// The choices of rank 0's host after a step, for slots that the graphs cannot choose for (beams, guidance, processors
/// that need the whole history, a user's loop). Every rank applies the same decision between two replays.
struct Decision {
  std::vector<int32_t> tokens;    // [slots]: the slot's next token; −1: unchanged
  std::vector<int32_t> sources;   // [slots]: the source of slot s's copy; s itself: no copy. No source is itself a copy
  std::vector<int32_t> finished;  // [slots]: 1 ends the slot

  /// A decision that leaves every slot unchanged.
  explicit Decision(int64_t slots)
      : tokens(static_cast<size_t>(slots), -1), sources(tokens.size()), finished(tokens.size(), 0) {
    std::iota(sources.begin(), sources.end(), 0);
  }
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// One rank's part of the model. Used by one thread.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  virtual int64_t slots() const = 0;
  virtual int64_t chunk() const = 0;  // rows of a prefill step
  /// Rows of prefill steps that cost less than larger ones: ascending, the last is `chunk`.
  virtual std::vector<int64_t> chunk_sizes() const { return {chunk()}; }
  virtual int64_t capacity() const = 0;                 // tokens of a slot
  virtual int64_t tokens_per_step() const = 0;          // of a slot in a decode step: 1, or more with drafts
  virtual int64_t score_rows() const { return 0; }      // of a score step; 0: no such steps
  virtual int64_t embedding_size() const { return 0; }  // of rows with the id kEmbedded; 0: prompts have tokens only
  /// The tokens kept by closed slots.
  virtual KeptTokens kept_tokens() const { return {}; }
  /// Whether all rows of one prefill step must belong to one slot.
  virtual bool rows_of_one_slot() const = 0;
  /// Longer sequences have to be prefilled again with `long_rope`; 0: never.
  virtual int64_t long_rope_after() const = 0;

  /// Empties a slot and sets the parameters of its next sequence.
  virtual Result<void> open_slot(SlotId slot, const SlotParameters& parameters) = 0;
  /// Removes the slot from decoding and forgets its tokens.
  virtual Result<void> close_slot(SlotId slot) = 0;

  /// Copies the caches of the first `tokens` tokens of `src` to `dst`, a closed slot; no slot's state changes. Only if
  /// `kept_tokens` allows it. @collective @blocking
  virtual Result<void> save_slot(SlotCopy copy, int64_t tokens) {
    static_cast<void>(copy), static_cast<void>(tokens);
    return keeps_nothing();
  }
  /// The newly opened slot begins with `prefix`, whose rows need no prefill. Only if `kept_tokens` allows it.
  virtual Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) {
    static_cast<void>(slot), static_cast<void>(prefix);
    return keeps_nothing();
  }

  /// @collective @blocking
  virtual Result<StepOutput> prefill(const PrefillRows& rows, StepTag tag) = 0;
  /// Scored slots make no tokens. Fails with `kUnsupported` if `score_rows` is 0. @collective @blocking
  virtual Result<ScoreOutput> score(const ScoreRows&, StepTag) {
    return Error{ErrorKind::kUnsupported, "[shards] cannot score: found an engine without a score step, expected one"};
  }
  /// One token, and those of accepted drafts, for every prefilled, unfinished slot.
  /// @collective @blocking
  virtual Result<StepOutput> decode(StepTag tag) = 0;

  /// Broadcasts rank 0's `decision` (overwriting those of other ranks) and applies it: copies, then tokens.
  /// @collective @blocking
  virtual Result<void> decide(Decision& decision) = 0;

  /// Whether every open, prefilled slot is finished. From device state, so the same on every rank.
  virtual bool all_finished() const = 0;

  /// Compares the state of all ranks after the last step of a schedule, before its tokens are released.
  /// @collective @blocking
  virtual Result<void> confirm(StepTag tag) = 0;

  /// Requests that a slot finish at the next agreed step. Effective on rank 0 only. May be called from any thread.
  virtual void request_stop(SlotId slot) = 0;

  /// Measures the device's time of every step from here on, where there is one beside the host.
  virtual void time_device() {}
  /// Of all steps since `time_device`, those of drafts included.
  virtual device::DeviceTime device_time() const { return {}; }

 private:
  static Error keeps_nothing() {
    return {ErrorKind::kUnsupported, "[shards] cannot go on from a slot: found an engine whose slots keep nothing"};
  }
};

}  // namespace lockstep::shards
