#include "launcher/serve/engine/rpc_engine.h"

#include <fmt/format.h>
#include <kj/async-io.h>

#include <optional>
#include <thread>
#include <utility>

#include "launcher/serve/engine/rpc_client.h"

namespace lockstep::serve {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(25);  // between two attempts to connect

/// The thread of a connection. Functions that are posted to it get the client, if there is one.
class RpcThread {
 public:
  using Done = std::function<void(Result<EngineFacts>)>;

  RpcThread(EventLoop& loop, Connecting connecting)
      : shared_(std::make_shared<RpcShared>(loop)), connecting_(std::move(connecting)) {}
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
          const Error error{ErrorKind::kUnavailable,
                            fmt::format("[serve] cannot reach the engine: found '{}', expected an engine that serves "
                                        "within {:.0f} s; its log says why",
                                        failure.getDescription().cStr(), to_seconds(connecting_.limit))};
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
              client_ = std::make_unique<RpcClient>(shared_, kj::mv(stream));
              return client_->enter(address.secret);
            },
            [this, &io, end](kj::Exception&& failure) -> kj::Promise<Result<EngineFacts>> {
              if (std::chrono::steady_clock::now() >= end) return kj::mv(failure);
              return io.provider->getTimer()
                  .afterDelay(std::chrono::nanoseconds(kRetry).count() * kj::NANOSECONDS)
                  .then([this, &io, end] { return attempt(io, end); });
            });
  }

  std::shared_ptr<RpcShared> shared_;  // with functions that are still in the loop
  const Connecting connecting_;
  std::unique_ptr<RpcClient> client_;  // on the thread; null: not connected
  std::thread thread_;
};

class RpcCall final : public EngineCall {
 public:
  RpcCall(RpcThread& thread, uint64_t number, std::shared_ptr<OpenCall> open)
      : thread_(thread), number_(number), open_(std::move(open)) {}
  ~RpcCall() override {
    open_->sink = nullptr;
    thread_.post([number = number_](RpcClient& client) { client.drop(number); });
  }
  void cancel() override {
    thread_.post([number = number_](RpcClient& client) { client.cancel(number); });
  }
  void pause() override {
    thread_.post([number = number_](RpcClient& client) { client.pause(number, true); });
  }
  void resume() override {
    thread_.post([number = number_](RpcClient& client) { client.pause(number, false); });
  }

 private:
  RpcThread& thread_;
  const uint64_t number_;
  std::shared_ptr<OpenCall> open_;  // with events that are on their way
};

class RpcScoring final : public EngineScoring {
 public:
  RpcScoring(RpcThread& thread, uint64_t number, std::shared_ptr<OpenText> open)
      : thread_(thread), number_(number), open_(std::move(open)) {}
  ~RpcScoring() override {
    open_->done = nullptr;
    thread_.post([number = number_](RpcClient& client) { client.drop_score(number); });
  }

 private:
  RpcThread& thread_;
  const uint64_t number_;
  std::shared_ptr<OpenText> open_;  // with the answer on its way
};

/// Why a connection is lost, noted on the loop's thread; shared because an engine may end before its connection.
using Loss = std::optional<Error>;

class RpcEngine final : public Engine {
 public:
  RpcEngine(EventLoop& loop, std::unique_ptr<RpcThread> thread, EngineFacts facts, std::shared_ptr<const Loss> loss)
      : loop_(loop), thread_(std::move(thread)), facts_(std::move(facts)), loss_(std::move(loss)) {}

  const EngineFacts& facts() const override { return facts_; }

  std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) override {
    const auto open = std::make_shared<OpenCall>(OpenCall{std::move(sink)});
    const uint64_t number = ++opened_;
    if (*loss_) {
      loop_.post([open, error = **loss_] { open->end([&](EngineSink& receiver) { receiver.on_failed(error); }); });
    } else {
      thread_->post(
          [number, request = std::move(request), open](RpcClient& client) { client.open(number, request, open); });
    }
    return std::make_unique<RpcCall>(*thread_, number, open);
  }

  std::unique_ptr<EngineScoring> score(std::vector<int32_t> ids, int top, OnScores done) override {
    const auto open = std::make_shared<OpenText>(OpenText{std::move(done)});
    const uint64_t number = ++opened_;
    if (*loss_) {
      loop_.post([open, error = **loss_] { open->end(error); });
    } else {
      thread_->post(
          [number, ids = std::move(ids), top, open](RpcClient& client) { client.score(number, ids, top, open); });
    }
    return std::make_unique<RpcScoring>(*thread_, number, open);
  }

  void status(OnStatus done) override {
    if (answer_lost<EngineStatus>(done)) return;
    thread_->post([done = std::move(done)](RpcClient& client) {
      client.ask(
          client.engine().statusRequest(), [](auto& got) -> Result<EngineStatus> { return status_of(got.getStatus()); },
          done);
    });
  }

  void activity(OnActivity done) override {
    if (answer_lost<EngineActivity>(done)) return;
    thread_->post([done = std::move(done)](RpcClient& client) {
      client.ask(
          client.engine().activityRequest(),
          [&client](auto& got) -> Result<EngineActivity> { return client.tagged(activity_of(got.getActivity())); },
          done);
    });
  }

  void finish() override {
    thread_->post([](RpcClient& client) {
      client.ask(
          client.engine().finishRequest(), [](auto&) { return 0; }, [](const Result<int>&) {});
    });
  }

 private:
  /// Whether the connection is lost, so that `done` gets the reason.
  template <typename T, typename Done>
  bool answer_lost(const Done& done) {
    if (!*loss_) return false;
    loop_.post([done, error = **loss_] { done(Result<T>(error)); });
    return true;
  }

  EventLoop& loop_;
  std::unique_ptr<RpcThread> thread_;
  const EngineFacts facts_;
  const std::shared_ptr<const Loss> loss_;
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
          done(Result<std::unique_ptr<Engine>>(
              std::make_unique<RpcEngine>(loop, std::move(state->thread), facts.value(), state->loss)));
        },
        [weak, lost = connecting.on_lost](const Error& error) {
          const auto state = weak.lock();
          if (state == nullptr) return;
          *state->loss = error;
          lost(error);
        });
  }

 private:
  struct State {
    std::unique_ptr<RpcThread> thread;  // until the engine has it
    std::shared_ptr<Loss> loss = std::make_shared<Loss>();
  };
  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Connection> connect(EventLoop& loop, Connecting connecting) {
  return std::make_unique<Attempt>(loop, connecting);
}

}  // namespace lockstep::serve
