// Requests to an engine, and its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/constraint/constraint.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/generation/constraint_processors.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"
#include "runtime/generation/option_rows.h"
#include "runtime/generation/stopping.h"
#include "runtime/generation/token_chooser.h"
#include "runtime/generation/token_record.h"
#include "runtime/generation/token_times.h"

namespace lockstep {

using generation::AllowedTokens;
using generation::AppliedBy;
using generation::FinishReason;
using generation::FlagSource;
using generation::GenerationConfig;
using generation::GenerationOption;
using generation::LogitsProcessor;
using generation::OptionEffect;
using generation::OptionForm;
using generation::StoppingCriterion;
using generation::TokenChooser;
using generation::TokenLogprob;
using generation::TokenRecord;
using generation::TokenTimes;

/// The id of a prompt's position that has an embedding instead of a token.
inline constexpr int32_t kEmbedded = -1;

/// The token ids that attention covers: without padding, and without ids that a mask hides inside a prompt.
struct Prompt {
  std::vector<int32_t> ids;            // at least one
  std::vector<int32_t> negative = {};  // negative prompt of classifier-free guidance; empty: the last id
  int64_t masked_inside = 0;           // ids that a mask hid between these: some models count them in a window

  /// For each id kEmbedded, in order, the numbers that stand in for its token's embedding (Hugging Face's
  /// inputs_embeds): as the embedding layer returns them, with a family's scale. They are rounded to the model's type.
  /// Processors and penalties do not see such ids. With PromptEmbeddings::kOn.
  std::vector<float> embeddings = {};  // [ids kEmbedded, ModelSpec::embedding_size]

  friend bool operator==(const Prompt&, const Prompt&) = default;
};

/// The id of text without a token: text withheld until the end because a stop string could have begun in it.
inline constexpr int32_t kNoToken = -1;

/// A delivered token. Valid during the call.
struct Token {
  size_t answer = 0;                    // index of the answer of the request
  int32_t id = 0;                       // kNoToken: none, only text
  std::string_view text;                // the whole characters that the token completes, maybe none
  TimePoint made;                       // end of the step that made it
  const TokenRecord* record = nullptr;  // log-probabilities and scores, where the request asks for them
};

enum class Verdict { kContinue, kStop };

using OnToken = std::function<Verdict(const Token& token)>;

// generation_options() lists every option with its help, its bounds and AppliedBy.
using generation::find_generation_option;
using generation::flag_of;
using generation::generation_options;

/// Fields of GenerationConfig by Hugging Face's names, as JSON text: {{"max_new_tokens", "60"}, {"do_sample", "true"}}.
using Overrides = std::vector<std::pair<std::string_view, std::string_view>>;

struct Request {
  Prompt prompt;
  GenerationConfig config;  // complete: begin with Model::generation()
  std::vector<std::shared_ptr<const LogitsProcessor>> processors = {};
  std::vector<std::shared_ptr<const StoppingCriterion>> criteria = {};
  AllowedTokens allowed_tokens = {};
  std::shared_ptr<const constraint::Constraint> constraint = nullptr;  // what each answer has to look like
  std::shared_ptr<TokenChooser> chooser = nullptr;  // a custom decoding loop, instead of all of these

  /// Called in order on the engine's delivery thread. `kStop` makes this token the last one; tokens that the ranks have
  /// made after it are dropped. A slow function delays other requests' callbacks but never the ranks. Beam search calls
  /// it only at its end.
  OnToken on_token = {};

  /// Random numbers depend only on the seed and on this number.
  uint64_t random_row = 0;

  /// Records with the model's own log-probabilities, before temperature, penalties, bias and masks, and with that many
  /// of the likeliest ids; −1: none. On host backends they have the bits of Engine::score.
  int32_t model_logprobs = -1;

  bool special_text = false;  // whether texts contain special tokens; they never contain the end token then

  /// Tokens of each answer that another engine delivered before it ended; empty: none. The answers go on after them,
  /// bit for bit as if that engine had not ended (partition::Numerics::kInvariant). `on_token`, records and logits
  /// begin with the next token; ids and texts of the answers are complete.
  std::vector<std::vector<int32_t>> delivered = {};

  int32_t priority = 0;                   // a waiting request with a higher one gets its slots first
  std::string client = {};                // waiting clients of one priority take turns
  std::optional<Duration> deadline = {};  // from its submission; then it fails with kDeadlineExceeded
};

struct Answer {
  std::vector<int32_t> ids;  // up to and including the end token
  std::string text;          // behind the prompt's; cut before a stop string, without special tokens by default; empty
                             // without a tokenizer
  FinishReason reason = FinishReason::kLength;
  std::optional<double> score = {};  // of a beam
  std::vector<std::shared_ptr<const TokenRecord>> records =
      {};                          // [ids] where the request asks for log-probabilities or scores
  std::vector<float> logits = {};  // [ids, vocabulary] raw, with output_logits
  TokenTimes times = {};           // empty where tokens are known at the end only
  int64_t cached_tokens = 0;       // tokens of the prompt that a slot already held
  std::string stop_string = {};    // that ended it; empty: none
  Duration waited = {};            // from the request's submission to its first slot
};

/// The probability of one token of a text.
struct TokenScore {
  int32_t id = 0;
  std::optional<float> logprob;   // natural logarithm, given all tokens before it; none for a text's first token
  std::vector<TokenLogprob> top;  // tokens at its position, likeliest first; none for a text's first token
  std::vector<float> logits;      // [vocabulary] raw, with Scoring::kLogits; empty for a text's first token
};

namespace requests {
class RequestState;
class TextScores;
}  // namespace requests

/// One submitted request. Copies refer to the same request. Thread-safe. It may outlive the engine.
class RequestHandle {
 public:
  bool is_done() const;
  /// Ends the request with the tokens so far and `kCancelled`. No effect on a request that is done.
  void cancel();
  /// The answers; of beam search, best first. Fails with the request's error or with the engine's. @blocking
  Result<std::vector<Answer>> wait();
  /// The ids generated so far.
  std::vector<int32_t> so_far(size_t answer = 0) const;
  /// Calls `call` once when the request is done, on the engine's delivery thread; at once, on this thread, if it is
  /// done already. Until then a later function replaces an earlier one.
  void on_done(std::function<void()> call);
  /// The engine's number of the request, as in Engine::activity.
  int64_t number() const;
  /// Whether its engine ended before it did: with Request::delivered, another engine can go on with it.
  bool is_abandoned() const;

 private:
  friend class Engine;
  explicit RequestHandle(std::shared_ptr<requests::RequestState> state) : state_(std::move(state)) {}
  std::shared_ptr<requests::RequestState> state_;  // shared with the engine, which may end first
};

/// One submitted text to score. Copies refer to the same text. Thread-safe. It may outlive the engine.
class ScoreHandle {
 public:
  bool is_done() const;
  /// Ends the text with `kCancelled`. No effect on a text that is done.
  void cancel();
  /// The scores of its tokens. Fails with the text's error or with the engine's. @blocking
  Result<std::vector<TokenScore>> wait();
  /// Calls `call` once when the text is done, as RequestHandle::on_done.
  void on_done(std::function<void()> call);
  /// Whether its engine ended before it did.
  bool is_abandoned() const;

 private:
  friend class Engine;
  explicit ScoreHandle(std::shared_ptr<requests::TextScores> scores) : scores_(std::move(scores)) {}
  std::shared_ptr<requests::TextScores> scores_;  // shared with the engine, which may end first
};

}  // namespace lockstep
