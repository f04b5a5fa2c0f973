// What the caches of the slots hold, as far as rank 0 knows: so that a request which begins like an earlier one goes on
// from there instead of being prefilled from its first token.
//
//   slot 0   system prompt, question, answer        closed; a request with the same system prompt copies that part,
//   slot 1   system prompt, other question ▒▒▒      one that goes on with the same question and answer takes the slot
//
// Contents follow from schedules (rows that are prefilled) and from results (tokens that were made). Both are noted
// when they are planned or released, so what is known may be less than what a slot holds, never more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/admission.h"
#include "runtime/core/ids.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// Pure. Used by one thread.
class SlotContents {
 public:
  explicit SlotContents(const PlannerLimits& limits);

  /// Whether slots keep anything.
  bool is_on() const { return limits_.kept != shards::KeptTokens{}; }

  /// The longest beginning of `ids`, at least `shared_prefix` tokens and not all of them, that a slot holds; without
  /// ids where none does.
  shards::KeptPrefix best_prefix(std::span<const int32_t> ids, bool long_rope) const;

  /// The least recently used of `candidates`, to save the contents of `slot` before a sequence overwrites all but their
  /// first `begin` tokens. None if little would be lost or all candidates were used later than `slot`.
  std::optional<SlotId> place_to_save(SlotId slot, int64_t begin, std::span<const SlotId> candidates) const;
  /// The tokens that are worth saving.
  int64_t kept_tokens(SlotId slot) const { return usable(at(slot)); }
  void save(SlotId from, SlotId to);

  /// A sequence that starts in a slot.
  struct Sequence {
    RequestId owner;
    shards::KeptPrefix begin;  // what it goes on from; no ids: nothing
    bool long_rope = false;
    int64_t most = 0;  // tokens that its caches will ever have, those of drafts included
  };
  void open(SlotId slot, const Sequence& sequence);
  /// Treats `slot` as empty: the host permutes its rows, so its contents are not known.
  void forget(SlotId slot);
  /// The sequence in `slot` has ended with schedule `number`.
  void close(SlotId slot, int32_t number) { at(slot).last_used = number; }

  void note_row(SlotId slot, int32_t id, int64_t position);
  /// `dst` becomes a copy of `src`.
  void note_copy(const shards::SlotCopy& copy);
  /// At most `tokens` are appended to `slot` by decode steps.
  void note_decoded(SlotId slot, int64_t tokens);
  /// `owner` has been given its next token.
  void note_token(RequestId owner, int32_t id);

 private:
  struct Contents {
    std::optional<RequestId> owner;  // whose sequence it is; none: it is not followed
    std::vector<int32_t> ids;        // prompt, then tokens that were made
    int64_t made = 0;                // of `ids`; the last one may be in no cache yet
    int64_t length = 0;              // of the sequence, at most: tokens of drafts included
    int64_t most = 0;                // … at its end
    int64_t written = 0;             // the longest that a sequence in these caches was, at most
    bool long_rope = false;
    int32_t last_used = -1;  // schedule
  };

  Contents& at(SlotId slot) { return contents_.at(static_cast<size_t>(slot.value)); }
  const Contents& at(SlotId slot) const { return contents_.at(static_cast<size_t>(slot.value)); }
  static int64_t usable(const Contents& contents);
  static void note_length(Contents& contents, int64_t length);

  PlannerLimits limits_;
  std::vector<Contents> contents_;  // [slots]
};

}  // namespace lockstep::actors
