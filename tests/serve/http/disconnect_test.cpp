// Clients that close or reset their connection, and clients that only end their own side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/serve/http/http_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A request whose handler has not answered, or whose stream goes on.
struct OpenRequest {
  /// `bytes` begin with a request for /hold or /stream.
  explicit OpenRequest(const std::string& bytes) : client(server.port()) {
    client.send(bytes);
    exchange = server.next_held();
    server.on_loop([this] { exchange->on_disconnect([this] { is_gone = true; }); });
  }

  void wait_until_gone() {
    server.wait_until([this] { return is_gone; });
  }

  bool is_gone = false;  // its client left
  TestServer server;
  RawClient client;
  std::shared_ptr<Exchange> exchange;
};

class HttpDisconnect : public ::testing::TestWithParam<const char*> {  // the path
 protected:
  static bool is_stream() { return GetParam() == std::string_view("/stream"); }
};

TEST_P(HttpDisconnect, IsNoticedWhenTheClientCloses) {
  OpenRequest open(get(GetParam()));
  EXPECT_EQ(open.server.open_exchanges(), 1u);
  open.client.close();
  open.wait_until_gone();
  EXPECT_EQ(open.server.open_exchanges(), 0u);
  EXPECT_EQ(open.server.counters().disconnects, 1u);
  EXPECT_EQ(open.server.counters().connections, 0u);
}

TEST_P(HttpDisconnect, IsNoticedWhenTheConnectionIsReset) {
  OpenRequest open(get(GetParam()));
  open.client.reset();
  open.wait_until_gone();
}

TEST_P(HttpDisconnect, IsNoticedWhenTheClientEndsItsSideAndLeavesLater) {
  OpenRequest open(get(GetParam()));
  open.client.end_sending();
  if (is_stream()) open.client.receive_until("\r\n\r\n");
  EXPECT_THAT(open.client.receive(1), AnyOf("H", "0"));  // the server noticed the end
  EXPECT_FALSE(open.server.on_loop([&] { return open.is_gone; }));
  open.client.close();
  open.wait_until_gone();
}

TEST_P(HttpDisconnect, IsNoticedBehindManyPipelinedRequests) {
  OpenRequest open(get(GetParam()) + post("/echo", std::string(200 << 10, 'a')));
  open.server.wait_until([&] { return open.server.server().counters().received_bytes >= 64 << 10; });
  open.client.reset();
  open.wait_until_gone();
}

TEST_P(HttpDisconnect, MakesTheExchangeInert) {
  OpenRequest open(get(GetParam()));
  open.client.reset();
  open.wait_until_gone();
  bool is_gone_again = false;
  open.server.on_loop([&] { open.exchange->on_disconnect([&] { is_gone_again = true; }); });
  open.server.wait_until([&] { return is_gone_again; });
  open.server.on_loop([&] {
    if (!is_stream()) return open.exchange->respond({});
    open.exchange->write("text");
    EXPECT_EQ(open.exchange->unsent(), 0u);
    open.exchange->end_stream();
  });
  EXPECT_EQ(status_of(exchange_bytes(open.server.port(), get("/echo", "Connection: close\r\n"))), 200);
}

INSTANTIATE_TEST_SUITE_P(WaitingOrStreaming, HttpDisconnect, ::testing::Values("/hold", "/stream"),
                         [](const auto& test) { return std::string(test.param + 1); });

TEST(HttpDisconnectFunction, MayThrow) {
  OpenRequest open(get("/hold"));
  open.server.on_loop([&] { open.exchange->on_disconnect([] { throw std::runtime_error("no luck"); }); });
  open.client.close();
  open.server.wait_until([&] { return open.server.server().counters().disconnects == 1; });
  EXPECT_THAT(open.server.logged(), ElementsAre(HasSubstr("no luck")));
}

TEST(HttpHalfClose, StillGetsItsAnswer) {
  OpenRequest open(get("/hold"));
  open.client.end_sending();
  EXPECT_EQ(open.client.receive(1), "H");  // the server noticed, and did not take it for a disconnect
  open.server.respond(open.exchange, "answer");
  const std::string response = "H" + open.client.receive_all();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_EQ(body_of(response), "answer");
}

TEST(HttpHalfClose, StillGetsAllPipelinedAnswers) {
  OpenRequest open(get("/hold") + get("/echo") + get("/last"));
  open.client.end_sending();
  open.server.respond(open.exchange, "first");
  EXPECT_EQ(body_of(open.client.receive_response()), "first");
  EXPECT_EQ(body_of(open.client.receive_response()), "GET /echo? ");
  EXPECT_EQ(body_of(open.client.receive_response()), "GET /last? ");
  EXPECT_EQ(open.client.receive_all(), "");
}

TEST(HttpHalfClose, StillGetsItsStream) {
  OpenRequest open(get("/stream"));
  open.client.receive_until("\r\n\r\n");
  open.client.end_sending();
  EXPECT_EQ(open.client.receive(1), "0");  // leading zeros of the next size
  open.server.on_loop([&] { open.exchange->write("abc"); });
  const std::string chunk = open.client.receive_until("abc\r\n");
  EXPECT_EQ(chunk.substr(chunk.find_first_not_of('0')), "3\r\nabc\r\n");
  open.server.on_loop([&] { open.exchange->end_stream(); });
  EXPECT_THAT(open.client.receive_all(), EndsWith("0\r\n\r\n"));
}

TEST(HttpServerEnd, MakesOpenExchangesInert) {
  OpenRequest open(get("/hold"));
  open.server.close_server();
  EXPECT_TRUE(open.server.on_loop([&] { return open.is_gone; }));
  open.server.respond(open.exchange, "late");
  EXPECT_EQ(body_of(open.client.receive_all()), "");
}

}  // namespace
}  // namespace lockstep::serve
