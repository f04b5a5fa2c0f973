// HTTP as clients speak it: connections, methods, bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/serve/http/http_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpProtocol, AnswersWithLengthDateAndIdAndDoesNotNameItself) {
  TestServer server;
  RawClient client(server.port());
  client.send(post("/echo", "hello"));
  const std::string response = client.receive_response();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(header_of(response, "Content-Length"), "17");
  EXPECT_EQ(header_of(response, "Connection"), "keep-alive");
  EXPECT_THAT(header_of(response, "Date"), MatchesRegex("[A-Z][a-z][a-z], [0-9]+ [A-Z][a-z]+ 20[0-9]+ [0-9:]+ GMT"));
  EXPECT_THAT(header_of(response, "x-request-id"), MatchesRegex("req_[0-9a-f]+"));
  EXPECT_THAT(response, Not(HasSubstr("Server:")));
  EXPECT_THAT(response, Not(HasSubstr("Access-Control")));
  EXPECT_EQ(body_of(response), "POST /echo? hello");
}

TEST(HttpProtocol, KeepsAConnectionForFurtherRequests) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/echo", std::to_string(i)));
    EXPECT_EQ(body_of(client.receive_response()), "POST /echo? " + std::to_string(i));
  }
  EXPECT_EQ(server.counters().accepted, 1u);
}

TEST(HttpProtocol, ClosesAConnectionOnRequest) {
  TestServer server;
  const std::string response = exchange_bytes(server.port(), get("/echo", "Connection: close\r\n"));
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_THAT(response, EndsWith("GET /echo? "));
}

TEST(HttpProtocol, AnswersPipelinedRequestsInTheirOrder) {
  TestServer server;
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 100; ++i)
    requests += i % 2 == 0 ? post("/echo", std::to_string(i)) : get("/" + std::to_string(i));
  client.send(requests);
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(body_of(client.receive_response()), i % 2 == 0 ? "POST /echo? " + number : "GET /" + number + "? ");
  }
}

TEST(HttpProtocol, KeepsRequestsThatArriveWhileOneIsHandled) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  client.send(get("/next") + get("/last", "Connection: close\r\n"));
  server.wait_until([&] { return server.server().counters().received_bytes > 100; });
  EXPECT_EQ(server.counters().requests, 1u);
  server.respond(held, "first");
  EXPECT_EQ(body_of(client.receive_response()), "first");
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
  EXPECT_THAT(client.receive_all(), EndsWith("GET /last? "));
}

TEST(HttpProtocol, AnswersHeadWithTheHeadersOnly) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n" + get("/next"));
  EXPECT_EQ(header_of(client.receive_until("\r\n\r\n"), "Content-Length"), "12");
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

TEST(HttpProtocol, AnswersHeadOfAStreamWithTheHeadersOnly) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  auto held = server.next_held();
  server.on_loop([&] {
    held->write("body");
    held->end_stream();
  });
  client.send(get("/next"));
  EXPECT_THAT(client.receive_until("\r\n\r\n"), HasSubstr("text/event-stream"));
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

TEST(HttpProtocol, ClosesAfterARequestOfHttp10UnlessItAsksToKeepTheConnection) {
  TestServer server;
  const std::string response = exchange_bytes(server.port(), "GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_of(response), 200);
  EXPECT_EQ(header_of(response, "Connection"), "close");

  RawClient client(server.port());
  client.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(header_of(client.receive_response(), "Connection"), "keep-alive");
  client.send("GET /again HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.receive_all(), EndsWith("GET /again? "));
}

TEST(HttpProtocol, AsksForABodyThatWaitsForIt) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(body_of(client.receive_response()), "POST /echo? body");
}

TEST(HttpProtocol, DoesNotAskForABodyThatIsThere) {
  TestServer server;
  RawClient client(server.port());
  client.send(post("/echo", "body", "Expect: 100-continue\r\n"));
  EXPECT_EQ(body_of(client.receive_response()), "POST /echo? body");
}

TEST(HttpProtocol, RefusesATooLargeBodyInsteadOfAskingForIt) {
  HttpOptions options = test_options();
  options.limits.body_bytes = 3;
  TestServer server(options);
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(status_of(client.receive_all()), 413);
}

TEST(HttpProtocol, ReadsChunkedBodiesAndLeavesTheirTrailersOut) {
  TestServer server;
  RawClient client(server.port());
  client.send(
      "POST /hold HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3;name=value\r\nabc\r\n0a\r\n0123456789\r\n0\r\nAuthorization: stolen\r\n\r\n" +
      get("/next"));
  auto held = server.next_held();
  EXPECT_EQ(held->request().body, "abc0123456789");
  EXPECT_FALSE(held->request().header("authorization"));
  server.respond(held, "done");
  EXPECT_EQ(body_of(client.receive_response()), "done");
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

TEST(HttpProtocol, DecodesThePathAndNotTheQuery) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/a%20b%2Fc?d%20e") + get("http://host:80/path?query"));
  EXPECT_EQ(body_of(client.receive_response()), "GET /a b/c?d%20e ");
  EXPECT_EQ(body_of(client.receive_response()), "GET /path?query ");
}

TEST(HttpProtocol, GivesTheHandlerNamesInLowerCaseAndThePeer) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold", "X-Api-KEY:  Secret \r\n"));
  auto held = server.next_held();
  EXPECT_EQ(held->request().header("x-api-key"), "Secret");
  EXPECT_THAT(held->request().peer, StartsWith("127.0.0.1:"));
  server.respond(held, "");
  EXPECT_EQ(status_of(client.receive_response()), 200);
}

TEST(HttpProtocol, EchoesARequestIdThatIsHarmless) {
  TestServer server;
  RawClient client(server.port());
  const auto id_for = [&](const std::string& sent) {
    client.send(get("/echo", "X-Request-Id: " + sent + "\r\n"));
    return header_of(client.receive_response(), "x-request-id");
  };
  EXPECT_EQ(id_for("abc-1.2_3:4"), "abc-1.2_3:4");
  EXPECT_THAT(id_for("a b"), StartsWith("req_"));
  EXPECT_THAT(id_for("\"quoted\""), StartsWith("req_"));
  EXPECT_THAT(id_for(std::string(129, 'a')), StartsWith("req_"));
}

TEST(HttpProtocol, IgnoresEmptyLinesBeforeARequest) {
  TestServer server;
  RawClient client(server.port());
  client.send("\r\n\r\n" + get("/echo") + "\r\n" + get("/next"));
  EXPECT_EQ(body_of(client.receive_response()), "GET /echo? ");
  EXPECT_EQ(body_of(client.receive_response()), "GET /next? ");
}

}  // namespace
}  // namespace lockstep::serve
