// What is asked of an engine, and what it answers.
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

/// The token ids that are attended to: padding, and what a mask hides inside a prompt, is left out.
struct Prompt {
  std::vector<int32_t> ids;            // at least one
  std::vector<int32_t> negative = {};  // what guidance leads away from; empty: the last id
  int64_t masked_inside = 0;           // ids that were hidden between these: some models count them in a window

  friend bool operator==(const Prompt&, const Prompt&) = default;
};

/// The id of text that was held back until the end, since a stop string could have begun in it.
inline constexpr int32_t kNoToken = -1;

/// A token as it is delivered. Valid during the call.
struct Token {
  size_t answer = 0;                    // which of the request's answers it belongs to
  int32_t id = 0;                       // kNoToken: none, only text
  std::string_view text;                // what it completes: whole characters, maybe none
  TimePoint made;                       // when the step that made it had ended
  const TokenRecord* record = nullptr;  // log-probabilities and scores, where they were asked for
};

enum class Verdict { kContinue, kStop };

using OnToken = std::function<Verdict(const Token& token)>;

// Every option with its help, its bounds and who applies it: generation_options().
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
  std::shared_ptr<TokenChooser> chooser = nullptr;  // a decoding loop of your own, instead of all of these

  /// Called in order on the engine's delivery thread; `kStop` makes this token the last one (what the ranks have made
  /// beyond it is dropped). It may hold up other requests' callbacks, never the ranks. Beams give no tokens before
  /// their end.
  OnToken on_token = {};

  /// Its random numbers are a function of the seed and of this number.
  uint64_t random_row = 0;
};

struct Answer {
  std::vector<int32_t> ids;  // up to and with the end token
  std::string text;          // without special tokens, cut before a stop string; empty without a tokenizer
  FinishReason reason = FinishReason::kLength;
  std::optional<double> score = {};  // of a beam
  std::vector<std::shared_ptr<const TokenRecord>> records =
      {};                          // [ids] where log-probabilities or scores were asked for
  std::vector<float> logits = {};  // [ids, vocabulary] raw, with output_logits
  TokenTimes times = {};           // none made where tokens are known at the end only
};

/// How likely a token of a text is.
struct TokenScore {
  int32_t id = 0;
  std::optional<float> logprob;   // natural logarithm, given all tokens before it; none of a text's first token
  std::vector<TokenLogprob> top;  // the likeliest tokens in its place, likeliest first; none of a text's first token
};

namespace requests {
class RequestState;
}

/// One request under way. Copyable: all copies mean the same request. Thread-safe. It may outlive the engine.
class RequestHandle {
 public:
  bool is_done() const;
  /// Ends the request: its answers are what there is, with `kCancelled`. Nothing happens when it is done.
  void cancel();
  /// The answers, best first where there are beams. Fails with the request's own error or with the engine's.
  /// @blocking
  Result<std::vector<Answer>> wait();
  /// The ids that were made so far.
  std::vector<int32_t> so_far(size_t answer = 0) const;
  /// Calls `call` once when the request is done, on the engine's delivery thread; at once where it is done already. The
  /// first function counts.
  void on_done(std::function<void()> call);

 private:
  friend class Engine;
  explicit RequestHandle(std::shared_ptr<requests::RequestState> state) : state_(std::move(state)) {}
  std::shared_ptr<requests::RequestState> state_;  // shared with the engine, which may end first
};

}  // namespace lockstep
