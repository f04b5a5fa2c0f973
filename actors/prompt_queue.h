// Prompts with slots that are not yet prefilled, packed into prefill steps in order of admission.
//
// Prompts with a common prefix prefill it once: the first prompt pauses at its end, the others become copies of its
// slot, and each continues with the rest of its tokens.
//
//   slot 0  ▒▒▒▒▒▒▒▒▒▒|▒▒▒▒▒         step 1: slot 0's rows up to the bar
//               copy  ├─►▒▒▒         step 2: copies, then the rests of all three
//               copy  └─►▒▒▒▒
//
// The source holds exactly the shared tokens when it is copied, so rings of sliding windows are correct in the copy. At
// least the last token of each prompt is prefilled separately, because its row yields the prompt's logits.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "actors/admission.h"
#include "actors/prefix_tree.h"
#include "runtime/core/ids.h"
#include "shards/step_engine.h"

namespace lockstep::actors {

/// A prompt for an open, empty slot.
struct Prompt {
  SlotId slot;
  std::vector<int32_t> ids;  // at least one
  bool long_rope = false;    // prompts with different factors share no prefix
  int64_t held = 0;          // tokens that the slot already holds; not all of them
  std::shared_ptr<const std::vector<float>> embeddings = nullptr;  // for the ids kEmbedded; such a prompt is not shared
  RequestId request;  // the last tokens of a request's prompts run together, after all their other tokens
};

/// The prompt that a step begins with; the others follow in the order of admission.
enum class PromptOrder {
  kAdmission,       // the first one
  kShortestInTurn,  // every second step: the one with the fewest tokens left, which then waits for no long one
};

/// Pure.
class PromptQueue {
 public:
  explicit PromptQueue(const PlannerLimits& limits) : limits_(limits), prompts_(static_cast<size_t>(limits.slots)) {}

  void add(Prompt prompt);

  /// Forgets the prompt of `slot`, if there is one; those that waited for it find another source or none.
  void drop(SlotId slot);

  bool is_empty() const { return pending_.empty(); }

  /// Whether some prompts of a request have run to their ends and others have not: its slots must not decode yet.
  bool is_between_prompts_of_a_request() const;

  /// The next step: at least one row, at most `most` (at least 1) and the chunk. There must be a prompt.
  shards::PrefillRows next_step(int64_t most, PromptOrder order = PromptOrder::kAdmission);

 private:
  struct Pending {
    Prompt prompt;
    int64_t done = 0;           // tokens that the steps so far put into the slot
    Pending* source = nullptr;  // what it waits for to become a copy of; admitted before it
    int64_t shared = 0;         // tokens that the source has then
    bool is_urgent = false;     // other prompts of its request have run to their ends
    bool may_end = false;       // in this step
    size_t embedded = 0;        // numbers of its embeddings that the steps so far took

    int64_t size() const { return static_cast<int64_t>(prompt.ids.size()); }
    bool is_done() const { return done == size(); }
    bool lacks_only_its_end() const { return done >= size() - 1; }
  };

  void find_source(Pending& pending);
  void copy_slots(shards::PrefillRows& rows);
  void let_requests_end();
  std::vector<Pending*> ordered(PromptOrder order);
  int64_t limit(const Pending& pending) const;
  void take_rows(Pending& pending, int64_t most, shards::PrefillRows& rows);
  void take_embedding(Pending& pending, shards::PrefillRows& rows) const;
  void remove_done();

  PlannerLimits limits_;
  std::list<Pending> pending_;  // stable addresses
  bool shortest_is_next_ = false;
  PrefixTree prompts_;  // of the slots with pending prompts
};

}  // namespace lockstep::actors
