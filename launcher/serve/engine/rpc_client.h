// A connection to an engine and its open requests, on the RPC thread. Private to this folder.
//
//   loop's thread                                       RPC thread
//   RpcEngine, RpcCall ──functions, by the mailbox──►   RpcClient ──requests──► engine
//   EngineSink        ◄──events, by the loop─────────   its sinks ◄──tokens────
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/serve/engine/engine.h"
#include "launcher/serve/engine/mailbox.h"
#include "launcher/serve/engine/wire_values.h"
#include "launcher/serve/http/event_loop.h"

namespace lockstep::serve {

/// The error of requests that were open when the connection ended.
Error connection_lost(std::string_view found);

/// An open request on the loop's thread. RpcShared between its call and events that are on their way.
struct OpenCall {
  std::shared_ptr<EngineSink> sink;  // null: it has ended, or its caller has given up

  void end(const std::function<void(EngineSink&)>& last) {
    if (const std::shared_ptr<EngineSink> receiver = std::exchange(sink, nullptr)) last(*receiver);
  }
};

/// A text that is scored, on the loop's thread. RpcShared between its handle and its answer on the way.
struct OpenText {
  Engine::OnScores done;  // null: it has been called, or its caller has given up

  void end(Result<std::vector<EngineScore>> scores) {
    if (const Engine::OnScores receiver = std::exchange(done, nullptr)) receiver(std::move(scores));
  }
};

/// What the two threads share. It ends when neither uses it any more.
struct RpcShared {
  explicit RpcShared(EventLoop& the_loop) : loop(the_loop) {}

  EventLoop& loop;
  Mailbox mailbox;
};

/// An open request on the RPC thread.
struct RemoteCall {
  std::shared_ptr<OpenCall> open;
  uint64_t tag = 0;
  int64_t number = -1;                  // the engine's; −1: it has not opened it yet
  kj::Promise<void> sending = nullptr;  // until then
  kj::Maybe<wire::Call::Client> call;
  bool is_paused = false, is_cancelled = false;
  kj::Own<kj::PromiseFulfiller<void>> resumed;  // of the tokens that wait while it is paused

  void resume() {
    is_paused = false;
    if (resumed.get() != nullptr) resumed->fulfill();
    resumed = nullptr;
  }
};

/// A text that is scored, on the RPC thread. Dropping it cancels it.
struct RemoteText {
  std::shared_ptr<OpenText> open;
  kj::Promise<void> asking = nullptr;
};

/// The connection, on the RPC thread.
class RpcClient {
 public:
  RpcClient(std::shared_ptr<RpcShared> shared, kj::Own<kj::AsyncIoStream> stream)
      : shared_(std::move(shared)), stream_(kj::mv(stream)), client_(*stream_) {}

  /// The engine's facts, or why it does not let this process in.
  kj::Promise<Result<EngineFacts>> enter(const std::string& secret);

  kj::Promise<void> on_disconnect() { return client_.onDisconnect(); }

  void open(uint64_t number, const EngineRequest& from, std::shared_ptr<OpenCall> open);
  void drop(uint64_t number) { calls_.erase(number); }
  void cancel(uint64_t number);
  void pause(uint64_t number, bool wanted);
  void score(uint64_t number, const std::vector<int32_t>& ids, int top, std::shared_ptr<OpenText> open);
  void drop_score(uint64_t number) { texts_.erase(number); }
  /// With the tags of this client's requests.
  EngineActivity tagged(EngineActivity activity) const;

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

  /// The connection is gone: open requests fail, and so do texts.
  void fail_all(const Error& error) {
    for (auto& [number, call] : calls_) fail(call, error);
    for (auto& [number, text] : texts_) answer(text.open, error);
    calls_.clear();
    texts_.clear();
  }

 private:
  class Sink;
  struct Ignore final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  };

  void fail(const RemoteCall& call, const Error& error) {
    shared_->loop.post([open = call.open, error] { open->end([&](EngineSink& sink) { sink.on_failed(error); }); });
  }
  void answer(const std::shared_ptr<OpenText>& open, Result<std::vector<EngineScore>> scores) {
    shared_->loop.post([open, scores = std::move(scores)] { open->end(scores); });
  }
  RemoteCall* find(uint64_t number) {
    const auto at = calls_.find(number);
    return at == calls_.end() ? nullptr : &at->second;
  }

  std::shared_ptr<RpcShared> shared_;
  kj::Own<kj::AsyncIoStream> stream_;
  capnp::TwoPartyClient client_;
  wire::Engine::Client engine_ = nullptr;
  std::map<uint64_t, RemoteCall> calls_;
  std::map<uint64_t, RemoteText> texts_;
  Ignore ignore_;
  kj::TaskSet tasks_{ignore_};
};

}  // namespace lockstep::serve
