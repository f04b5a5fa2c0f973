// Known contents of the slots' KV caches, on rank 0: a request with the prefix of an earlier one reuses its tokens
// instead of prefilling them.
//
//   slot 0   system prompt, question, answer        closed; a request with the same system prompt copies that part,
//   slot 1   system prompt, other question ▒▒▒      one that continues the question and answer takes the slot
//
// Contents follow from planned schedules (prefilled rows) and released results (tokens), so the known contents of a
// slot may be less than its real contents, never more.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/admission.h"
#include "actors/prefix_tree.h"
#include "runtime/core/ids.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// Pure. Used by one thread.
class SlotContents {
 public:
  explicit SlotContents(const PlannerLimits& limits);

  /// Whether slots keep tokens.
  bool is_on() const { return limits_.kept != shards::KeptTokens{}; }

  /// The longest prefix of `ids` that a slot holds: at least `shared_prefix` tokens and not all of them; without ids if
  /// no slot has one. Costs one comparison per token of the prefix, however many slots hold it.
  shards::KeptPrefix best_prefix(std::span<const int32_t> ids, bool long_rope) const;

  /// The least recently used of `candidates`, to save the contents of `slot` before a sequence overwrites all but their
  /// first `begin` tokens; first of all a candidate with nothing that other slots do not hold. None if little would be
  /// lost or all candidates were used later than `slot`.
  std::optional<SlotId> place_to_save(SlotId slot, int64_t begin, std::span<const SlotId> candidates) const;
  /// The number of reusable tokens.
  int64_t kept_tokens(SlotId slot) const { return usable(at(slot)); }
  void save(SlotId from, SlotId to);

  /// A sequence that starts in a slot.
  struct Sequence {
    RequestId owner;
    shards::KeptPrefix begin;  // the reused prefix; no ids: none
    bool long_rope = false;
    int64_t most = 0;  // tokens of its caches at the end, drafts included
  };
  void open(SlotId slot, const Sequence& sequence);
  /// Treats `slot` as empty: the host permutes its rows, or it begins with embeddings, so its contents are not known.
  void forget(SlotId slot);
  /// Notes that the sequence in `slot` ended with schedule `number`.
  void close(SlotId slot, int32_t number) { at(slot).last_used = number; }

  void note_row(SlotId slot, int32_t id, int64_t position);
  /// Notes that `dst` becomes a copy of `src`.
  void note_copy(const shards::SlotCopy& copy);
  /// Notes that decode steps append at most `tokens` to `slot`.
  void note_decoded(SlotId slot, int64_t tokens);
  /// Notes the next token of `owner`.
  void note_token(RequestId owner, int32_t id);

 private:
  struct Contents {
    std::optional<RequestId> owner;  // of the sequence; none: not tracked
    std::vector<int32_t> ids;        // prompt, then generated tokens
    int64_t made = 0;                // generated ones of `ids`; the last one may not be cached yet
    int64_t length = 0;              // upper bound of the sequence's length, drafts included
    int64_t most = 0;                // upper bound at its end
    int64_t written = 0;             // upper bound of the longest sequence ever in these caches
    bool long_rope = false;
    int32_t last_used = -1;  // schedule
  };

  /// Sets what the tree knows of `slot`, after its contents have changed.
  void update_tree(SlotId slot);
  /// Whether another slot holds all tokens of `slot`, and a sequence can continue there after them.
  bool is_covered(SlotId slot) const;
  PrefixTree& tree(bool long_rope) { return trees_[long_rope ? 1 : 0]; }
  const PrefixTree& tree(bool long_rope) const { return trees_[long_rope ? 1 : 0]; }

  Contents& at(SlotId slot) { return contents_.at(static_cast<size_t>(slot.value)); }
  const Contents& at(SlotId slot) const { return contents_.at(static_cast<size_t>(slot.value)); }
  static int64_t usable(const Contents& contents);
  static void note_length(Contents& contents, int64_t length);

  PlannerLimits limits_;
  std::vector<Contents> contents_;   // [slots]
  std::array<PrefixTree, 2> trees_;  // the ids of `contents_`, with short and with long rope factors
};

}  // namespace lockstep::actors
