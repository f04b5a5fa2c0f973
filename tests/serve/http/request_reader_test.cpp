#include "launcher/serve/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(RequestReader, LimitsTheLineOfAChunkHoweverItArrives) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const size_t piece : {1, 7, 10'000}) {
    RequestReader reader{HttpLimits{.head_bytes = 100}};
    const std::string bytes = head + "1;" + std::string(200, 'a') + "\r\nb\r\n0\r\n\r\n";
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      reader.advance();
    }
    ASSERT_EQ(reader.advance(), RequestReader::State::kRefused) << "pieces of " << piece;
    EXPECT_EQ(reader.refusal().status, 431);
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
