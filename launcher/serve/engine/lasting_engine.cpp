#include "launcher/serve/engine/lasting_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::serve {
namespace {

/// Whether the engine has ended, not the request alone.
bool is_loss(const Error& error) { return error.kind == ErrorKind::kPeerLost; }

Error other_engine(const EngineFacts& found, const EngineFacts& expected) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[serve] cannot go on with another engine: found {} with {} ids and slots of {} tokens, expected "
                      "{} with {} ids and slots of {} tokens, as before; start the server again",
                      found.model, found.vocabulary, found.capacity, expected.model, expected.vocabulary,
                      expected.capacity)};
}

}  // namespace

/// A request whose sink waits for its end. Shared by its call and the sinks of its attempts.
struct LastingEngine::Open {
  EngineRequest request;             // `delivered` grows with the tokens
  std::shared_ptr<EngineSink> sink;  // null: the request has ended, or its caller has given up
  std::optional<TimePoint> deadline;
  std::set<uint32_t> with_rest;  // answers whose withheld text has come
  int attempt = 0;               // events of earlier ones do not count
  bool is_paused = false, is_cancelled = false;
  std::unique_ptr<EngineCall> call;  // null: it waits for an engine
};

/// A text to score.
struct LastingEngine::Text {
  std::vector<int32_t> ids;
  int top = 0;
  OnScores done;
  int attempt = 0;  // as of Open
};

/// A question about the engine's state. A lost engine drops its answers.
struct LastingEngine::Question {
  virtual ~Question() = default;
  virtual void fail(const Error& error) = 0;
};

template <typename T>
struct LastingEngine::QuestionOf final : Question {
  explicit QuestionOf(std::function<void(Result<T>)> the_done) : done(std::move(the_done)) {}
  void fail(const Error& error) override { done(error); }

  const std::function<void(Result<T>)> done;
};

/// What the engine calls instead of `done`, which is called once in any case.
template <typename T>
std::function<void(Result<T>)> LastingEngine::asked(std::function<void(Result<T>)> done) {
  const auto question = std::make_shared<QuestionOf<T>>(std::move(done));
  questions_.push_back(question);
  return [this, weak = std::weak_ptr<QuestionOf<T>>(question)](Result<T> answer) {
    const auto own = weak.lock();
    if (!own) return;
    questions_.remove(own);
    own->done(std::move(answer));
  };
}

/// Receives one attempt's events.
class LastingEngine::Sink final : public EngineSink {
 public:
  Sink(LastingEngine& engine, std::weak_ptr<Open> open, int attempt)
      : engine_(engine), open_(std::move(open)), attempt_(attempt) {}

  void on_tokens(std::vector<EngineToken> tokens) override {
    const auto open = current();
    if (!open) return;
    std::erase_if(tokens, [&](const EngineToken& token) { return !note(*open, token); });
    if (!tokens.empty()) open->sink->on_tokens(std::move(tokens));
  }

  void on_done(std::vector<EngineAnswer> answers) override {
    if (const auto open = current()) std::exchange(open->sink, nullptr)->on_done(std::move(answers));
  }

  void on_failed(const Error& error) override {
    const auto open = current();
    if (!open) return;
    ++open->attempt;
    if (is_loss(error) && !engine_.failure_) return;  // the next engine goes on with it
    std::exchange(open->sink, nullptr)->on_failed(error);
  }

 private:
  std::shared_ptr<Open> current() const {
    auto open = open_.lock();
    return open && open->sink && open->attempt == attempt_ ? open : nullptr;
  }

  /// Keeps the token for another engine. Returns whether it is new: an answer's rest comes again.
  bool note(Open& open, const EngineToken& token) {
    if (token.id < 0) return open.with_rest.insert(token.answer).second;
    auto& delivered = open.request.delivered;
    if (delivered.size() <= token.answer) delivered.resize(token.answer + 1);
    delivered[token.answer].push_back(token.id);
    ++engine_.tokens_;
    return true;
  }

  LastingEngine& engine_;
  const std::weak_ptr<Open> open_;
  const int attempt_;
};

class LastingEngine::Call final : public EngineCall {
 public:
  explicit Call(std::shared_ptr<Open> open) : open_(std::move(open)) {}
  ~Call() override {
    open_->sink = nullptr;
    open_->call = nullptr;
  }
  void cancel() override {
    open_->is_cancelled = true;
    if (open_->call) open_->call->cancel();
  }
  void pause() override { set_paused(true); }
  void resume() override { set_paused(false); }

 private:
  void set_paused(bool wanted) {
    open_->is_paused = wanted;
    if (open_->call) wanted ? open_->call->pause() : open_->call->resume();
  }

  const std::shared_ptr<Open> open_;  // with the sinks of its attempts
};

LastingEngine::~LastingEngine() { detach(); }

Result<void> LastingEngine::attach(std::unique_ptr<Engine> engine) {
  const EngineFacts& facts = engine->facts();
  const bool is_first = facts_.model.empty();
  const bool is_same = facts.model == facts_.model && facts.vocabulary == facts_.vocabulary;
  if (!is_first && !(is_same && facts.capacity >= facts_.capacity)) return other_engine(facts, facts_);
  detach();
  facts_ = facts;
  engine_ = std::move(engine);
  std::erase_if(open_, [](const std::weak_ptr<Open>& open) { return open.expired(); });
  for (const std::weak_ptr<Open>& weak : open_) {
    if (const auto open = weak.lock(); open && open->sink) send(open);
  }
  for (const std::shared_ptr<Text>& text : texts_) send(text);
  return ok();
}

std::unique_ptr<Engine> LastingEngine::detach() {
  if (engine_ == nullptr) return nullptr;
  for (const std::weak_ptr<Open>& weak : open_) {
    const auto open = weak.lock();
    if (!open) continue;
    ++open->attempt;
    open->call = nullptr;
  }
  for (const std::shared_ptr<Text>& text : texts_) ++text->attempt;
  std::unique_ptr<Engine> engine = std::move(engine_);
  for (const auto& question : std::exchange(questions_, {})) question->fail(waits());
  return engine;
}

void LastingEngine::fail(const Error& error) {
  failure_ = error;
  detach();
  const auto open = open_;  // a sink may open or end others
  for (const std::weak_ptr<Open>& weak : open) {
    const auto one = weak.lock();
    if (one && one->sink) std::exchange(one->sink, nullptr)->on_failed(error);
  }
  for (const std::shared_ptr<Text>& text : std::exchange(texts_, {})) text->done(error);
}

std::unique_ptr<EngineCall> LastingEngine::open(EngineRequest request, std::shared_ptr<EngineSink> sink) {
  const auto open = std::make_shared<Open>();
  if (request.deadline_s) open->deadline = clock_.now() + duration_of(*request.deadline_s);
  open->request = std::move(request);
  open->sink = std::move(sink);
  std::erase_if(open_, [](const std::weak_ptr<Open>& other) { return other.expired(); });
  open_.push_back(open);
  if (failure_) {
    std::exchange(open->sink, nullptr)->on_failed(*failure_);
  } else if (engine_ != nullptr) {
    send(open);
  }
  return std::make_unique<Call>(open);
}

void LastingEngine::send(const std::shared_ptr<Open>& open) {
  EngineRequest request = open->request;
  if (open->deadline) request.deadline_s = std::max(0.0, to_seconds(*open->deadline - clock_.now()));
  open->call = engine_->open(std::move(request), std::make_shared<Sink>(*this, open, ++open->attempt));
  if (open->is_paused) open->call->pause();
  if (open->is_cancelled) open->call->cancel();
}

void LastingEngine::score(std::vector<int32_t> ids, int top, OnScores done) {
  if (failure_) return done(*failure_);
  texts_.push_back(std::make_shared<Text>(Text{std::move(ids), top, std::move(done)}));
  if (engine_ != nullptr) send(texts_.back());
}

void LastingEngine::send(const std::shared_ptr<Text>& text) {
  const auto on_scores = [this, weak = std::weak_ptr<Text>(text),
                          attempt = ++text->attempt](Result<std::vector<EngineScore>> scores) {
    const auto own = weak.lock();
    if (!own || own->attempt != attempt) return;
    if (!scores.has_value() && is_loss(scores.error()) && !failure_) return;  // the next engine scores it
    texts_.remove(own);
    own->done(std::move(scores));
  };
  engine_->score(text->ids, text->top, on_scores);
}

Error LastingEngine::waits() const {
  if (failure_) return *failure_;
  return {ErrorKind::kUnavailable, "[serve] found no engine, expected one: it starts again; ask later"};
}

void LastingEngine::status(OnStatus done) {
  engine_ != nullptr ? engine_->status(asked<EngineStatus>(std::move(done))) : done(waits());
}

void LastingEngine::activity(OnActivity done) {
  engine_ != nullptr ? engine_->activity(asked<EngineActivity>(std::move(done))) : done(waits());
}

void LastingEngine::finish() {
  if (engine_ != nullptr) engine_->finish();
}

}  // namespace lockstep::serve
