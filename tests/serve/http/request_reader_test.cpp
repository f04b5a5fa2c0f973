#include "launcher/serve/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::serve {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(RequestReader, ReadsTheSameFromPiecesOfEverySize) {
  const std::string bytes =
      "\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;e=f\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: t\r\n\r\n"
      "POST / HTTP/1.1\r\nHost: y\r\nContent-Length: 4\r\n\r\nbody";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestReader reader{HttpLimits{}};
    std::vector<std::string> bodies;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      while (reader.advance() == RequestReader::State::kComplete) bodies.push_back(reader.next_request().request.body);
    }
    EXPECT_THAT(bodies, ::testing::ElementsAre("hello!", "body")) << "pieces of " << piece;
    EXPECT_FALSE(reader.has_begun());
  }
}

TEST(RequestReader, GivesTheHeadersAsTheyWereBeforeTheTrailers) {
  RequestReader reader{HttpLimits{}};
  reader.append("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil\r\nA: b\r\n\r\n");
  ASSERT_EQ(reader.advance(), RequestReader::State::kComplete);
  EXPECT_THAT(reader.next_request().request.headers,
              UnorderedElementsAre(Pair("host", "x"), Pair("transfer-encoding", "chunked")));
}

TEST(RequestReader, AsksWithTheHeadBeforeItReadsTheBody) {
  std::vector<std::string> asked;
  RequestReader reader{HttpLimits{}, [&](HttpRequest& head) {
                         asked.push_back(head.path + " " + head.body);
                         head.peer = "peer";
                         return head.path == "/a";
                       }};
  reader.append("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo");
  EXPECT_EQ(reader.advance(), RequestReader::State::kIncomplete);
  EXPECT_EQ(reader.body_bytes(), 2u);
  reader.append("dyPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_EQ(reader.advance(), RequestReader::State::kComplete);
  EXPECT_EQ(reader.body_bytes(), 0u);
  const HttpRequest request = reader.next_request().request;
  EXPECT_EQ(request.body, "body");
  EXPECT_EQ(request.peer, "peer");
  EXPECT_EQ(reader.advance(), RequestReader::State::kRefused);
  EXPECT_THAT(asked, ::testing::ElementsAre("/a ", "/b "));
}

TEST(RequestReader, LeavesPipelinedBytesForTheNextRequest) {
  RequestReader reader{HttpLimits{}};
  reader.append("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2");
  ASSERT_EQ(reader.advance(), RequestReader::State::kComplete);
  EXPECT_EQ(reader.buffered(), 6u);
  EXPECT_EQ(reader.next_request().request.path, "/1");
  EXPECT_EQ(reader.advance(), RequestReader::State::kIncomplete);
  reader.append(" HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_EQ(reader.advance(), RequestReader::State::kComplete);
  EXPECT_EQ(reader.next_request().request.path, "/2");
}

TEST(RequestReader, RefusesAHeadAsSoonAsItCanOnlyBeRefused) {
  RequestReader reader{HttpLimits{.head_bytes = 100, .uri_bytes = 50}};
  reader.append("GET /" + std::string(44, 'a'));
  EXPECT_EQ(reader.advance(), RequestReader::State::kIncomplete);
  reader.append("aa");
  ASSERT_EQ(reader.advance(), RequestReader::State::kRefused);
  EXPECT_EQ(reader.refusal().status, 414);
}

/// Of the bytes in pieces; 0 where it refuses nothing.
int refusal_of(std::string_view bytes, size_t piece, const HttpLimits& limits) {
  RequestReader reader{limits};
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(bytes.substr(at, piece));
    reader.advance();
  }
  return reader.advance() == RequestReader::State::kRefused ? reader.refusal().status : 0;
}

TEST(RequestReader, LimitsTheLineOfAChunkHoweverItArrives) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string size : {"1", "0"}) {
    for (const size_t length : {80, 95, 96, 97, 98, 99, 100, 101, 102, 200}) {  // of the line with its end
      for (const size_t quote : {0, 50, 99}) {                                  // its place, 0 for none
        std::string line = size + ";" + std::string(length - 4, 'a') + "\r\n";
        if (quote != 0) line[std::min(quote, length - 3)] = '"';
        const std::string bytes = head + line + (size == "1" ? "b\r\n0\r\n\r\n" : "\r\n");
        const size_t whole = size == "1" ? length : length + 2;  // a last chunk is read with its trailers
        const int expected = length <= 100 && quote != 0 ? 400 : whole > 100 ? 431 : 0;
        for (const size_t piece : {1, 7, 10'000}) {
          EXPECT_EQ(refusal_of(bytes, piece, {.head_bytes = 100}), expected)
              << size << " in a line of " << length << " bytes, quote at " << quote << ", pieces of " << piece;
        }
      }
    }
  }
}

TEST(RequestReader, AsksForABodyOnce) {
  RequestReader reader{HttpLimits{}};
  reader.append("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(reader.advance(), RequestReader::State::kIncomplete);
  EXPECT_TRUE(reader.take_continue());
  EXPECT_FALSE(reader.take_continue());
}

}  // namespace
}  // namespace lockstep::serve
