// Limits on times and connections, and the end of a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/serve/http/http_fixture.h"
#include "tests/temporary_directory.h"

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HttpOptions with_limits(HttpLimits limits) {
  HttpOptions options = test_options();
  options.limits = limits;
  return options;
}

TEST(HttpLimit, EndsAHeaderThatDoesNotEnd) {
  TestServer server(with_limits({.request_time = 30ms}));
  EXPECT_EQ(status_of(exchange_bytes(server.port(), "GET / HTTP/1.1\r\nHost: x\r\n")), 408);
}

TEST(HttpLimit, EndsABodyThatDoesNotEnd) {
  TestServer server(with_limits({.request_time = 30ms}));
  EXPECT_EQ(status_of(exchange_bytes(server.port(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")), 408);
}

TEST(HttpLimit, EndsARequestThatDripsSinceItsFirstByte) {
  TestServer server(with_limits({.request_time = 100ms}));
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nA: ");
  for (uint64_t sent = 20; server.counters().refused == 0 && sent < 100'000; ++sent) {
    client.send("a");  // as soon as the one before was read
    server.wait_until([&] {
      const HttpCounters now = server.server().counters();
      return now.received_bytes >= sent || now.refused > 0;
    });
  }
  EXPECT_EQ(status_of(client.receive_all()), 408);
}

TEST(HttpLimit, RefusesBytesBeyondThatOfAllUnfinishedBodies) {
  TestServer server(with_limits({.body_bytes = 1000, .unfinished_bytes = 1500}));
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
  const auto wait_for = [&](uint64_t bytes) {
    server.wait_until([&server, bytes] { return server.server().counters().received_bytes >= bytes; });
  };
  RawClient first(server.port()), second(server.port());
  first.send(head + std::string(900, 'a'));
  wait_for(head.size() + 900);
  second.send(head + std::string(900, 'b'));  // together 1800
  const std::string refused = second.receive_all();
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("too_many_bytes"));
  EXPECT_EQ(header_of(refused, "Retry-After"), "1");
  wait_for(2 * head.size() + 1800);
  second.close();

  RawClient third(server.port());  // what was refused counts no more, nor what is complete
  third.send(head + std::string(500, 'c'));
  wait_for(3 * head.size() + 2300);
  first.send(std::string(100, 'a'));
  EXPECT_EQ(status_of(first.receive_response()), 200);
  RawClient fourth(server.port());
  fourth.send(head + std::string(1000, 'd'));
  EXPECT_EQ(status_of(fourth.receive_response()), 200);
  third.close();  // nor what a client has left
  server.wait_until([&] { return server.server().counters().connections == 2; });
  RawClient fifth(server.port()), sixth(server.port());
  fifth.send(head + std::string(800, 'e'));
  sixth.send(head + std::string(600, 'f'));
  wait_for(6 * head.size() + 4800);
  fifth.send(std::string(200, 'e'));
  sixth.send(std::string(400, 'f'));
  EXPECT_EQ(status_of(fifth.receive_response()), 200);
  EXPECT_EQ(status_of(sixth.receive_response()), 200);
}

TEST(HttpLimit, OfAllUnfinishedBodiesAllowsOne) {
  const Result<void> checked = with_limits({.body_bytes = 1000, .unfinished_bytes = 999}).validate();
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
}

TEST(HttpLimit, DoesNotCountTheTimeOfTheHandler) {
  TestServer server(with_limits({.request_time = 5ms, .idle_time = 5ms}));
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  bool has_passed = false;
  auto timer = server.on_loop([&] { return server.loop().after(30ms, [&] { has_passed = true; }); });
  server.wait_until([&] { return has_passed; });
  server.respond(held, "answer");
  EXPECT_EQ(body_of(client.receive_response()), "answer");
  server.on_loop([&] { timer.reset(); });
}

TEST(HttpLimit, EndsAnIdleConnectionWithoutAResponse) {
  TestServer server(with_limits({.idle_time = 30ms}));
  RawClient fresh(server.port());
  EXPECT_THAT(fresh.receive_all(), IsEmpty());
  RawClient used(server.port());
  used.send(get("/echo"));
  EXPECT_EQ(status_of(used.receive_response()), 200);
  EXPECT_THAT(used.receive_all(), IsEmpty());
}

TEST(HttpLimit, DropsAClientThatTakesNothing) {
  const TemporaryDirectory directory;
  HttpOptions options = with_limits({.write_time = 50ms});
  options.unix_socket = directory.path() / "socket";  // for TCP the system has a time-out, too
  TestServer server(options);
  RawClient client(options.unix_socket);
  client.send(get("/stream"));
  auto held = server.next_held();
  server.on_loop([&] { held->write(std::string(32 << 20, 'a')); });
  server.wait_until([&] { return server.server().counters().disconnects == 1; });
  EXPECT_EQ(server.open_exchanges(), 0u);
}

TEST(HttpLimit, TurnsConnectionsBeyondItAway) {
  TestServer server(with_limits({.connections = 2}));
  RawClient first(server.port());
  first.send(get("/echo"));
  EXPECT_EQ(status_of(first.receive_response()), 200);
  RawClient second(server.port());
  second.send(get("/echo"));
  EXPECT_EQ(status_of(second.receive_response()), 200);

  RawClient third(server.port());
  third.send(get("/echo"));
  const std::string refused = third.receive_all();
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_EQ(header_of(refused, "Retry-After"), "1");
  third.close();

  first.close();
  server.wait_until([&] { return server.server().counters().connections == 1; });
  RawClient fourth(server.port());
  fourth.send(get("/echo"));
  EXPECT_EQ(status_of(fourth.receive_response()), 200);
}

TEST(HttpLimit, TwoHundredIdleConnectionsHarmNoOther) {
  TestServer server;
  std::vector<RawClient> idle;
  for (int i = 0; i < 200; ++i) {
    idle.emplace_back(server.port());
    if (i % 2 == 0) idle.back().send("GET / HT");
  }
  server.wait_until([&] { return server.server().counters().connections == 200; });
  EXPECT_EQ(status_of(exchange_bytes(server.port(), get("/echo", "Connection: close\r\n"))), 200);
}

TEST(HttpDrain, AnswersOpenRequestsAndTakesNoOthers) {
  TestServer server;
  RawClient idle(server.port());
  idle.send(get("/echo"));
  EXPECT_EQ(status_of(idle.receive_response()), 200);
  RawClient open(server.port());
  open.send(get("/hold"));
  auto held = server.next_held();

  server.on_loop([&] { server.server().stop_accepting(); });
  EXPECT_THROW(RawClient refused(server.port()), std::runtime_error);
  EXPECT_THAT(idle.receive_all(), IsEmpty());
  EXPECT_EQ(server.open_exchanges(), 1u);
  server.respond(held, "last");
  const std::string response = open.receive_all();
  EXPECT_EQ(body_of(response), "last");
  EXPECT_EQ(header_of(response, "Connection"), "close");
  EXPECT_EQ(server.open_exchanges(), 0u);
}

TEST(HttpDrain, EndsConnectionsWithTheirAnswersWhileItStillTakesNewOnes) {
  TestServer server;
  RawClient kept(server.port());
  kept.send(get("/echo"));
  EXPECT_EQ(header_of(kept.receive_response(), "Connection"), "keep-alive");

  server.on_loop([&] { server.server().close_after_answers(); });
  kept.send(get("/echo"));
  EXPECT_EQ(header_of(kept.receive_all(), "Connection"), "close");
  const std::string response = exchange_bytes(server.port(), get("/echo"));
  EXPECT_EQ(status_of(response), 200);
  EXPECT_EQ(header_of(response, "Connection"), "close");
}

TEST(HttpDrain, CountsAResponseUntilTheClientHasTakenIt) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  auto held = server.next_held();
  server.respond(held, std::string(32 << 20, 'a'));
  server.wait_until([&] { return server.server().counters().sent_bytes > 0; });
  EXPECT_EQ(server.open_exchanges(), 1u);
  EXPECT_EQ(client.receive_response().size() >> 20, 32u);
  server.wait_until([&] { return server.server().open_exchanges() == 0; });
}

}  // namespace
}  // namespace lockstep::serve
