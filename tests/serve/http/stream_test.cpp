// Responses that grow, and handlers that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/serve/http/http_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HttpStream, IsSentInChunksAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/stream"));
  auto held = server.next_held();
  const std::string head = client.receive_until("\r\n\r\n");
  EXPECT_EQ(header_of(head, "Transfer-Encoding"), "chunked");
  EXPECT_EQ(header_of(head, "Content-Type"), "text/event-stream");
  EXPECT_EQ(header_of(head, "Content-Length"), "");
  server.on_loop([&] { held->write("first"); });
  EXPECT_EQ(client.receive_until("first\r\n"), "5\r\nfirst\r\n");
  server.on_loop([&] {
    held->write("second");
    held->end_stream();
  });
  EXPECT_EQ(client.receive_until("0\r\n\r\n"), "6\r\nsecond\r\n0\r\n\r\n");
  client.send(get("/next"));
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

TEST(HttpStream, GathersWhatIsWrittenTogether) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/stream"));
  auto held = server.next_held();
  client.receive_until("\r\n\r\n");
  server.on_loop([&] {
    for (const char* piece : {"a", "", "b", "c"}) held->write(piece);
    held->end_stream();
  });
  EXPECT_EQ(client.receive_until("0\r\n\r\n"), "3\r\nabc\r\n0\r\n\r\n");
}

TEST(HttpStream, OfHttp10EndsWithTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto held = server.next_held();
  server.on_loop([&] {
    held->write("text");
    held->end_stream();
  });
  const std::string response = client.receive_all();
  EXPECT_EQ(header_of(response, "Transfer-Encoding"), "");
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_EQ(body_of(response), "text");
}

TEST(HttpStream, TellsHowMuchAClientHasNotTaken) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/stream"));
  auto held = server.next_held();
  const size_t size = 32 << 20;  // more than the buffers of both sockets
  bool was_sent = false;
  server.on_loop([&] {
    held->write(std::string(size, 'a'));
    held->on_sent(1000, [&] {
      was_sent = true;
      EXPECT_LE(held->unsent(), 1000u);
      held->end_stream();
    });
  });
  server.wait_until([&] { return server.server().counters().sent_bytes > 1000; });
  server.on_loop([&] {
    EXPECT_GT(held->unsent(), 1000u);
    EXPECT_FALSE(was_sent);
  });
  EXPECT_GT(client.receive_until("\r\n0\r\n\r\n").size(), size);
  EXPECT_TRUE(server.on_loop([&] { return was_sent; }));
}

TEST(HttpStream, CallsAtOnceWhenNothingIsUnsent) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  bool was_called = false;
  server.on_loop([&] { held->on_sent(0, [&] { was_called = true; }); });
  server.wait_until([&] { return was_called; });
}

TEST(HttpStream, ThatIsDroppedEndsWithoutItsLastChunk) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/stream"));
  auto held = server.next_held();
  server.on_loop([&] {
    held->write("half");
    held.reset();
  });
  const std::string response = client.receive_all();
  EXPECT_THAT(response, EndsWith("4\r\nhalf\r\n"));
}

TEST(HttpHandler, ThatDropsAnExchangeAnswers500) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/drop") + get("/next"));
  const std::string response = client.receive_response();
  EXPECT_EQ(status_of(response), 500);
  EXPECT_THAT(body_of(response), HasSubstr(R"("type": "server_error")"));
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

TEST(HttpHandler, ThatThrowsAnswers500AndIsLogged) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/throw") + get("/next"));
  const std::string response = client.receive_response();
  EXPECT_EQ(status_of(response), 500);
  EXPECT_THAT(response, Not(HasSubstr("no luck")));
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
  EXPECT_THAT(server.logged(), ElementsAre(HasSubstr("the handler failed: no luck")));
}

TEST(HttpHandler, CannotAddHeadersThroughAValue) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  server.on_loop([&] { held->respond({.body = "", .headers = {{"X-Text", "a\r\nX-Other: b"}}}); });
  const std::string response = client.receive_response();
  EXPECT_EQ(header_of(response, "X-Text"), "a  X-Other: b");
  EXPECT_EQ(header_of(response, "X-Other"), "");
}

TEST(HttpHandler, AnswersWithoutABodyWhereTheStatusHasNone) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  server.on_loop([&] { held->respond({.status = 204, .body = "ignored"}); });
  client.send(get("/next"));
  EXPECT_EQ(header_of(client.receive_until("\r\n\r\n"), "Content-Length"), "");
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

}  // namespace
}  // namespace lockstep::serve
