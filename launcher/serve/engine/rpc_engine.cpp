#include "launcher/serve/engine/rpc_engine.h"

#include <capnp/rpc-twoparty.h>
#include <fmt/format.h>
#include <kj/async-io.h>

#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "engine/rpc/engine.capnp.h"
#include "launcher/serve/engine/mailbox.h"

namespace lockstep::serve {
namespace {

namespace wire = rpc::wire;

constexpr auto kRetry = std::chrono::milliseconds(25);  // between two attempts to connect

/// The kind with this name; `kInternal` for a name that this version does not have.
ErrorKind kind_of(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::kCancelled); ++i) {
    if (to_string(static_cast<ErrorKind>(i)) == name) return static_cast<ErrorKind>(i);
  }
  return ErrorKind::kInternal;
}

Error error_of(wire::Failure::Reader failure) {
  Error error{kind_of(failure.getKind().cStr()), failure.getMessage().cStr()};
  if (failure.getRank() >= 0) error.origin_rank = failure.getRank();
  return error;
}

Error connection_lost(std::string_view found) {
  return {ErrorKind::kPeerLost,
          fmt::format("[serve] lost the engine: found '{}', expected an open connection; its log says why", found)};
}

std::string string_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

std::optional<float> number_of(float value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

std::vector<EngineCandidate> candidates_of(capnp::List<wire::Candidate>::Reader from) {
  std::vector<EngineCandidate> top;
  top.reserve(from.size());
  for (const auto one : from) top.push_back({one.getId(), one.getLogprob()});
  return top;
}

std::vector<EngineToken> tokens_of(capnp::List<wire::Token>::Reader from) {
  std::vector<EngineToken> tokens;
  tokens.reserve(from.size());
  for (const auto one : from) {
    tokens.push_back({one.getAnswer(), one.getId(), string_of(one.getText()), number_of(one.getLogprob()),
                      candidates_of(one.getTop())});
  }
  return tokens;
}

std::vector<EngineAnswer> answers_of(capnp::List<wire::Answer>::Reader from) {
  std::vector<EngineAnswer> answers;
  for (const auto one : from) {
    EngineAnswer answer{.ids = {},
                        .text = string_of(one.getText()),
                        .reason = string_of(one.getReason()),
                        .cached_tokens = one.getCachedTokens(),
                        .stop_string = string_of(one.getStopString()),
                        .waited_s = one.getWaitedS()};
    for (const int32_t id : one.getIds()) answer.ids.push_back(id);
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<std::vector<EngineScore>> scores_of(wire::Scored::Reader from) {
  if (from.isFailure()) return error_of(from.getFailure());
  std::vector<EngineScore> scores;
  for (const auto one : from.getTokens()) {
    scores.push_back({one.getId(), number_of(one.getLogprob()), candidates_of(one.getTop())});
  }
  return scores;
}

EngineFacts facts_of(wire::Facts::Reader from) {
  return {.model = string_of(from.getModel()),
          .ranks = static_cast<int>(from.getRanks()),
          .slots = from.getSlots(),
          .capacity = from.getCapacity(),
          .vocabulary = from.getVocabulary(),
          .backend = string_of(from.getBackend()),
          .dtype = string_of(from.getDtype())};
}

EngineStatus status_of(wire::Status::Reader from) {
  EngineStatus status{.running = from.getRunning(),
                      .queued = from.getQueued(),
                      .submitted = from.getSubmitted(),
                      .finished = from.getFinished(),
                      .prompt_tokens = from.getPromptTokens(),
                      .new_tokens = from.getNewTokens(),
                      .reused_tokens = from.getReusedTokens(),
                      .steps = from.getSteps()};
  if (!std::isnan(from.getStepAgeS())) status.step_age_s = from.getStepAgeS();
  for (const auto rank : from.getRanks()) status.ranks.push_back(string_of(rank));
  return status;
}

EngineActivity activity_of(wire::Activity::Reader from) {
  EngineActivity activity;
  for (const auto slot : from.getSlots()) {
    activity.slots.push_back({string_of(slot.getState()), slot.getRequest(), slot.getTokens(), slot.getNewTokens()});
  }
  for (const auto step : from.getSteps()) {
    activity.steps.push_back(
        {step.getNumber(), string_of(step.getKind()), step.getRows(), step.getSeconds(), step.getAgeS()});
  }
  for (const auto rank : from.getRanks()) {
    activity.ranks.push_back({string_of(rank.getState()), rank.getResidentBytes()});
  }
  return activity;
}

void write_request(const EngineRequest& from, wire::Request::Builder to) {
  auto ids = to.initIds(static_cast<uint32_t>(from.ids.size()));
  for (uint32_t i = 0; i < ids.size(); ++i) ids.set(i, from.ids[i]);
  auto options = to.initOptions(static_cast<uint32_t>(from.options.size()));
  for (uint32_t i = 0; i < options.size(); ++i) {
    options[i].setName(from.options[i].first.c_str());
    options[i].setValue(from.options[i].second.c_str());
  }
  to.setRandomRow(from.random_row);
  if (from.model_logprobs) to.setModelLogprobs(*from.model_logprobs);
  to.setConstraint(from.constraint.c_str());
  to.setSpecialText(from.special_text);
  to.setPriority(from.priority);
  to.setClient(from.client.c_str());
  if (from.deadline_s) to.setDeadlineS(*from.deadline_s);
}

/// An open request on the loop's thread. Shared between its call and events that are on their way.
struct OpenCall {
  std::shared_ptr<EngineSink> sink;  // null: it has ended, or its caller has given up

  void end(const std::function<void(EngineSink&)>& last) {
    if (const std::shared_ptr<EngineSink> receiver = std::exchange(sink, nullptr)) last(*receiver);
  }
};

/// What the two threads share. It ends when neither uses it any more.
struct Shared {
  explicit Shared(EventLoop& the_loop) : loop(the_loop) {}

  EventLoop& loop;
  Mailbox mailbox;
};

/// An open request on the RPC thread.
struct RemoteCall {
  std::shared_ptr<OpenCall> open;
  kj::Promise<void> sending = nullptr;  // until the engine has opened it
  kj::Maybe<wire::Call::Client> call;
  bool is_paused = false, is_cancelled = false;
  kj::Own<kj::PromiseFulfiller<void>> resumed;  // of the tokens that wait while it is paused

  void resume() {
    is_paused = false;
    if (resumed.get() != nullptr) resumed->fulfill();
    resumed = nullptr;
  }
};

/// The connection, on the RPC thread.
class Client {
 public:
  Client(std::shared_ptr<Shared> shared, kj::Own<kj::AsyncIoStream> stream)
      : shared_(std::move(shared)), stream_(kj::mv(stream)), client_(*stream_) {}

  /// The engine's facts, or why it does not let this process in.
  kj::Promise<Result<EngineFacts>> enter(const std::string& secret) {
    auto request = client_.bootstrap().castAs<wire::Entrance>().enterRequest();
    request.setSecret(kj::arrayPtr(reinterpret_cast<const kj::byte*>(secret.data()), secret.size()));
    return request.send().then([this](auto entry) -> kj::Promise<Result<EngineFacts>> {
      if (entry.isFailure()) return Result<EngineFacts>(error_of(entry.getFailure()));
      engine_ = entry.getEngine();
      return engine_.factsRequest().send().then([](auto got) -> Result<EngineFacts> {
        if (got.getFacts().getVersion() >= wire::VERSION) return facts_of(got.getFacts());
        return Error{ErrorKind::kFailedPrecondition,
                     fmt::format("[serve] cannot use the engine: found version {} of its protocol, expected at least "
                                 "{}; start it with this version of lockstep",
                                 got.getFacts().getVersion(), wire::VERSION)};
      });
    });
  }

  kj::Promise<void> on_disconnect() { return client_.onDisconnect(); }

  void open(uint64_t number, const EngineRequest& from, std::shared_ptr<OpenCall> open);
  void drop(uint64_t number) { calls_.erase(number); }
  void cancel(uint64_t number);
  void pause(uint64_t number, bool wanted);

  /// Sends `request` and calls `done` on the loop's thread with what `read` makes of the response.
  template <typename Request, typename Read, typename Done>
  void ask(Request request, Read read, Done done) {
    const auto shared = shared_;
    tasks_.add(request.send().then(
        [shared, read, done](auto got) { shared->loop.post([done, result = read(got)] { done(result); }); },
        [shared, done](kj::Exception&& failure) {
          shared->loop.post([done, error = connection_lost(failure.getDescription().cStr())] { done(error); });
        }));
  }
  wire::Engine::Client& engine() { return engine_; }

  /// The connection is gone: open requests fail.
  void fail_all(const Error& error) {
    for (auto& [number, call] : calls_) fail(call, error);
    calls_.clear();
  }

 private:
  class Sink;
  struct Ignore final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  };

  void fail(const RemoteCall& call, const Error& error) {
    shared_->loop.post([open = call.open, error] { open->end([&](EngineSink& sink) { sink.on_failed(error); }); });
  }
  RemoteCall* find(uint64_t number) {
    const auto at = calls_.find(number);
    return at == calls_.end() ? nullptr : &at->second;
  }

  std::shared_ptr<Shared> shared_;
  kj::Own<kj::AsyncIoStream> stream_;
  capnp::TwoPartyClient client_;
  wire::Engine::Client engine_ = nullptr;
  std::map<uint64_t, RemoteCall> calls_;
  Ignore ignore_;
  kj::TaskSet tasks_{ignore_};
};

/// Receives the tokens of one request. The engine may keep it longer than the call lives.
class Client::Sink final : public wire::Sink::Server {
 public:
  Sink(Client& client, uint64_t number) : client_(client), number_(number) {}

  kj::Promise<void> tokens(TokensContext context) override {
    RemoteCall* const call = client_.find(number_);
    if (call == nullptr) return kj::READY_NOW;
    client_.shared_->loop.post([open = call->open, tokens = tokens_of(context.getParams().getTokens())]() mutable {
      if (open->sink != nullptr) open->sink->on_tokens(std::move(tokens));
    });
    if (!call->is_paused) return kj::READY_NOW;
    auto waiting = kj::newPromiseAndFulfiller<void>();
    call->resumed = kj::mv(waiting.fulfiller);
    return kj::mv(waiting.promise);
  }

  kj::Promise<void> done(DoneContext context) override {
    RemoteCall* const call = client_.find(number_);
    if (call == nullptr) return kj::READY_NOW;
    client_.shared_->loop.post([open = call->open, answers = answers_of(context.getParams().getAnswers())] {
      open->end([&](EngineSink& sink) { sink.on_done(answers); });
    });
    return kj::READY_NOW;
  }

  kj::Promise<void> failed(FailedContext context) override {
    if (const RemoteCall* const call = client_.find(number_)) {
      client_.fail(*call, error_of(context.getParams().getFailure()));
    }
    return kj::READY_NOW;
  }

 private:
  Client& client_;
  const uint64_t number_;
};

void Client::open(uint64_t number, const EngineRequest& from, std::shared_ptr<OpenCall> open) {
  auto request = engine_.generateRequest();
  write_request(from, request.initRequest());
  request.setSink(kj::heap<Sink>(*this, number));
  RemoteCall& call = calls_[number];
  call.open = std::move(open);
  call.sending = request.send()
                     .then(
                         [this, number](auto opened) {
                           RemoteCall* const own = find(number);
                           if (own == nullptr) return;  // dropping `opened` cancels it
                           if (opened.isFailure()) return fail(*own, error_of(opened.getFailure()));
                           own->call = opened.getCall();
                           if (own->is_cancelled) cancel(number);
                         },
                         [this, number](kj::Exception&& failure) {
                           const RemoteCall* const own = find(number);
                           if (own != nullptr) fail(*own, connection_lost(failure.getDescription().cStr()));
                         })
                     .eagerlyEvaluate(nullptr);
}

void Client::cancel(uint64_t number) {
  RemoteCall* const call = find(number);
  if (call == nullptr) return;
  call->is_cancelled = true;
  KJ_IF_MAYBE (remote, call->call) tasks_.add(remote->cancelRequest().send().ignoreResult());
}

void Client::pause(uint64_t number, bool wanted) {
  RemoteCall* const call = find(number);
  if (call == nullptr) return;
  call->is_paused = wanted;
  if (!wanted) call->resume();
}

/// The thread of a connection. Functions that are posted to it get the client, if there is one.
class RpcThread {
 public:
  using Done = std::function<void(Result<EngineFacts>)>;

  RpcThread(EventLoop& loop, Connecting connecting)
      : shared_(std::make_shared<Shared>(loop)), connecting_(std::move(connecting)) {}
  ~RpcThread() {
    shared_->mailbox.close();
    if (thread_.joinable()) thread_.join();
  }
  RpcThread(const RpcThread&) = delete;
  RpcThread& operator=(const RpcThread&) = delete;

  /// `done` and `lost` are called on the loop's thread.
  void start(Done done, std::function<void(const Error&)> lost) {
    thread_ = std::thread([this, done = std::move(done), lost = std::move(lost)] { run(done, lost); });
  }

  template <typename Call>
  void post(Call call) {
    shared_->mailbox.post([this, call = std::move(call)] {
      if (client_ != nullptr) call(*client_);
    });
  }

 private:
  void run(const Done& done, const std::function<void(const Error&)>& lost) {
    kj::AsyncIoContext io = kj::setupAsyncIo();
    auto serving = connect(io, done)
                       .then([&]() -> kj::Promise<void> {
                         if (client_ == nullptr) return kj::NEVER_DONE;
                         return client_->on_disconnect();
                       })
                       .then([&] {
                         const Error error = connection_lost("end of the connection");
                         client_->fail_all(error);
                         shared_->loop.post([lost, error] { lost(error); });
                       })
                       .eagerlyEvaluate([](kj::Exception&&) {});
    shared_->mailbox.run().wait(io.waitScope);
    client_ = nullptr;
  }

  kj::Promise<void> connect(kj::AsyncIoContext& io, const Done& done) {
    const TimePoint end = std::chrono::steady_clock::now() + connecting_.limit;
    return attempt(io, end).then(
        [this, &done](Result<EngineFacts> facts) {
          if (!facts.has_value()) client_ = nullptr;
          shared_->loop.post([done, facts = std::move(facts)] { done(facts); });
        },
        [this, &done](kj::Exception&& failure) {
          client_ = nullptr;
          const Error error{
              ErrorKind::kUnavailable,
              fmt::format("[serve] cannot reach the engine: found '{}', expected an engine that serves "
                          "within {:.0f} s; its log says why",
                          failure.getDescription().cStr(), std::chrono::duration<double>(connecting_.limit).count())};
          shared_->loop.post([done, error] { done(error); });
        });
  }

  kj::Promise<Result<EngineFacts>> attempt(kj::AsyncIoContext& io, TimePoint end) {
    const EngineAddress& address = connecting_.address;
    auto& network = io.provider->getNetwork();
    auto parsed = address.socket.empty() ? network.parseAddress(address.host.c_str(), address.port)
                                         : network.parseAddress(kj::str("unix:", address.socket.c_str()));
    return parsed.then([](kj::Own<kj::NetworkAddress> to) { return to->connect().attach(kj::mv(to)); })
        .then(
            [this, &address](kj::Own<kj::AsyncIoStream> stream) {
              client_ = std::make_unique<Client>(shared_, kj::mv(stream));
              return client_->enter(address.secret);
            },
            [this, &io, end](kj::Exception&& failure) -> kj::Promise<Result<EngineFacts>> {
              if (std::chrono::steady_clock::now() >= end) return kj::mv(failure);
              return io.provider->getTimer()
                  .afterDelay(std::chrono::nanoseconds(kRetry).count() * kj::NANOSECONDS)
                  .then([this, &io, end] { return attempt(io, end); });
            });
  }

  std::shared_ptr<Shared> shared_;  // with functions that are still in the loop
  const Connecting connecting_;
  std::unique_ptr<Client> client_;  // on the thread; null: not connected
  std::thread thread_;
};

class RpcCall final : public EngineCall {
 public:
  RpcCall(RpcThread& thread, uint64_t number, std::shared_ptr<OpenCall> open)
      : thread_(thread), number_(number), open_(std::move(open)) {}
  ~RpcCall() override {
    open_->sink = nullptr;
    thread_.post([number = number_](Client& client) { client.drop(number); });
  }
  void cancel() override {
    thread_.post([number = number_](Client& client) { client.cancel(number); });
  }
  void pause() override {
    thread_.post([number = number_](Client& client) { client.pause(number, true); });
  }
  void resume() override {
    thread_.post([number = number_](Client& client) { client.pause(number, false); });
  }

 private:
  RpcThread& thread_;
  const uint64_t number_;
  std::shared_ptr<OpenCall> open_;  // with events that are on their way
};

class RpcEngine final : public Engine {
 public:
  RpcEngine(EventLoop& loop, std::unique_ptr<RpcThread> thread, EngineFacts facts)
      : loop_(loop), thread_(std::move(thread)), facts_(std::move(facts)) {}

  const EngineFacts& facts() const override { return facts_; }

  std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) override {
    const auto open = std::make_shared<OpenCall>(OpenCall{std::move(sink)});
    const uint64_t number = ++opened_;
    if (lost_) {
      loop_.post([open, error = *lost_] { open->end([&](EngineSink& receiver) { receiver.on_failed(error); }); });
    } else {
      thread_->post(
          [number, request = std::move(request), open](Client& client) { client.open(number, request, open); });
    }
    return std::make_unique<RpcCall>(*thread_, number, open);
  }

  void score(std::vector<int32_t> ids, int top, OnScores done) override {
    if (answer_lost<std::vector<EngineScore>>(done)) return;
    thread_->post([ids = std::move(ids), top, done = std::move(done)](Client& client) {
      auto request = client.engine().scoreRequest();
      auto to = request.initIds(static_cast<uint32_t>(ids.size()));
      for (uint32_t i = 0; i < to.size(); ++i) to.set(i, ids[i]);
      request.setTop(static_cast<uint32_t>(top));
      client.ask(
          kj::mv(request), [](auto& got) { return scores_of(got.getScored()); }, done);
    });
  }

  void status(OnStatus done) override {
    if (answer_lost<EngineStatus>(done)) return;
    thread_->post([done = std::move(done)](Client& client) {
      client.ask(
          client.engine().statusRequest(), [](auto& got) -> Result<EngineStatus> { return status_of(got.getStatus()); },
          done);
    });
  }

  void activity(OnActivity done) override {
    if (answer_lost<EngineActivity>(done)) return;
    thread_->post([done = std::move(done)](Client& client) {
      client.ask(
          client.engine().activityRequest(),
          [](auto& got) -> Result<EngineActivity> { return activity_of(got.getActivity()); }, done);
    });
  }

  void finish() override {
    thread_->post([](Client& client) {
      client.ask(
          client.engine().finishRequest(), [](auto&) { return 0; }, [](const Result<int>&) {});
    });
  }

  void note_lost(const Error& error) { lost_ = error; }

 private:
  /// Whether the connection is lost, so that `done` gets the reason.
  template <typename T, typename Done>
  bool answer_lost(const Done& done) {
    if (!lost_) return false;
    loop_.post([done, error = *lost_] { done(Result<T>(error)); });
    return true;
  }

  EventLoop& loop_;
  std::unique_ptr<RpcThread> thread_;
  const EngineFacts facts_;
  std::optional<Error> lost_;
  uint64_t opened_ = 0;
};

class Attempt final : public Connection {
 public:
  Attempt(EventLoop& loop, const Connecting& connecting) : state_(std::make_shared<State>()) {
    state_->thread = std::make_unique<RpcThread>(loop, connecting);
    const std::weak_ptr<State> weak = state_;  // events may come after the end of the attempt
    state_->thread->start(
        [weak, &loop, done = connecting.done](const Result<EngineFacts>& facts) {
          const auto state = weak.lock();
          if (state == nullptr) return;
          if (!facts.has_value()) return done(facts.error());
          auto engine = std::make_unique<RpcEngine>(loop, std::move(state->thread), facts.value());
          state->engine = engine.get();
          done(Result<std::unique_ptr<Engine>>(std::move(engine)));
        },
        [weak, lost = connecting.on_lost](const Error& error) {
          const auto state = weak.lock();
          if (state == nullptr) return;
          state->engine->note_lost(error);
          lost(error);
        });
  }

 private:
  struct State {
    std::unique_ptr<RpcThread> thread;  // until the engine has it
    RpcEngine* engine = nullptr;
  };
  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Connection> connect(EventLoop& loop, Connecting connecting) {
  return std::make_unique<Attempt>(loop, connecting);
}

}  // namespace lockstep::serve
