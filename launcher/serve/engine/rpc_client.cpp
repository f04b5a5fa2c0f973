#include "launcher/serve/engine/rpc_client.h"

#include <fmt/format.h>

namespace lockstep::serve {

Error connection_lost(std::string_view found) {
  return {ErrorKind::kPeerLost,
          fmt::format("[serve] lost the engine: found '{}', expected an open connection; its log says why", found)};
}

/// Receives the tokens of one request. The engine may keep it longer than the call lives.
class RpcClient::Sink final : public wire::Sink::Server {
 public:
  Sink(RpcClient& client, uint64_t number) : client_(client), number_(number) {}

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
  RpcClient& client_;
  const uint64_t number_;
};

kj::Promise<Result<EngineFacts>> RpcClient::enter(const std::string& secret) {
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

void RpcClient::open(uint64_t number, const EngineRequest& from, std::shared_ptr<OpenCall> open) {
  auto request = engine_.generateRequest();
  write_request(from, request.initRequest());
  request.setSink(kj::heap<Sink>(*this, number));
  RemoteCall& call = calls_[number];
  call.open = std::move(open);
  call.tag = from.tag;
  call.sending = request.send()
                     .then(
                         [this, number](auto opened) {
                           RemoteCall* const own = find(number);
                           if (own == nullptr) return;  // dropping `opened` cancels it
                           if (opened.isFailure()) return fail(*own, error_of(opened.getFailure()));
                           own->call = opened.getCall();
                           own->number = opened.getNumber();
                           if (own->is_cancelled) cancel(number);
                         },
                         [this, number](kj::Exception&& failure) {
                           const RemoteCall* const own = find(number);
                           if (own != nullptr) fail(*own, connection_lost(failure.getDescription().cStr()));
                         })
                     .eagerlyEvaluate(nullptr);
}

void RpcClient::cancel(uint64_t number) {
  RemoteCall* const call = find(number);
  if (call == nullptr) return;
  call->is_cancelled = true;
  KJ_IF_MAYBE (remote, call->call) tasks_.add(remote->cancelRequest().send().ignoreResult());
}

void RpcClient::pause(uint64_t number, bool wanted) {
  RemoteCall* const call = find(number);
  if (call == nullptr) return;
  call->is_paused = wanted;
  if (!wanted) call->resume();
}

void RpcClient::score(uint64_t number, const std::vector<int32_t>& ids, int top, std::shared_ptr<OpenText> open) {
  auto request = engine_.scoreRequest();
  auto to = request.initIds(static_cast<uint32_t>(ids.size()));
  for (uint32_t i = 0; i < to.size(); ++i) to.set(i, ids[i]);
  request.setTop(static_cast<uint32_t>(top));
  RemoteText& text = texts_[number];
  text.open = open;
  text.asking = request.send()
                    .then([this, open](auto got) { answer(open, scores_of(got.getScored())); },
                          [this, open](kj::Exception&& failure) {
                            answer(open, connection_lost(failure.getDescription().cStr()));
                          })
                    .eagerlyEvaluate(nullptr);
}

EngineActivity RpcClient::tagged(EngineActivity activity) const {
  std::map<int64_t, uint64_t> tags;  // by the engine's numbers
  for (const auto& [own, call] : calls_) {
    if (call.number >= 0) tags.emplace(call.number, call.tag);
  }
  for (EngineActivity::Slot& slot : activity.slots) {
    if (const auto at = tags.find(slot.request); at != tags.end()) slot.tag = at->second;
  }
  return activity;
}

}  // namespace lockstep::serve
