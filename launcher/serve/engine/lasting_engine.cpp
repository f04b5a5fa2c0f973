#include "launcher/serve/engine/lasting_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "launcher/serve/engine/combined.h"

namespace lockstep::serve {
namespace {

/// Whether the engine has ended, not the request alone.
bool is_loss(const Error& error) { return error.kind == ErrorKind::kPeerLost; }

Error other_engine(const EngineFacts& found, const EngineFacts& expected) {
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[serve] cannot go on with another engine: found {} with the identity {} and slots of {} tokens, "
                  "expected {} with {} and {} tokens, as before: other weights, options or processors give other "
                  "answers; start the server again",
                  found.model, found.identity, found.capacity, expected.model, expected.identity, expected.capacity)};
}

/// The slots that a request needs: each answer, and each beam, is a sequence.
size_t sequences_of(const EngineRequest& request) {
  size_t most = 1;
  for (const auto& [name, value] : request.options) {
    size_t number = 1;
    const bool counts = name == "num_return_sequences" || name == "num_beams";
    if (counts && std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc()) {
      most = std::max(most, number);
    }
  }
  return most;
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
  std::optional<size_t> replica;     // that has it; none: it waits for an engine
  std::unique_ptr<EngineCall> call;  // of that replica's engine
};

/// A text to score. Shared by its handle and its attempts.
struct LastingEngine::Text {
  std::vector<int32_t> ids;
  int top = 0;
  OnScores done;
  int attempt = 0;  // as of Open, and so is `replica`
  std::optional<size_t> replica;
  std::unique_ptr<EngineScoring> scoring;  // of that replica's engine
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
std::function<void(Result<T>)> LastingEngine::asked(size_t replica, std::function<void(Result<T>)> done) {
  const auto question = std::make_shared<QuestionOf<T>>(std::move(done));
  places_[replica].questions.push_back(question);
  return [this, replica, weak = std::weak_ptr<QuestionOf<T>>(question)](Result<T> answer) {
    const auto own = weak.lock();
    if (!own) return;
    places_[replica].questions.remove(own);
    own->done(std::move(answer));
  };
}

/// One question to several replicas.
template <typename T>
struct LastingEngine::Poll {
  std::vector<T> answers;  // by replica; of one that has not answered, nothing
  size_t missing = 0, answered = 0;
  std::function<void(Result<T>)> done;
};

template <typename T, typename Ask>
void LastingEngine::ask_all(std::function<void(Result<T>)> done, const Ask& ask) {
  const size_t asked = attached();
  if (asked == 0) return done(waits());
  const auto poll = std::make_shared<Poll<T>>(Poll<T>{std::vector<T>(places_.size()), asked, 0, std::move(done)});
  for (size_t replica = 0; replica < places_.size(); ++replica) {
    if (!is_attached(replica)) continue;
    ask(replica, [this, replica, poll](Result<T> answer) {
      if (answer.has_value()) {
        poll->answers[replica] = std::move(answer.value());
        ++poll->answered;
      }
      if (--poll->missing > 0) return;
      poll->answered > 0 ? poll->done(combined(poll->answers)) : poll->done(waits());
    });
  }
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
    if (open.replica) ++engine_.places_[*open.replica].tokens;
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

class LastingEngine::Scoring final : public EngineScoring {
 public:
  Scoring(std::weak_ptr<Texts> texts, std::shared_ptr<Text> text) : texts_(std::move(texts)), text_(std::move(text)) {}
  ~Scoring() override {
    if (const auto texts = texts_.lock()) texts->remove(text_);
    text_->scoring = nullptr;
  }

 private:
  const std::weak_ptr<Texts> texts_;  // a handle may outlive the engine
  const std::shared_ptr<Text> text_;
};

LastingEngine::~LastingEngine() { close(); }

void LastingEngine::close() {
  failure_ = waits();  // no replica goes on with another one's requests
  for (size_t replica = 0; replica < places_.size(); ++replica) detach(replica);
}

size_t LastingEngine::attached() const {
  return static_cast<size_t>(
      std::ranges::count_if(places_, [](const Place& place) { return place.engine != nullptr; }));
}

Result<void> LastingEngine::attach(std::unique_ptr<Engine> engine, size_t replica) {
  const EngineFacts& facts = engine->facts();
  const bool is_first = facts_.model.empty();
  const bool is_same = facts.model == facts_.model && facts.identity == facts_.identity;
  if (!is_first && !(is_same && facts.capacity >= facts_.capacity)) return other_engine(facts, facts_);
  facts_ = facts;
  if (places_.size() <= replica) places_.resize(replica + 1);
  const std::unique_ptr<Engine> before = std::exchange(places_[replica].engine, std::move(engine));
  routing_.forget(replica);
  count_slots();
  for (const auto& question : std::exchange(places_[replica].questions, {})) question->fail(waits());
  for (const std::weak_ptr<Open>& weak : std::list(open_)) {
    const auto open = weak.lock();
    if (!open || open->replica != replica) continue;
    if (open->sink) {
      send(open, replica);
    } else {
      open->call = nullptr;  // it is the other engine's
    }
  }
  for (const std::shared_ptr<Text>& text : std::list(*texts_)) {
    if (text->replica == replica) send(text, replica);
  }
  send_waiting();
  return ok();
}

std::unique_ptr<Engine> LastingEngine::detach(size_t replica) {
  if (!is_attached(replica)) return nullptr;
  for (const std::weak_ptr<Open>& weak : open_) {
    const auto open = weak.lock();
    if (!open || open->replica != replica) continue;
    ++open->attempt;
    open->call = nullptr;
    open->replica.reset();
  }
  for (const std::shared_ptr<Text>& text : *texts_) {
    if (text->replica != replica) continue;
    ++text->attempt;
    text->scoring = nullptr;
    text->replica.reset();
  }
  std::unique_ptr<Engine> engine = std::move(places_[replica].engine);
  count_slots();
  for (const auto& question : std::exchange(places_[replica].questions, {})) question->fail(waits());
  send_waiting();
  return engine;
}

void LastingEngine::fail(const Error& error) {
  failure_ = error;
  for (size_t replica = 0; replica < places_.size(); ++replica) detach(replica);
  const auto open = open_;  // a sink may open or end others
  for (const std::weak_ptr<Open>& weak : open) {
    const auto one = weak.lock();
    if (one && one->sink) std::exchange(one->sink, nullptr)->on_failed(error);
  }
  for (const std::shared_ptr<Text>& text : std::exchange(*texts_, {})) text->done(error);
}

/// The slots of all replicas that serve; those of the last one otherwise.
void LastingEngine::count_slots() {
  int64_t slots = 0;
  for (const Place& place : places_) slots += place.engine != nullptr ? place.engine->facts().slots : 0;
  if (slots > 0) facts_.slots = slots;
}

/// What no engine has goes to one that serves, in the order of its arrival.
void LastingEngine::send_waiting() {
  if (failure_ || attached() == 0) return;
  std::erase_if(open_, [](const std::weak_ptr<Open>& open) { return open.expired(); });
  for (const std::weak_ptr<Open>& weak : std::list(open_)) {
    const auto open = weak.lock();
    if (open && open->sink && !open->replica) send(open, choose(open->request.ids));
  }
  for (const std::shared_ptr<Text>& text : std::list(*texts_)) {
    if (!text->replica) send(text, choose(text->ids));
  }
}

size_t LastingEngine::choose(const std::vector<int32_t>& ids) {
  if (places_.size() == 1) return 0;
  std::vector<ReplicaLoad> loads;
  for (const Place& place : places_) {
    ReplicaLoad load{.serves = place.engine != nullptr};
    if (load.serves) {
      const EngineFacts& facts = place.engine->facts();
      load.slots = static_cast<size_t>(facts.slots);
      load.cache_tokens = static_cast<size_t>(facts.slots * facts.capacity);
    }
    loads.push_back(load);
  }
  for (const std::weak_ptr<Open>& weak : open_) {
    const auto open = weak.lock();
    if (open && open->sink && open->replica) loads[*open->replica].sequences += sequences_of(open->request);
  }
  for (const std::shared_ptr<Text>& text : *texts_) {
    if (text->replica) ++loads[*text->replica].sequences;
  }
  return routing_.choose(ids, loads);
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
  } else if (attached() > 0) {
    send(open, choose(open->request.ids));
  }
  return std::make_unique<Call>(open);
}

void LastingEngine::send(const std::shared_ptr<Open>& open, size_t replica) {
  EngineRequest request = open->request;
  if (open->deadline) request.deadline_s = std::max(0.0, to_seconds(*open->deadline - clock_.now()));
  open->replica = replica;
  const auto sink = std::make_shared<Sink>(*this, open, ++open->attempt);
  open->call = places_[replica].engine->open(std::move(request), sink);
  if (open->is_paused) open->call->pause();
  if (open->is_cancelled) open->call->cancel();
}

std::unique_ptr<EngineScoring> LastingEngine::score(std::vector<int32_t> ids, int top, OnScores done) {
  const auto text = std::make_shared<Text>(Text{std::move(ids), top, std::move(done)});
  if (failure_) {
    text->done(*failure_);
  } else {
    texts_->push_back(text);
    if (attached() > 0) send(text, choose(text->ids));
  }
  return std::make_unique<Scoring>(texts_, text);
}

void LastingEngine::send(const std::shared_ptr<Text>& text, size_t replica) {
  const auto on_scores = [this, weak = std::weak_ptr<Text>(text),
                          attempt = ++text->attempt](Result<std::vector<EngineScore>> scores) {
    const auto own = weak.lock();
    if (!own || own->attempt != attempt) return;
    if (!scores.has_value() && is_loss(scores.error()) && !failure_) return;  // the next engine scores it
    texts_->remove(own);
    own->scoring = nullptr;  // the engine may end before the text's handle
    own->done(std::move(scores));
  };
  text->replica = replica;
  text->scoring = places_[replica].engine->score(text->ids, text->top, on_scores);
}

Error LastingEngine::waits() const {
  if (failure_) return *failure_;
  return {ErrorKind::kUnavailable, "[serve] found no engine, expected one: it starts again; ask later"};
}

void LastingEngine::status(size_t replica, OnStatus done) {
  if (!is_attached(replica)) return done(waits());
  places_[replica].engine->status(asked<EngineStatus>(replica, std::move(done)));
}

void LastingEngine::activity(size_t replica, OnActivity done) {
  if (!is_attached(replica)) return done(waits());
  places_[replica].engine->activity(asked<EngineActivity>(replica, std::move(done)));
}

void LastingEngine::status(OnStatus done) {
  ask_all<EngineStatus>(std::move(done), [this](size_t replica, OnStatus one) { status(replica, std::move(one)); });
}

void LastingEngine::activity(OnActivity done) {
  ask_all<EngineActivity>(std::move(done),
                          [this](size_t replica, OnActivity one) { activity(replica, std::move(one)); });
}

void LastingEngine::finish() {
  for (size_t replica = 0; replica < places_.size(); ++replica) finish(replica);
}

void LastingEngine::finish(size_t replica) {
  if (is_attached(replica)) places_[replica].engine->finish();
}

}  // namespace lockstep::serve
