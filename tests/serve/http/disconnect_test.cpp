// Clients that close or reset their connection, and clients that only end their own side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/serve/http/http_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

/// Sets `is_gone` when the client of `exchange` leaves.
void watch(TestServer& server, const std::shared_ptr<Exchange>& exchange, bool& is_gone) {
  server.on_loop([&] { exchange->on_disconnect([&is_gone] { is_gone = true; }); });
}

class HttpDisconnect : public ::testing::TestWithParam<const char*> {};  // the path

TEST_P(HttpDisconnect, IsNoticedWhenTheClientCloses) {
  TestServer server;
  RawClient client(server.port());
  client.send(get(GetParam()));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  EXPECT_EQ(server.open_exchanges(), 1u);
  client.close();
  server.wait_until([&] { return is_gone; });
  EXPECT_EQ(server.open_exchanges(), 0u);
  EXPECT_EQ(server.counters().disconnects, 1u);
  EXPECT_EQ(server.counters().connections, 0u);
}

TEST_P(HttpDisconnect, IsNoticedWhenTheConnectionIsReset) {
  TestServer server;
  RawClient client(server.port());
  client.send(get(GetParam()));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  client.reset();
  server.wait_until([&] { return is_gone; });
}

TEST_P(HttpDisconnect, IsNoticedWhenTheClientEndsItsSideAndLeavesLater) {
  TestServer server;
  RawClient client(server.port());
  client.send(get(GetParam()));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  client.end_sending();
  if (GetParam() == std::string("/stream")) client.receive_until("\r\n\r\n");
  EXPECT_THAT(client.receive(1), ::testing::AnyOf("H", "0"));  // the server noticed the end
  EXPECT_FALSE(server.on_loop([&] { return is_gone; }));
  client.close();
  server.wait_until([&] { return is_gone; });
}

TEST_P(HttpDisconnect, IsNoticedBehindManyPipelinedRequests) {
  TestServer server;
  RawClient client(server.port());
  client.send(get(GetParam()) + post("/echo", std::string(200 << 10, 'a')));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  server.wait_until([&] { return server.server().counters().received_bytes >= 64 << 10; });
  client.reset();
  server.wait_until([&] { return is_gone; });
}

TEST_P(HttpDisconnect, MakesTheExchangeInert) {
  TestServer server;
  RawClient client(server.port());
  client.send(get(GetParam()));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  client.reset();
  server.wait_until([&] { return is_gone; });
  bool is_gone_again = false;
  watch(server, held, is_gone_again);
  server.wait_until([&] { return is_gone_again; });
  server.on_loop([&] {
    if (GetParam() == std::string("/stream")) {
      held->write("text");
      EXPECT_EQ(held->unsent(), 0u);
      held->end_stream();
    } else {
      held->respond({});
    }
  });
  EXPECT_EQ(status_of(exchange_bytes(server.port(), get("/echo", "Connection: close\r\n"))), 200);
}

INSTANTIATE_TEST_SUITE_P(WaitingOrStreaming, HttpDisconnect, ::testing::Values("/hold", "/stream"),
                         [](const auto& test) { return std::string(test.param + 1); });

TEST(HttpHalfClose, StillGetsItsAnswer) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  client.end_sending();
  EXPECT_EQ(client.receive(1), "H");  // the server noticed, and did not take it for a disconnect
  server.respond(held, "answer");
  const std::string response = "H" + client.receive_all();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_EQ(body_of(response), "answer");
}

TEST(HttpHalfClose, StillGetsAllPipelinedAnswers) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold") + get("/echo") + get("/last"));
  client.end_sending();
  auto held = server.next_held();
  server.respond(held, "first");
  EXPECT_EQ(body_of(client.receive_response()), "first");
  EXPECT_EQ(body_of(client.receive_response()), "GET /echo? ");
  EXPECT_EQ(body_of(client.receive_response()), "GET /last? ");
  EXPECT_EQ(client.receive_all(), "");
}

TEST(HttpHalfClose, StillGetsItsStream) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/stream"));
  auto held = server.next_held();
  client.receive_until("\r\n\r\n");
  client.end_sending();
  EXPECT_EQ(client.receive(1), "0");  // leading zeros of the next size
  server.on_loop([&] { held->write("abc"); });
  const std::string chunk = client.receive_until("abc\r\n");
  EXPECT_EQ(chunk.substr(chunk.find_first_not_of('0')), "3\r\nabc\r\n");
  server.on_loop([&] { held->end_stream(); });
  EXPECT_THAT(client.receive_all(), EndsWith("0\r\n\r\n"));
}

TEST(HttpDisconnectFunction, MayThrow) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  server.on_loop([&] { held->on_disconnect([] { throw std::runtime_error("no luck"); }); });
  client.close();
  server.wait_until([&] { return server.server().counters().disconnects == 1; });
  EXPECT_THAT(server.logged(), ::testing::ElementsAre(::testing::HasSubstr("no luck")));
}

TEST(HttpServerEnd, MakesOpenExchangesInert) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  bool is_gone = false;
  watch(server, held, is_gone);
  server.close_server();
  EXPECT_TRUE(server.on_loop([&] { return is_gone; }));
  server.respond(held, "late");
  EXPECT_EQ(body_of(client.receive_all()), "");
}

}  // namespace
}  // namespace lockstep::serve
