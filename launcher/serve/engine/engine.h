// An engine in other processes, as the server sees it: requests out, tokens in.
//
//   open(request, sink) ─► Call      on_tokens …, then on_done or on_failed ─► sink      all on the loop's thread
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::serve {

/// Where an engine serves.
struct EngineAddress {
  std::filesystem::path socket = {};  // a Unix socket; empty: TCP
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::string secret = {};  // of TCP
};

/// Facts that do not change while an engine lives (engine.capnp, Facts).
struct EngineFacts {
  std::string model;          // the directory's name
  std::string identity = {};  // equal for engines that can go on with each other's requests
  int ranks = 1;
  int64_t slots = 1;     // sequences that run at once
  int64_t capacity = 1;  // tokens of a slot: prompt and answer
  int64_t vocabulary = 1;
  std::string backend, dtype;
  std::vector<EngineAddress> replicas = {};  // that serve the same model apart from it
};

/// One prompt and all its answers (num_return_sequences).
struct EngineRequest {
  std::vector<int32_t> ids;                                       // of the prompt, at least one
  std::vector<std::pair<std::string, std::string>> options = {};  // Hugging Face's names, JSON values
  uint64_t random_row = 0;                                        // random numbers depend on the seed and on this only
  std::optional<int> model_logprobs = {};  // the model's own log-probabilities and that many of the likeliest tokens'
  std::string constraint = {};             // runtime/constraint; empty: none
  bool special_text = false;               // whether special tokens are part of the text
  int priority = 0;                        // a higher one gets a slot first
  std::string client = {};                 // waiting clients take turns
  std::optional<double> deadline_s = {};   // from now; a request past it ends with "deadline_exceeded"
  uint64_t tag = 0;                        // the caller's number for it, which EngineActivity gives back
  std::vector<std::vector<int32_t>> delivered = {};  // ids of each answer that an earlier engine delivered
};

struct EngineCandidate {
  int32_t id = 0;
  float logprob = 0.0f;
};

struct EngineToken {
  uint32_t answer = 0;
  int32_t id = 0;    // −1: none, only text that was withheld
  std::string text;  // whole characters, without anything from a stop string on
  std::optional<float> logprob;
  std::vector<EngineCandidate> top;  // likeliest first
};

struct EngineAnswer {
  std::vector<int32_t> ids;  // up to and including the end token
  std::string text;
  std::string reason;            // "eos", "length", "stop", "cancelled"
  int64_t cached_tokens = 0;     // tokens of the prompt that a slot already held
  std::string stop_string = {};  // that ended it; empty: none
  double waited_s = 0.0;         // from the request's arrival at the engine to its first slot
};

struct EngineScore {
  int32_t id = 0;
  std::optional<float> logprob;  // none for the first
  std::vector<EngineCandidate> top;
};

/// Receives one request's tokens, then exactly one of `on_done` and `on_failed`; `kPeerLost`: the engine has ended.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  virtual void on_tokens(std::vector<EngineToken> tokens) = 0;
  virtual void on_done(std::vector<EngineAnswer> answers) = 0;
  virtual void on_failed(const Error& error) = 0;
};

/// An open request. Destroying it cancels the request and releases the sink.
class EngineCall {
 public:
  virtual ~EngineCall() = default;
  /// Ends the request with the tokens so far; the sink gets `on_done`.
  virtual void cancel() = 0;
  /// While it is paused, the engine keeps the tokens; for clients that read slowly.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

/// A text that an engine scores. Destroying it cancels the text, whose function is then not called any more.
class EngineScoring {
 public:
  virtual ~EngineScoring() = default;
};

/// What an engine knows of a rank beside its work (engine.capnp, Presence).
struct RankPresence {
  std::string host = {};  // empty: not known
  double silent_s = 0.0;  // since its last sign of life
  bool leaves = false;    // its host is to be taken away

  friend bool operator==(const RankPresence&, const RankPresence&) = default;
};

struct EngineStatus {
  int64_t running = 0, queued = 0;
  uint64_t submitted = 0, finished = 0, prompt_tokens = 0, new_tokens = 0, reused_tokens = 0;
  uint64_t steps = 0;                       // number of the last step
  std::optional<double> step_age_s = {};    // since the last step ended; none: no step yet
  std::vector<std::string> ranks = {};      // "ready", "lost", …
  std::vector<RankPresence> presence = {};  // of each
};

/// What the slots, the ranks and the last steps do (engine.capnp, Activity).
struct EngineActivity {
  struct Slot {
    std::string state;     // "free", "kept", "prefill", "decode"
    int64_t request = -1;  // the engine's number; −1: none, or a text to score
    int64_t tokens = 0, new_tokens = 0;
    uint64_t tag = 0;  // EngineRequest::tag; 0: none, or a request of another client of the engine
  };
  struct Step {
    uint64_t number = 0;
    std::string kind;  // "prefill", "decode", "score"
    int64_t rows = 0;
    double seconds = 0.0, age_s = 0.0;
  };
  struct Rank {
    std::string state;
    uint64_t resident_bytes = 0;
    RankPresence presence = {};
    size_t replica = 0;  // that it belongs to
  };
  std::vector<Slot> slots;
  std::vector<Step> steps;  // oldest first
  std::vector<Rank> ranks;
};

/// On the loop's thread only.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineFacts& facts() const = 0;

  /// `sink` is shared, since tokens may be on their way when the caller gives up.
  virtual std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) = 0;

  /// The log-probabilities of `ids` and the `top` likeliest tokens in each place. `done` is called once.
  using OnScores = std::function<void(Result<std::vector<EngineScore>>)>;
  virtual std::unique_ptr<EngineScoring> score(std::vector<int32_t> ids, int top, OnScores done) = 0;

  using OnStatus = std::function<void(Result<EngineStatus>)>;
  virtual void status(OnStatus done) = 0;

  using OnActivity = std::function<void(Result<EngineActivity>)>;
  virtual void activity(OnActivity done) = 0;

  /// Ends the engine once every open request has its answer; it refuses new ones.
  virtual void finish() = 0;
};

}  // namespace lockstep::serve
