#include "launcher/serve/api/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "launcher/serve/api/sequence.h"

namespace lockstep::serve {
namespace {

class EngineRun;

/// Passes one sequence's events on, while the run exists.
class SequenceSink final : public EngineSink {
 public:
  SequenceSink(std::weak_ptr<EngineRun> run, size_t index) : run_(std::move(run)), index_(index) {}
  void on_tokens(std::vector<EngineToken> tokens) override;
  void on_done(std::vector<EngineAnswer> answers) override;
  void on_failed(const Error& error) override;

 private:
  std::weak_ptr<EngineRun> run_;
  size_t index_;
};

/// Shared by its owner and by callbacks that may come later.
class EngineRun final : public Run, public std::enable_shared_from_this<EngineRun> {
 public:
  EngineRun(const RunServices& services, const Protocol& protocol, std::shared_ptr<Exchange> exchange,
            ReadRequest request, ApiRequest facts, TimePoint arrived, std::function<void()> on_end)
      : services_(services),
        protocol_(&protocol),
        exchange_(std::move(exchange)),
        request_(std::move(request.generation)),
        writer_(std::move(request.writer)),
        facts_(std::move(facts)),
        arrived_(arrived),
        on_end_(std::move(on_end)),
        per_prompt_(std::max(request_.choices, request_.best_of)),
        scorings_(request_.prompts.size()),
        scores_(request_.prompts.size()) {
    facts_.stream = request_.stream;
    facts_.choices = sequences();
    int64_t longest = 0;
    for (const Prompt& prompt : request_.prompts) {
      usage_.prompt_tokens += std::ssize(prompt.ids);
      longest = std::max(longest, std::ssize(prompt.ids));
    }
    facts_.prompt_tokens = usage_.prompt_tokens;
    facts_.most_tokens = longest + request_.max_new_tokens.value_or(0);
    for (size_t i = 0; i < sequences(); ++i) sequences_.emplace_back(i, i / per_prompt_, request_.output);
  }

  size_t sequences() const override { return request_.prompts.size() * per_prompt_; }

  void start() override {
    services_.observer->on_started(facts_);
    if (request_.stream) watch_silence();
    for (size_t prompt = 0; prompt < request_.prompts.size() && !ended_; ++prompt) {
      if (request_.scores_prompt) {
        score(prompt);
      } else {
        open_prompt(prompt);
      }
    }
  }

  void abandon() override {
    if (!ended_) close({.status = kClientClosedRequest, .outcome = "cancelled"});
  }

  void on_tokens(size_t index, std::vector<EngineToken> tokens) {
    if (ended_) return;
    Sequence& sequence = sequences_[index];
    note_times(sequence, tokens);
    drop_end_text(tokens);
    pass(sequence, sequence.take(std::move(tokens), !request_.stream));
  }

  void on_done(size_t index, const std::vector<EngineAnswer>& answers) {
    if (ended_ || answers.empty()) return;
    const EngineAnswer& answer = answers.front();
    if (index % per_prompt_ == 0) usage_.cached_tokens += answer.cached_tokens;
    const Duration waited = duration_of(answer.waited_s);
    if (!waited_ || waited < *waited_) waited_ = waited;
    end_sequence(sequences_[index], reason_of(answer.reason), answer.stop_string);
  }

  void on_failed(const Error& error) {
    if (!ended_) fail(from_engine(error));
  }

 private:
  static FinishReason reason_of(const std::string& reason) {
    if (reason == "length") return FinishReason::kLength;
    return reason == "cancelled" ? FinishReason::kCancelled : FinishReason::kStop;
  }

  void score(size_t prompt) {
    scorings_[prompt] =
        services_.engine->score(request_.prompts[prompt].ids, request_.logprobs.value_or(0),
                                [run = weak_from_this(), prompt](Result<std::vector<EngineScore>> scores) {
                                  const auto self = run.lock();
                                  if (self && !self->ended_) self->on_scores(prompt, std::move(scores));
                                });
  }

  void on_scores(size_t prompt, Result<std::vector<EngineScore>> scores) {
    if (!scores.has_value()) return fail(from_engine(scores.error()));
    scores_[prompt] = std::move(scores).assume_value();
    open_prompt(prompt);
  }

  /// Opens the sequences of a prompt; without new tokens they end at once.
  void open_prompt(size_t prompt) {
    for (size_t i = 0; i < per_prompt_ && !ended_; ++i) {
      Sequence& sequence = sequences_[prompt * per_prompt_ + i];
      if (request_.max_new_tokens == 0) {
        end_sequence(sequence, FinishReason::kLength, {});
      } else {
        sequence.call = services_.engine->open(engine_request(prompt, i),
                                               std::make_shared<SequenceSink>(weak_from_this(), sequence.index()));
        if (paused_ && sequence.call) sequence.call->pause();
      }
    }
  }

  /// Random numbers follow from the seed and the choice's number, so a prompt has the same answers in any list.
  EngineRequest engine_request(size_t prompt, size_t choice) const {
    EngineRequest asked{.ids = request_.prompts[prompt].ids,
                        .random_row = choice,
                        .constraint = request_.constraint,
                        .special_text = request_.special_text,
                        .priority = request_.priority,
                        .client = request_.client,
                        .deadline_s = request_.deadline_s,
                        .tag = facts_.number};
    asked.model_logprobs = request_.logprobs;
    if (request_.best_of > request_.choices && !asked.model_logprobs) asked.model_logprobs = 0;
    for (const auto& option : request_.options) asked.options.emplace_back(option);
    if (request_.max_new_tokens) {
      asked.options.emplace_back("max_new_tokens", std::to_string(*request_.max_new_tokens));
    }
    return asked;
  }

  void note_times(Sequence& sequence, const std::vector<EngineToken>& tokens) {
    const auto count = static_cast<size_t>(std::ranges::count_if(tokens, [](const auto& t) { return t.id >= 0; }));
    if (count == 0) return;
    const TimePoint now = services_.clock->now();
    if (usage_.new_tokens == 0) services_.observer->on_first_token(facts_, now - arrived_);
    usage_.new_tokens += static_cast<int64_t>(count);
    services_.observer->on_tokens(facts_, count, sequence.last_time ? now - *sequence.last_time : Duration{});
    sequence.last_time = now;
  }

  /// With special tokens in the text, the token that ends an answer is still none of it.
  void drop_end_text(std::vector<EngineToken>& tokens) const {
    if (!request_.special_text || request_.end_texts.empty()) return;
    for (EngineToken& token : tokens) {
      const auto end = request_.end_texts.find(token.id);
      if (end != request_.end_texts.end() && token.text.ends_with(end->second)) {
        token.text.resize(token.text.size() - end->second.size());
      }
    }
  }

  void pass(Sequence& sequence, ChoicePart part) {
    usage_.reasoning_tokens += sequence.take_reasoning_count();
    if (!request_.stream || (part.pieces.empty() && part.tokens.empty())) return;
    part.usage = usage_;
    std::string bytes = begin(sequence);
    bytes += writer_->part(part);
    write(std::move(bytes));
  }

  void end_sequence(Sequence& sequence, FinishReason reason, std::string stop_string) {
    pass(sequence, sequence.finish(!request_.stream));
    sequence.end(reason, std::move(stop_string));
    if (request_.stream) {
      std::string bytes = begin(sequence);
      const Choice& choice = sequence.choice();
      bytes += writer_->end_choice({choice.index, choice.reason, usage_, choice.stop_string});
      write(std::move(bytes));
    }
    if (++ended_sequences_ == sequences_.size() && !ended_) complete();
  }

  /// What precedes the first bytes of the stream, and of a sequence.
  std::string begin(Sequence& sequence) {
    std::string bytes;
    if (!std::exchange(writer_begun_, true)) bytes += writer_->begin(usage_);
    if (std::exchange(sequence.begun, true)) return bytes;
    const size_t prompt = sequence.choice().prompt;
    return bytes += writer_->begin_choice(sequence.index(), request_.prompts[prompt], scores_[prompt]);
  }

  void begin_http() {
    if (http_begun_) return;
    http_begun_ = true;
    exchange_->begin_stream(
        {.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  }

  void write(std::string bytes) {
    if (bytes.empty()) return;
    begin_http();
    is_silent_ = false;
    exchange_->write(std::move(bytes));
    if (!paused_ && exchange_->unsent() > services_.options->most_unsent) pause();
  }

  void pause() {
    paused_ = true;
    for (Sequence& sequence : sequences_) {
      if (sequence.call) sequence.call->pause();
    }
    exchange_->on_sent(services_.options->most_unsent / 2, [run = weak_from_this()] {
      const auto self = run.lock();
      if (self && !self->ended_) self->resume();
    });
  }

  void resume() {
    paused_ = false;
    for (Sequence& sequence : sequences_) {
      if (sequence.call) sequence.call->resume();
    }
  }

  /// A comment after each period without output keeps proxies from closing the connection.
  void watch_silence() {
    is_silent_ = true;
    silence_ = services_.loop->after(services_.options->keep_alive, [run = weak_from_this()] {
      const auto self = run.lock();
      if (!self || self->ended_) return;
      if (self->is_silent_) {
        self->begin_http();
        self->exchange_->write(": waiting\n\n");
      }
      self->watch_silence();
    });
  }

  void complete() {
    std::string_view outcome = finish_name(sequences_.front().choice().reason);
    if (request_.stream) {
      write(writer_->end(usage_));
      exchange_->end_stream();
    } else {
      exchange_->respond({.body = writer_->whole(request_, kept_choices(), scores_, usage_)});
    }
    close({.outcome = outcome});
  }

  static std::string_view finish_name(FinishReason reason) {
    switch (reason) {
      case FinishReason::kLength: return "length";
      case FinishReason::kToolCalls: return "tool_calls";
      case FinishReason::kCancelled: return "cancelled";
      case FinishReason::kStop: break;
    }
    return "stop";
  }

  /// Of each prompt the answers with the highest log-probability per token, renumbered.
  std::vector<Choice> kept_choices() {
    std::vector<Choice> kept;
    for (size_t prompt = 0; prompt < request_.prompts.size(); ++prompt) {
      std::vector<Sequence*> of_prompt;
      for (size_t i = 0; i < per_prompt_; ++i) of_prompt.push_back(&sequences_[prompt * per_prompt_ + i]);
      if (per_prompt_ > request_.choices) {
        std::ranges::stable_sort(of_prompt, std::greater(), [](const Sequence* s) { return s->mean_logprob(); });
      }
      for (size_t i = 0; i < request_.choices; ++i) {
        kept.push_back(of_prompt[i]->choice());
        kept.back().index = kept.size() - 1;
      }
    }
    return kept;
  }

  void fail(const ApiError& error) {
    if (http_begun_) {
      write(writer_->failure(error));
      exchange_->end_stream();
    } else {
      exchange_->respond(protocol_->refuse(error));
    }
    close({.status = error.status, .outcome = "error", .error = error.message});
  }

  /// The calls are dropped from the loop, not from inside of their own events.
  void close(ApiEnd end) {
    ended_ = true;
    silence_.reset();
    end.cached_tokens = usage_.cached_tokens;
    end.new_tokens = usage_.new_tokens;
    end.waited = waited_;
    end.duration = services_.clock->now() - arrived_;
    services_.observer->on_ended(facts_, end);
    services_.loop->post([self = shared_from_this()] {
      for (Sequence& sequence : self->sequences_) sequence.call.reset();
      self->scorings_.clear();
      self->exchange_.reset();
      if (self->on_end_) std::exchange(self->on_end_, {})();
    });
  }

  const RunServices services_;
  const Protocol* protocol_;
  std::shared_ptr<Exchange> exchange_;  // the server's; a handler keeps it until the response
  Generation request_;
  std::unique_ptr<ProtocolWriter> writer_;
  ApiRequest facts_;
  TimePoint arrived_;
  std::function<void()> on_end_;
  size_t per_prompt_;
  std::vector<std::unique_ptr<EngineScoring>> scorings_;  // of each prompt; null: it is not scored
  std::vector<std::vector<EngineScore>> scores_;          // of each prompt
  std::vector<Sequence> sequences_;
  Usage usage_;
  std::unique_ptr<Timer> silence_;
  std::optional<Duration> waited_;  // the shortest of the sequences that have ended
  size_t ended_sequences_ = 0;
  bool http_begun_ = false, writer_begun_ = false;
  bool is_silent_ = true, paused_ = false, ended_ = false;
};

void SequenceSink::on_tokens(std::vector<EngineToken> tokens) {
  if (const auto run = run_.lock()) run->on_tokens(index_, std::move(tokens));
}
void SequenceSink::on_done(std::vector<EngineAnswer> answers) {
  if (const auto run = run_.lock()) run->on_done(index_, answers);
}
void SequenceSink::on_failed(const Error& error) {
  if (const auto run = run_.lock()) run->on_failed(error);
}

}  // namespace

std::shared_ptr<Run> make_run(const RunServices& services, const Protocol& protocol, std::shared_ptr<Exchange> exchange,
                              ReadRequest request, ApiRequest facts, TimePoint arrived, std::function<void()> on_end) {
  return std::make_shared<EngineRun>(services, protocol, std::move(exchange), std::move(request), std::move(facts),
                                     arrived, std::move(on_end));
}

}  // namespace lockstep::serve
