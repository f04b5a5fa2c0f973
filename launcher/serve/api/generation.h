// The internal request: what every protocol asks of the engine, and what the engine gave.
//
//   body ─► Protocol::read ─► Generation ─► run (runner.h) ─► Engine
//                                                └─► ChoicePart …, ChoiceEnd, Usage ─► ProtocolWriter ─► bytes
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/serve/api/errors.h"
#include "launcher/serve/engine/engine.h"
#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {

struct Prompt {
  std::vector<int32_t> ids;
  std::string text = {};  // as sent, for an echo; a list of ids has none
};

/// What is read from the answer's text; none: all of it is content.
struct ReadOutput {
  OutputFormat format;
  ReadParts parts;
};

struct Generation {
  std::vector<Prompt> prompts;
  size_t choices = 1;                          // of each prompt: choice i of prompt p has the index p * choices + i
  size_t best_of = 0;                          // answers of which `choices` are kept; 0: as many
  std::map<std::string, std::string> options;  // generation options (Hugging Face's names), JSON values
  std::optional<int64_t> max_new_tokens;       // 0: the prompts are only scored; none: until the capacity
  std::string length_field = "max_tokens";     // named when the length does not fit
  bool shorten = false;                        // a length over the capacity is reduced instead of refused
  std::optional<int> logprobs;                 // the model's own, with that many of the likeliest tokens
  bool scores_prompt = false;                  // with log-probabilities of the prompt
  std::string constraint;                      // runtime/constraint; empty: none
  bool special_text = false;                   // special tokens are part of the text
  std::map<int32_t, std::string> end_texts;    // texts of end tokens, which are no part of an answer with special text
  std::optional<ReadOutput> output;
  bool stream = false;
  int priority = 0;
  std::string client;  // waiting clients take turns
  std::optional<double> deadline_s;
};

/// Tokens so far, of all choices together.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompts
  int64_t reasoning_tokens = 0;  // of the answers
};

/// What one choice got at once. Its tokens have ids.
struct ChoicePart {
  size_t index = 0;
  std::vector<OutputPiece> pieces;
  std::vector<EngineToken> tokens;
  Usage usage;  // up to here
};

enum class FinishReason { kStop, kLength, kToolCalls, kCancelled };

struct ChoiceEnd {
  size_t index = 0;
  FinishReason reason = FinishReason::kStop;
  Usage usage;
  std::string stop_string = {};  // that ended it; empty: none
};

struct ReadToolCall {
  std::string name;
  std::string arguments;  // JSON text
};

/// A whole choice.
struct Choice {
  size_t index = 0;
  size_t prompt = 0;
  std::string content, reasoning;
  std::vector<ReadToolCall> tools;
  std::vector<EngineToken> tokens;
  FinishReason reason = FinishReason::kStop;
  std::string stop_string = {};  // that ended it; empty: none
};

/// Writes the answer of one request in a protocol. Pure: every function returns bytes.
class ProtocolWriter {
 public:
  virtual ~ProtocolWriter() = default;

  /// A stream: `begin`, for each choice parts and an end, then `end` or `failure`. `begin` comes before the first
  /// token.
  virtual std::string begin(const Usage& usage) = 0;
  /// Before a choice's first part; `scores` are those of its prompt.
  virtual std::string begin_choice(size_t index, const Prompt& prompt, const std::vector<EngineScore>& scores) = 0;
  virtual std::string part(const ChoicePart& part) = 0;
  virtual std::string end_choice(const ChoiceEnd& end) = 0;
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string failure(const ApiError& error) = 0;

  /// A whole answer's body. `scores`: per prompt, with `scores_prompt`.
  virtual std::string whole(const Generation& request, const std::vector<Choice>& choices,
                            const std::vector<std::vector<EngineScore>>& scores, const Usage& usage) = 0;
};

}  // namespace lockstep::serve
