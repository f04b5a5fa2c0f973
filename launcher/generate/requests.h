// From options and a prompt to requests of the session: what a job of a few prompts and a batch job share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/request.h"
#include "launcher/cli/command_line.h"
#include "launcher/commands/prompts.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/generation/generation_config.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// A request of the session and its place among the answers: several answers where beams return several sequences.
struct JobRequest {
  actors::Request request;  // its id is the index of its first answer
  size_t answers = 1;
};

/// What rank 0 tells the others of the job: the static sizes.
struct JobSizes {
  int64_t slots = 1;  // 0: there is nothing to do
  int64_t capacity = 1;
  int64_t drafts = 0;         // tokens of a slot that are drafted in a step
  int64_t ngram = 0;          // longest run that prompt lookup looks for; 0: no lookup
  bool wants_logits = false;  // the host or the user reads them

  friend bool operator==(const JobSizes&, const JobSizes&) = default;
};

/// generation_config.json, the ids of config.json where it has none, and the options on top; checked. What is ignored
/// is added to `warnings`.
Result<generation::GenerationConfig> generation_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                                   std::vector<std::string>& warnings);

/// The options for which the host has to choose the tokens.
std::vector<std::string_view> host_options_of(const generation::GenerationConfig& config);

/// Options that cannot be together.
Error contradiction(const std::string& found, std::string_view expected);

/// How many new tokens are asked for; the first that is there counts.
struct TokenWish {
  std::optional<int32_t> max_new_tokens;  // --max-new-tokens, or a row's own
  std::optional<int32_t> max_length;      // --max-length: prompt included
  // of generation_config.json
  std::optional<int32_t> file_max_new_tokens;
  std::optional<int32_t> file_max_length;

  /// Of a prompt of `length` tokens; empty: as many as fit.
  std::optional<int64_t> of(int64_t length) const;
};

/// As transformers has it, except that a sequence runs until EOS or capacity where nothing says a length (there: 20 new
/// tokens), and that --max-length overrides a max_new_tokens of the file.
TokenWish token_wish(const GenerateCommand& command, const generation::GenerationConfig& config);

/// Tokens of a prompt or of its negative one, which runs beside it: the longer.
int64_t longer_length(const Prompt& prompt);

/// Tokens that a slot must hold for a prompt: the last new token is never cached. `most` is what the model can.
int64_t wanted_capacity(const TokenWish& wish, const Prompt& prompt, int64_t most);

/// --max-seq-len, if it was given. Fails with `kInvalidArgument` when the model ends before.
Result<std::optional<int64_t>> asked_capacity(const GenerateCommand& command, const checkpoint::ModelSpec& spec);

/// The new tokens of a prompt that fits `capacity`. Fails with `kInvalidArgument` naming `row` when they do not.
Result<int32_t> budget_of(const TokenWish& wish, const Prompt& prompt, size_t row, int64_t capacity);

/// Refuses a prompt with masked ids inside where stripping them is not what transformers does: a window, and the length
/// from which longrope turns by other factors, count masked ids there. Fails with `kUnsupported` where the row with its
/// `budget` new tokens outgrows one.
Result<void> check_masked(const Prompt& prompt, size_t row, int32_t budget, const checkpoint::ModelSpec& spec);

/// Who drafts, if anybody: sets the drafts of a step.
Result<void> plan_drafts(const GenerateCommand& command, const generation::GenerationConfig& config,
                         const std::vector<std::string_view>& host_options, JobSizes& sizes);

/// What requests are made from, beside their prompts. Everything is borrowed and outlives the requests.
struct RequestSource {
  const generation::GenerationConfig& config;
  const checkpoint::ModelSpec& spec;
  const Clock& clock;
  const text::Tokenizer* tokenizer;  // may be null
  bool by_host = false;              // the host chooses
  bool wants_logits = false;         // the user reads those of the graphs' own choices
};

/// The numbers of a prompt's first answer.
struct FirstAnswer {
  size_t id = 0;            // of its request
  uint64_t random_row = 0;  // its random numbers are a function of the seed and of this
};

/// The requests of one prompt: one for each answer, or one for all where beams find them together.
Result<std::vector<JobRequest>> make_requests(const RequestSource& source, const Prompt& prompt, int32_t budget,
                                              FirstAnswer first);

/// Slots: --batch-size, or enough for `rows` up to a default. Fails with `kInvalidArgument` when it is too small for
/// the `widest` request.
Result<int64_t> slots_of(const GenerateCommand& command, int64_t rows, int64_t widest);

}  // namespace lockstep::launcher
