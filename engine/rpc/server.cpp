#include "engine/rpc/server.h"

#include <capnp/rpc-twoparty.h>
#include <fmt/format.h>
#include <kj/async-io.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/rpc/client_connections.h"
#include "engine/rpc/constraint_worker.h"
#include "engine/rpc/listening.h"
#include "engine/rpc/wire.h"
#include "runtime/core/secret.h"

namespace lockstep::rpc {
namespace {

/// The state that the server's objects share.
struct Service {
  const Group& group;
  Engine& engine;
  const Model& model;
  const std::string secret;
  const std::vector<RpcAddress> replicas;
  ConstraintWorker constraints;
  std::mutex mutex = {};
  std::condition_variable changed = {};
  bool is_finishing = false;
  int deliveries = 0;  // whose end has not reached its client
};

/// Counts a delivery while it lives.
class Counted {
 public:
  explicit Counted(Service& service) : service_(service) { add(1); }
  ~Counted() { add(-1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  void add(int change) {
    const std::lock_guard lock(service_.mutex);
    service_.deliveries += change;
    service_.changed.notify_all();
  }

  Service& service_;
};

bool is_secret(const std::string& secret, capnp::Data::Reader given) {
  const auto found = given.asChars();
  return is_equal_secret({found.begin(), found.size()}, secret);
}

/// Sends what the engine delivers until the request has ended.
class Delivery {
 public:
  Delivery(wire::Sink::Client sink, std::shared_ptr<Outbox> outbox, RequestHandle handle)
      : sink_(kj::mv(sink)), outbox_(std::move(outbox)), handle_(std::move(handle)) {}

  kj::Promise<void> run() {
    return outbox_->wait().then([this]() -> kj::Promise<void> {
      Parcel parcel = outbox_->take();
      kj::Promise<void> sent = parcel.tokens.empty() ? kj::Promise<void>(kj::READY_NOW) : send(parcel.tokens);
      if (!parcel.end) return sent.then([this] { return run(); });
      return sent.then([this, end = std::move(*parcel.end)] { return finish(end); });
    });
  }

 private:
  kj::Promise<void> send(const std::vector<SentToken>& tokens) {
    auto request = sink_.tokensRequest();
    write_tokens(tokens, request.initTokens(static_cast<uint32_t>(tokens.size())));
    return request.send();  // resolves when the client may get more
  }

  kj::Promise<void> finish(const Result<std::vector<Answer>>& end) {
    if (!end.has_value()) {
      auto request = sink_.failedRequest();
      write_failure(end.error(), request.initFailure(), handle_.is_abandoned());
      return request.send().ignoreResult();
    }
    auto request = sink_.doneRequest();
    write_answers(end.value(), request.initAnswers(static_cast<uint32_t>(end.value().size())));
    return request.send().ignoreResult();
  }

  wire::Sink::Client sink_;
  const std::shared_ptr<Outbox> outbox_;  // shared with the engine's callbacks
  const RequestHandle handle_;
};

/// Destroyed when the client drops it or is gone, which cancels the request.
class CallServer final : public wire::Call::Server {
 public:
  CallServer(RequestHandle handle, kj::Own<Delivery> delivery, kj::Own<Counted> counted)
      : handle_(std::move(handle)),
        delivery_(kj::mv(delivery)),
        // A client that cannot be reached needs no answer.
        running_(delivery_->run().attach(kj::mv(counted)).eagerlyEvaluate([](kj::Exception&&) {})) {}
  ~CallServer() noexcept { handle_.cancel(); }

  kj::Promise<void> cancel(CancelContext) override {
    handle_.cancel();
    return kj::READY_NOW;
  }

 private:
  RequestHandle handle_;
  kj::Own<Delivery> delivery_;
  kj::Promise<void> running_;
};

void write_addresses(const std::vector<RpcAddress>& addresses, capnp::List<wire::Facts::Address>::Builder to) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setSocket(addresses[i].socket.c_str());
    to[i].setHost(addresses[i].host.c_str());
    to[i].setPort(addresses[i].port);
    to[i].setSecret(kj::StringPtr(addresses[i].secret.c_str(), addresses[i].secret.size()).asBytes());
  }
}

class EngineServer final : public wire::Engine::Server {
  using FulfillerPointer = kj::Own<kj::CrossThreadPromiseFulfiller<void>>;

 public:
  explicit EngineServer(Service& service) : service_(service) {}

  kj::Promise<void> facts(FactsContext context) override {
    const EngineFacts facts = service_.engine.facts();
    wire::Facts::Builder to = context.getResults().initFacts();
    to.setVersion(wire::VERSION);
    const auto& directory = service_.model.directory();
    to.setModel((directory ? *directory : service_.model.config_file()).filename().c_str());
    to.setRanks(static_cast<uint32_t>(facts.ranks));
    to.setSlots(static_cast<uint32_t>(facts.slots));
    to.setCapacity(static_cast<uint32_t>(facts.capacity));
    to.setVocabulary(static_cast<uint32_t>(service_.model.spec().vocabulary));
    to.setBackend(facts.backend.c_str());
    to.setDtype(facts.dtype.c_str());
    to.setIdentity(facts.identity.c_str());
    write_addresses(service_.replicas, to.initReplicas(static_cast<uint32_t>(service_.replicas.size())));
    return kj::READY_NOW;
  }

  kj::Promise<void> status(StatusContext context) override {
    write_status(service_.engine.counters(), service_.engine.activity(), service_.group.presence(),
                 context.getResults().initStatus());
    return kj::READY_NOW;
  }

  kj::Promise<void> activity(ActivityContext context) override {
    write_activity(service_.engine.activity(), service_.group.presence(), context.getResults().initActivity());
    return kj::READY_NOW;
  }

  kj::Promise<void> score(ScoreContext context) override {
    const auto params = context.getParams();
    const Result<ScoreHandle> opened = open_text(read_ids(params.getIds()), params.getTop());
    if (!opened.has_value()) {
      write_failure(opened.error(), context.getResults().initScored().initFailure(), is_abandoned());
      return kj::READY_NOW;
    }
    context.allowCancellation();
    ScoreHandle text = opened.value();
    auto done = kj::newPromiseAndCrossThreadFulfiller<void>();
    const auto fulfiller = std::make_shared<FulfillerPointer>(kj::mv(done.fulfiller));  // a function is copied
    text.on_done([fulfiller] { (*fulfiller)->fulfill(); });
    return done.promise
        .then([context, text]() mutable {
          const Result<std::vector<TokenScore>> scores = text.wait();
          auto scored = context.getResults().initScored();
          if (!scores.has_value()) return write_failure(scores.error(), scored.initFailure(), text.is_abandoned());
          write_scores(scores.value(), scored.initTokens(static_cast<uint32_t>(scores.value().size())));
        })
        .attach(kj::defer([text]() mutable { text.cancel(); }), kj::heap<Counted>(service_));
  }

  kj::Promise<void> generate(GenerateContext context) override {
    std::string constraint = context.getParams().getRequest().getConstraint().cStr();
    if (constraint.empty()) {
      start(context, std::shared_ptr<const constraint::Constraint>());
      return kj::READY_NOW;
    }
    context.allowCancellation();
    auto done = kj::newPromiseAndCrossThreadFulfiller<void>();
    const auto fulfiller = std::make_shared<FulfillerPointer>(kj::mv(done.fulfiller));  // a function is copied
    const auto compiled = std::make_shared<std::optional<ConstraintWorker::Compiled>>();
    service_.constraints.compile(std::move(constraint),
                                 [fulfiller, compiled](const ConstraintWorker::Compiled& result) {
                                   *compiled = result;
                                   (*fulfiller)->fulfill();
                                 });
    return done.promise.then([this, context, compiled]() mutable { start(context, **compiled); });
  }

  kj::Promise<void> finish(FinishContext) override {
    const std::lock_guard lock(service_.mutex);
    service_.is_finishing = true;
    service_.changed.notify_all();
    return kj::READY_NOW;
  }

 private:
  Result<void> check_serves() const {
    const std::lock_guard lock(service_.mutex);
    if (!service_.is_finishing) return ok();
    return Error{ErrorKind::kUnavailable,
                 "[engine/rpc] cannot open a request: found an engine that is about to end, expected one that serves; "
                 "start another engine"};
  }

  /// Whether a refusal says nothing of the request: the ranks have failed, and others may answer it.
  bool is_abandoned() const { return service_.group.failure().has_value(); }

  Result<ScoreHandle> open_text(std::vector<int32_t> ids, uint32_t top) {
    LOCKSTEP_TRY_VOID(check_serves());
    return service_.engine.submit_text(std::move(ids), top);
  }

  void start(GenerateContext context, const ConstraintWorker::Compiled& constraint) {
    const auto outbox = std::make_shared<Outbox>();
    const Result<RequestHandle> opened = open(context.getParams().getRequest(), constraint, outbox);
    if (!opened.has_value()) return write_failure(opened.error(), context.getResults().initFailure(), is_abandoned());
    RequestHandle handle = opened.value();
    handle.on_done([outbox, handle]() mutable { outbox->close(handle.wait()); });
    context.getResults().setNumber(handle.number());
    auto delivery = kj::heap<Delivery>(context.getParams().getSink(), outbox, handle);
    context.getResults().setCall(kj::heap<CallServer>(handle, kj::mv(delivery), kj::heap<Counted>(service_)));
  }

  Result<RequestHandle> open(wire::Request::Reader from, const ConstraintWorker::Compiled& constraint,
                             const std::shared_ptr<Outbox>& outbox) {
    LOCKSTEP_TRY_VOID(check_serves());
    LOCKSTEP_TRY(Request request, read_request(from, service_.model));
    LOCKSTEP_TRY(request.constraint, constraint);
    request.on_token = [outbox](const Token& token) {
      outbox->put(token);
      return Verdict::kContinue;
    };
    return service_.engine.submit(std::move(request));
  }

  Service& service_;
};

class EntranceServer final : public wire::Entrance::Server {
 public:
  EntranceServer(Service& service, std::function<void()> on_entered)
      : service_(service), on_entered_(std::move(on_entered)) {}

  kj::Promise<void> enter(EnterContext context) override {
    auto results = context.getResults();
    if (is_secret(service_.secret, context.getParams().getSecret())) {
      on_entered_();
      results.setEngine(kj::heap<EngineServer>(service_));
      return kj::READY_NOW;
    }
    write_failure({ErrorKind::kInvalidArgument,
                   "[engine/rpc] cannot enter: found another secret than the engine's, expected the contents of its "
                   "secret file; send those"},
                  results.initFailure());
    return kj::READY_NOW;
  }

 private:
  Service& service_;
  const std::function<void()> on_entered_;
};

class Running final : public RpcServer {
 public:
  Running(const Group& group, Engine& engine, const Model& model, RpcAddress address,
          const std::filesystem::path& constraint_program, std::vector<RpcAddress> replicas,
          std::function<void(const std::string&)> on_refused)
      : service_{group, engine, model, address.secret, std::move(replicas), {model, constraint_program}},
        wanted_(std::move(address)),
        on_refused_(std::move(on_refused)) {}

  ~Running() noexcept override {
    if (!thread_.joinable()) return;
    stop_->fulfill();
    thread_.join();
    if (!wanted_.socket.empty()) ::unlink(wanted_.socket.c_str());
  }

  Result<void> start() {
    int descriptor = wanted_.listening;
    if (!wanted_.socket.empty()) {
      LOCKSTEP_TRY(descriptor, listen_at(wanted_.socket));
    }
    std::promise<Result<void>> listening;
    std::future<Result<void>> listens = listening.get_future();
    thread_ = std::thread([this, descriptor, &listening] { run(descriptor, listening); });
    const Result<void> done = listens.get();
    if (!done.has_value()) thread_.join();
    return done;
  }

  std::string address() const override {
    return wanted_.socket.empty() ? fmt::format("{}:{}", wanted_.host, wanted_.port) : wanted_.socket.string();
  }

  bool wait_finish(Duration limit) override {
    std::unique_lock lock(service_.mutex);
    return service_.changed.wait_for(lock, limit, [this] { return service_.is_finishing; });
  }

  bool wait_delivered(Duration limit) override {
    std::unique_lock lock(service_.mutex);
    return service_.changed.wait_for(lock, limit, [this] { return service_.deliveries == 0; });
  }

 private:
  kj::Own<kj::ConnectionReceiver> receiver(kj::AsyncIoContext& io, int descriptor) {
    if (descriptor >= 0) {
      return io.lowLevelProvider->wrapListenSocketFd(descriptor, kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP);
    }
    auto listener =
        io.provider->getNetwork().parseAddress(wanted_.host.c_str(), wanted_.port).wait(io.waitScope)->listen();
    wanted_.port = static_cast<uint16_t>(listener->getPort());
    return listener;
  }

  void run(int descriptor, std::promise<Result<void>>& listening) {
    bool listens = false;
    try {
      kj::AsyncIoContext io = kj::setupAsyncIo();
      auto listener = receiver(io, descriptor);
      auto stop = kj::newPromiseAndCrossThreadFulfiller<void>();
      stop_ = kj::mv(stop.fulfiller);
      const auto make_entrance = [this](std::function<void()> on_entered) -> wire::Entrance::Client {
        return kj::heap<EntranceServer>(service_, std::move(on_entered));
      };
      const ClientConnections clients(*listener, io.provider->getTimer(),
                                      {.make_entrance = make_entrance, .on_refused = on_refused_});
      listens = true;
      listening.set_value(ok());
      stop.promise.wait(io.waitScope);
    } catch (const kj::Exception& failure) {
      if (!listens) listening.set_value(cannot_listen(address(), failure.getDescription().cStr()));
    }
  }

  Service service_;
  RpcAddress wanted_;  // the port is the real one once it listens
  const std::function<void(const std::string&)> on_refused_;
  kj::Own<kj::CrossThreadPromiseFulfiller<void>> stop_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::open(const Group& group, Engine& engine, const Model& model,
                                                   const RpcAddress& address,
                                                   const std::filesystem::path& constraint_program,
                                                   std::vector<RpcAddress> replicas,
                                                   std::function<void(const std::string&)> on_refused) {
  if (address.socket.empty() && address.secret.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "[engine/rpc] cannot listen on TCP: found no secret, expected one, since every user of the network "
                 "could connect; name a secret file, or use a Unix socket"};
  }
  auto server = std::make_unique<Running>(group, engine, model, address, constraint_program, std::move(replicas),
                                          std::move(on_refused));
  LOCKSTEP_TRY_VOID(server->start());
  return std::unique_ptr<RpcServer>(std::move(server));
}

}  // namespace lockstep::rpc
