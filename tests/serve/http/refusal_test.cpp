// Requests that the server refuses itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/serve/http/http_fixture.h"

namespace lockstep::serve {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kPost = "POST / HTTP/1.1\r\nHost: x\r\n";

HttpOptions refusing(const std::string& path) {
  HttpOptions options = test_options();
  options.cors_origin = "*";
  options.refuse_head = [path](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/throw") throw std::runtime_error("no luck");
    if (head.path != path) return std::nullopt;
    return HttpResponse{.status = 401, .body = head.id + " of " + (head.peer.empty() ? "nobody" : "a peer")};
  };
  return options;
}

TEST(RefusedHead, IsAnsweredBeforeItsBodyIsSentAndEndsTheConnection) {
  TestServer server(refusing("/secret"));
  for (const std::string_view more : {"", "Expect: 100-continue\r\n"}) {
    const std::string answer = exchange_bytes(
        server.port(), "POST /secret HTTP/1.1\r\nHost: x\r\nx-request-id: one\r\nContent-Length: 1000000\r\n" +
                           std::string(more) + "\r\n");
    EXPECT_EQ(status_of(answer), 401);  // no 100 before it
    EXPECT_EQ(header_of(answer, "Connection"), "close");
    EXPECT_EQ(header_of(answer, "x-request-id"), "one");
    EXPECT_EQ(body_of(answer), "one of a peer");
  }
  const std::string pipelined = exchange_bytes(server.port(), get("/echo") + get("/secret") + get("/echo"));
  EXPECT_THAT(pipelined, HasSubstr("GET /echo"));
  EXPECT_TRUE(pipelined.ends_with("of a peer")) << pipelined;  // nothing behind it
  const HttpCounters counters = server.counters();
  EXPECT_EQ(counters.requests, 4u);
  EXPECT_EQ(counters.refused, 0u);
}

TEST(RefusedHead, LetsOtherRequestsAndPreflightsWithoutABodyPass) {
  TestServer server(refusing("/secret"));
  EXPECT_EQ(body_of(exchange_bytes(server.port(), post("/echo", "body", "Connection: close\r\n"))), "POST /echo? body");
  const std::string preflight =
      "OPTIONS /secret HTTP/1.1\r\nHost: x\r\nOrigin: y\r\nAccess-Control-Request-Method: POST\r\n";
  EXPECT_EQ(status_of(exchange_bytes(server.port(), preflight + "Connection: close\r\n\r\n")), 204);
  EXPECT_EQ(status_of(exchange_bytes(server.port(), preflight + "Content-Length: 9\r\n\r\n")), 401);
}

TEST(RefusedHead, IsAnsweredForWhereItsJudgeThrows) {
  TestServer server(refusing("/secret"));
  EXPECT_EQ(status_of(exchange_bytes(server.port(), get("/throw"))), 500);
  EXPECT_THAT(server.logged(), ::testing::ElementsAre(HasSubstr("the handler failed: no luck")));
}

struct RefusedRequest {
  const char* name;
  std::string request;
  int status;
};

void PrintTo(const RefusedRequest& refused, std::ostream* out) { *out << refused.name; }

std::vector<RefusedRequest> refused_requests() {
  const std::string post_head(kPost);
  const std::string chunked = post_head + "Transfer-Encoding: chunked\r\n\r\n";
  return {
      {"BothLengthAndCoding", post_head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"BothCodingAndLength", post_head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {"TwoLengths", post_head + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"TwoEqualLengths", post_head + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"ListOfLengths", post_head + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {"NegativeLength", post_head + "Content-Length: -3\r\n\r\nabc", 400},
      {"SignedLength", post_head + "Content-Length: +3\r\n\r\nabc", 400},
      {"EmptyLength", post_head + "Content-Length: \r\n\r\n", 400},
      {"HugeLength", post_head + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {"UnknownCoding", post_head + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"ListOfCodings", post_head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"TwoCodings", post_head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"IdentityCoding", post_head + "Transfer-Encoding: identity\r\n\r\n", 501},
      {"CodingInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"FoldedHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400},
      {"FoldedFirstHeader", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400},
      {"BareLineFeed", "GET / HTTP/1.1\nHost: x\n\n", 400},
      {"BareLineFeedInHeader", "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400},
      {"BareReturn", "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400},
      {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
      {"TwoHosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"SpaceBeforeColon", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n", 400},
      {"NoColon", "GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", 400},
      {"NoName", "GET / HTTP/1.1\r\nHost: x\r\n: value\r\n\r\n", 400},
      {"ZeroInHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n"s, 400},
      {"Nonsense", "nonsense\r\n\r\n", 400},
      {"NoVersion", "GET /\r\n\r\n", 400},
      {"SpaceInTarget", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"TargetIsNoPath", "GET path HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"TargetOfConnect", "CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"WrongEscape", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"ZeroInPath", "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"TlsOnAPlainPort", "\x16\x03\x01\x02\x00\x01"s, 400},
      {"Http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"UnknownExpectation", post_head + "Content-Length: 1\r\nExpect: miracles\r\n\r\n", 417},
      {"LongTarget", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
      {"LongHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(40000, 'a') + "\r\n\r\n", 431},
      {"LargeBody", post_head + "Content-Length: 1000001\r\n\r\n", 413},
      {"LargeChunk", chunked + "f4241\r\n", 413},
      {"LargeBodyOfChunks", chunked + "f4240\r\n" + std::string(1000000, 'a') + "\r\n1\r\n", 413},
      {"ChunkSizeIsNoNumber", chunked + "xyz\r\n", 400},
      {"NegativeChunk", chunked + "-1\r\n", 400},
      {"HugeChunk", chunked + "fffffffffffffffff\r\n", 400},
      {"PrefixedChunk", chunked + "0x3\r\nabc\r\n0\r\n\r\n", 400},
      {"BareLineFeedAfterChunkSize", chunked + "3\nabc\r\n0\r\n\r\n", 400},
      {"NoLineAfterChunk", chunked + "3\r\nabcd\r\n0\r\n\r\n", 400},
      {"QuoteInChunkExtension", chunked + "3;a=\"\r\nabc\r\n0\r\n\r\n", 400},
      {"QuotedChunkExtension", chunked + "3;a=\"b\"\r\nabc\r\n0\r\n\r\n", 400},
      {"LengthInTrailers", chunked + "0\r\nContent-Length: 3\r\n\r\n", 400},
      {"BareLineFeedInTrailers", chunked + "0\r\nA: b\nB: c\r\n\r\n", 400},
      {"LongTrailers", chunked + "0\r\nA: " + std::string(40000, 'a'), 431},
      {"LongChunkExtension", chunked + "3;" + std::string(40000, 'a'), 431},
  };
}

class HttpRefusals : public ::testing::TestWithParam<RefusedRequest> {};

TEST_P(HttpRefusals, AreAnsweredWithAnErrorInJsonAndEndTheConnection) {
  HttpOptions options = test_options();
  options.limits.body_bytes = 1000000;
  TestServer server(options);
  const std::string response = exchange_bytes(server.port(), GetParam().request);
  EXPECT_EQ(status_of(response), GetParam().status) << response;
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_EQ(header_of(response, "Content-Type"), "application/json");
  EXPECT_THAT(body_of(response), HasSubstr(R"({"error": {"message": ")"));
  EXPECT_THAT(body_of(response), HasSubstr(R"("param": null, "code": ")"));
  const HttpCounters counters = server.counters();
  EXPECT_EQ(counters.requests, 0u);
  EXPECT_EQ(counters.refused, 1u);
}

INSTANTIATE_TEST_SUITE_P(All, HttpRefusals, ::testing::ValuesIn(refused_requests()),
                         [](const auto& test) { return test.param.name; });

TEST(HttpRefusal, OfOneRequestLeavesTheOnesBeforeIt) {
  TestServer server;
  const std::string responses = exchange_bytes(server.port(), get("/echo") + "GET / HTTP/1.1\r\n\r\n" + get("/never"));
  EXPECT_EQ(status_of(responses), 200);
  EXPECT_THAT(responses, HasSubstr("no Host header"));
  EXPECT_EQ(server.counters().requests, 1u);
}

TEST(HttpRefusal, ReachesAClientThatIsStillSending) {
  HttpOptions options = test_options();
  options.limits.body_bytes = 1000;
  TestServer server(options);
  RawClient client(server.port());
  client.send(std::string(kPost) + "Content-Length: 8000000\r\n\r\n" + std::string(8000000, 'a'));
  client.end_sending();
  EXPECT_EQ(status_of(client.receive_all()), 413);
}

TEST(HttpRefusal, OfARequestThatEndsTooEarly) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  client.end_sending();
  EXPECT_EQ(status_of(client.receive_all()), 400);
}

TEST(HttpRefusal, IsReportedWithItsIdAndItsClient) {
  std::vector<std::string> reports;
  HttpOptions options = test_options();
  options.on_refused = [&](const HttpRefused& refused) {
    reports.push_back(fmt::format("{} {} {} {}", refused.id, refused.status, refused.code,
                                  refused.peer.substr(0, refused.peer.find(':'))));
  };
  TestServer server(options);
  const std::string response = exchange_bytes(server.port(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(server.on_loop([&] { return reports; }),
            std::vector{header_of(response, "x-request-id") + " 400 bad_request 127.0.0.1"});
}

TEST(HttpRefusal, IsNotSentToAConnectionWithoutARequest) {
  TestServer server;
  RawClient client(server.port());
  client.end_sending();
  EXPECT_THAT(client.receive_all(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::serve
