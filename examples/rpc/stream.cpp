// A client of `lockstep engine`: sends ids, prints the text as it is made.
//
//   lockstep engine --model DIR --launch processes --tp 2 --socket /tmp/engine.sock &
//   example_rpc_stream /tmp/engine.sock 504 2365 253 655
#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include <cstdio>
#include <cstdlib>

#include "engine/rpc/engine.capnp.h"

namespace {

namespace wire = lockstep::rpc::wire;

/// Prints tokens; resolves a promise at the end.
class Printer final : public wire::Sink::Server {
 public:
  explicit Printer(kj::Own<kj::PromiseFulfiller<void>> end) : end_(kj::mv(end)) {}

  kj::Promise<void> tokens(TokensContext context) override {
    for (const auto token : context.getParams().getTokens()) std::fputs(token.getText().cStr(), stdout);
    std::fflush(stdout);
    return kj::READY_NOW;
  }
  kj::Promise<void> done(DoneContext context) override {
    std::fprintf(stderr, "\n(%s)\n", context.getParams().getAnswers()[0].getReason().cStr());
    end_->fulfill();
    return kj::READY_NOW;
  }
  kj::Promise<void> failed(FailedContext context) override {
    end_->reject(KJ_EXCEPTION(FAILED, context.getParams().getFailure().getMessage()));
    return kj::READY_NOW;
  }

 private:
  kj::Own<kj::PromiseFulfiller<void>> end_;
};

void stream(const char* socket, kj::ArrayPtr<char*> ids) {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  auto address = io.provider->getNetwork().parseAddress(kj::str("unix:", socket)).wait(io.waitScope);
  auto connection = address->connect().wait(io.waitScope);
  capnp::TwoPartyClient client(*connection);
  auto entered = client.bootstrap().castAs<wire::Entrance>().enterRequest().send().wait(io.waitScope);
  if (entered.isFailure()) return void(std::fprintf(stderr, "%s\n", entered.getFailure().getMessage().cStr()));
  auto end = kj::newPromiseAndFulfiller<void>();
  auto request = entered.getEngine().generateRequest();
  auto prompt = request.initRequest().initIds(static_cast<uint32_t>(ids.size()));
  for (uint32_t i = 0; i < prompt.size(); ++i) prompt.set(i, std::atoi(ids[i]));
  auto options = request.getRequest().initOptions(1);
  options[0].setName("max_new_tokens");
  options[0].setValue("24");
  request.setSink(kj::heap<Printer>(kj::mv(end.fulfiller)));
  auto opened = request.send().wait(io.waitScope);  // dropping its call would cancel the request
  if (opened.isFailure()) return void(std::fprintf(stderr, "%s\n", opened.getFailure().getMessage().cStr()));
  end.promise.wait(io.waitScope);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "example_rpc_stream SOCKET ID…\n"), 2;
  stream(argv[1], kj::arrayPtr(argv + 2, static_cast<size_t>(argc - 2)));
}
