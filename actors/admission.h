// Admission of requests: the check against the engine's limits, and the division into sequences.
//
//   Request ──► admit ──► Admission   one row           the graph chooses
//                                     rows of a chooser the host chooses; the graph's own choice is greedy, unused
//                                     a text            is scored; its slot makes no tokens
//
// A longrope model rotates short sequences by one table and long sequences by another, and a cache holds keys of one
// table. A sequence that grows past the border therefore runs in two parts, and the second part prefills all tokens:
//
//   prompt ▒▒▒▒████████ m + 1 tokens  ──►  ▒▒▒▒▒▒▒▒▒▒▒▒▒████████     ▒ prefilled  █ made
//              short factors                      long factors        (as Hugging Face's Phi-3 does)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/field_list.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::actors {

/// Prompts that begin alike share that part's prefill if it has at least this many tokens: a pause and a copy of a
/// slot cost about as much as a short run of rows.
inline constexpr int64_t kSharedPrefix = 16;

/// The engine's sizes and the bounds of one schedule. The same on every rank.
struct PlannerLimits {
  int64_t slots = 1;
  int64_t chunk = 1;     // rows of a prefill step
  int64_t capacity = 1;  // tokens of a slot
  bool rows_of_one_slot = false;
  int32_t decode_steps = 32;              // of one schedule, at most
  int32_t prefill_steps = 8;              // of one schedule, at most; bounds the wait of decoding slots
  int64_t score_rows = 0;                 // of a step that scores texts; 0: no such steps
  int64_t embedding_size = 0;             // of a prompt's embeddings; 0: prompts have tokens only
  int64_t tokens_per_step = 1;            // of a slot in a decode step, at most; at least one
  int64_t long_rope_after = 0;            // sequences of more tokens need the long factors; 0: never
  int64_t shared_prefix = kSharedPrefix;  // at least 1
  // Of the one prefill or score step in a schedule while slots decode; 0: no such bound.
  int64_t rows_beside_decodes = 0;
  int64_t scores_beside_decodes = 0;
  std::vector<int64_t> chunk_sizes = {};  // rows of prefill steps that cost less than larger ones: ascending
  shards::KeptTokens kept = {};  // tokens that closed slots keep for requests with the same prefix; zeros: none

  friend bool operator==(const PlannerLimits&, const PlannerLimits&) = default;
};
LOCKSTEP_FIELDS(PlannerLimits, slots, chunk, capacity, rows_of_one_slot, decode_steps, prefill_steps, score_rows,
                embedding_size, tokens_per_step, long_rope_after, shared_prefix, rows_beside_decodes,
                scores_beside_decodes, chunk_sizes, kept);

/// The sequence of one slot.
struct AdmittedRow {
  std::vector<int32_t> ids;  // the prompt, or the text; empty: the row begins as a copy of another
  shards::SlotParameters parameters;
  std::shared_ptr<const std::vector<float>> embeddings = nullptr;  // for the ids kEmbedded
};

/// An admitted request.
struct Admission {
  RequestId id;
  std::vector<AdmittedRow> rows;  // [slots that it occupies]
  int64_t new_tokens = 1;         // of each row, at most; 0 of a text
  bool goes_on = false;           // after `new_tokens` the rest is admitted again, with these tokens as prompt
  bool host_chosen = false;
  Task task = Task::kGenerate;
  Logits logits = Logits::kOmit;
  Delivery delivery = Delivery::kTogether;
  int32_t priority = 0;
  std::string client = {};
};

/// Fails with `kInvalidArgument` when no engine with these limits could answer `request`: an empty prompt, a prompt
/// that does not fit with its new tokens (the last of which needs no room), a text of one token, a budget below 1, too
/// many EOS ids, embeddings that do not fit the ids, or more rows than slots. Fails with `kUnsupported` when this
/// engine cannot answer it, and with `kInternal` when its chooser throws.
Result<Admission> admit(const Request& request, const PlannerLimits& limits);

/// The rest of a request after its first part has made `tokens`.
Request rest_of(Request request, const std::vector<int32_t>& tokens);

}  // namespace lockstep::actors
