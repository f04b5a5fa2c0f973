// Rows over a socket: a server and its clients in one process.
#include "launcher/rows/row_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <set>

#include "launcher/rows/row_client.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using Row = std::optional<size_t>;

constexpr uint64_t kJob = 0xfedcba9876543210;  // fingerprint of a jobs file

class Results final : public RowResults {
 public:
  uint64_t done() const override { return rows.size(); }
  bool is_done(uint64_t row) const override { return rows.contains(row); }
  Result<void> append(std::span<const journal::RowResult> added) override {
    for (const auto& row : added) EXPECT_TRUE(rows.emplace(row.row, row).second) << "twice: row " << row.row;
    return ok();
  }
  Result<journal::RowResult> read(uint64_t row) const override { return rows.at(row); }

  std::map<uint64_t, journal::RowResult> rows;
};

journal::RowResult answer(uint64_t row, std::vector<int32_t> tokens = {7}) {
  return {.row = row, .answers = {{.tokens = std::move(tokens), .text = "seven", .finish_reason = "eos"}}, .error = {}};
}

/// Gives this process a network that nothing but it is on. False where the system does not allow it.
bool enter_own_network() { return ::unshare(CLONE_NEWNET | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0; }

/// Connects loopback, or cuts it off: what is sent then gets lost, and no connection ends.
bool set_loopback(bool is_up) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  if (is_up) loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &loopback) == 0;
}

class RowServerTest : public ::testing::Test {
 protected:
  RowServerTest() : socket_(std::filesystem::path(::testing::TempDir()) / ("rows-" + std::to_string(::getpid()))) {}
  ~RowServerTest() override { std::filesystem::remove(socket_); }

  void serve(size_t rows, size_t most = 100) {
    shared_ = std::make_unique<SharedRows>(
        results_, rows, /*unrecorded=*/100, [](const Error&) {}, [](uint64_t) {});
    auto server = RowServer::open(*shared_, {.capacity = 64, .unix_time = 1234, .rows = rows, .job = kJob}, most,
                                  {.socket = socket_});
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(server.value());
  }
  std::unique_ptr<RowClient> connect(size_t group) {
    auto client = RowClient::connect(server_->address(), group);
    EXPECT_TRUE(client.has_value()) << client.error().message;
    return std::move(client.value());
  }
  void finish() {
    server_.reset();
    ASSERT_TRUE(shared_->finish().has_value());
  }

  Results results_;
  const std::filesystem::path socket_;
  std::unique_ptr<SharedRows> shared_;
  std::unique_ptr<RowServer> server_;
};

TEST_F(RowServerTest, SharesRowsOutAndRecordsTheirAnswers) {
  serve(3);
  const auto one = connect(0), two = connect(1);
  EXPECT_EQ(one->setup(), (RowSetup{.capacity = 64, .unix_time = 1234, .rows = 3, .job = kJob}));
  EXPECT_EQ(one->next(), Row(0));
  EXPECT_EQ(two->next(), Row(1));
  EXPECT_EQ(two->next(), Row(2));
  two->put(answer(2, {1, 2, 3}));
  two->put(answer(1));
  one->put({.row = 0, .answers = {}, .error = "no prompt"});
  EXPECT_EQ(one->next(), Row());
  EXPECT_EQ(two->next(), Row());
  EXPECT_EQ(shared_->tokens(1), 4);
  finish();
  EXPECT_EQ(results_.rows.at(2), answer(2, {1, 2, 3}));
  EXPECT_EQ(results_.rows.at(0).error, "no prompt");
}

TEST_F(RowServerTest, GivesTheRowsOfALostGroupToAnotherThatWaits) {
  serve(2);
  auto lost = connect(0);
  const auto other = connect(1);
  EXPECT_EQ(lost->next(), Row(0));
  EXPECT_EQ(other->next(), Row(1));
  auto next = std::async(std::launch::async, [&] { return other->next(); });
  lost.reset();
  EXPECT_EQ(next.get(), Row(0));
  other->put(answer(0));
  other->put(answer(1));
  EXPECT_EQ(other->next(), Row());
  finish();
  EXPECT_EQ(results_.rows.size(), 2u);
}

TEST_F(RowServerTest, AHeldRowEndsTheJobForAllAndIsRecordedAfterwards) {
  serve(1);
  const auto one = connect(0), two = connect(1);
  EXPECT_EQ(one->next(), Row(0));
  auto next = std::async(std::launch::async, [&] { return two->next(); });
  one->hold(0);
  EXPECT_EQ(next.get(), Row());
  EXPECT_EQ(one->next(), Row());
  one->put({.row = 0, .answers = {}, .error = "too long"});
  EXPECT_EQ(one->next(), Row());  // what was put has arrived
  finish();
  EXPECT_EQ(results_.rows.at(0).error, "too long");
}

TEST_F(RowServerTest, AGroupGetsNoMoreThanItsShareAtOnce) {
  serve(3, /*most=*/1);
  const auto one = connect(0), two = connect(1);
  EXPECT_EQ(one->next(), Row(0));
  auto next = std::async(std::launch::async, [&] { return one->next(); });
  EXPECT_EQ(two->next(), Row(1));
  one->put(answer(0));
  EXPECT_EQ(next.get(), Row(2));
}

TEST_F(RowServerTest, AClientNoticesThatTheServerIsGone) {
  serve(2);
  const auto one = connect(0);
  EXPECT_EQ(one->next(), Row(0));
  EXPECT_TRUE(one->status().has_value());
  server_.reset();
  EXPECT_EQ(one->next(), Row());
  EXPECT_EQ(one->status().error().kind, ErrorKind::kPeerLost);
  EXPECT_EQ(RowClient::connect({.socket = socket_}, 0).error().kind, ErrorKind::kUnavailable);
}

TEST_F(RowServerTest, AStrangerGetsNothing) {
  shared_ = std::make_unique<SharedRows>(
      results_, 1, /*unrecorded=*/100, [](const Error&) {}, [](uint64_t) {});
  std::vector<std::string> refused;
  auto server = RowServer::open(*shared_, {.rows = 1}, 100, {.host = "127.0.0.1", .secret = "of the job"},
                                [&](const std::string& line) { refused.push_back(line); });
  ASSERT_TRUE(server.has_value()) << server.error().message;
  RowAddress address = server.value()->address();
  EXPECT_GT(address.port, 0);
  for (const char* other : {"of the Job", ""}) {
    RowAddress guessed = address;
    guessed.secret = other;
    EXPECT_EQ(RowClient::connect(guessed, 1).error().kind, ErrorKind::kUnavailable);
  }
  {
    const auto group = RowClient::connect(address, 1);
    ASSERT_TRUE(group.has_value()) << group.error().message;
    EXPECT_EQ(group.value()->next(), Row(0));
  }
  server.value().reset();
  ASSERT_FALSE(refused.empty());
  EXPECT_THAT(refused.front(), ::testing::HasSubstr("found the hello of another run"));
}

TEST(RowSetup, IsNoneOfWordsOfAnotherNumber) {
  EXPECT_EQ(parse_row_setup(std::vector<uint64_t>(3)), std::nullopt);
  EXPECT_EQ(parse_row_setup(std::vector<uint64_t>(5)), std::nullopt);
}

constexpr int kNoNetwork = 77;

/// Gives this process its own network, and returns its exit code.
int lose_a_group_whose_host_is_cut_off() {
  if (!enter_own_network() || !set_loopback(true)) return kNoNetwork;
  Results results;
  SharedRows shared(
      results, 1, /*unrecorded=*/100, [](const Error&) {}, [](uint64_t) {});
  const auto server = RowServer::open(shared, {.rows = 1}, 100, {.host = "127.0.0.1", .secret = "of the job"},
                                      /*on_refused=*/{}, /*silence=*/std::chrono::seconds(3));
  const auto group = RowClient::connect(server.value()->address(), 1);
  const bool has_row = group.value()->next() == Row(0);
  const bool is_cut_off = set_loopback(false);
  const Row again = shared.next(/*group=*/0, 100, std::chrono::seconds(30));
  return has_row && is_cut_off && again == Row(0) ? 0 : 1;
}

TEST(RowServerDeathTest, GivesTheRowsOfAGroupWhoseHostIsCutOffToAnother) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  static bool has_network = true;
  const auto is_right = [](int status) {
    has_network = !WIFEXITED(status) || WEXITSTATUS(status) != kNoNetwork;
    return !has_network || ::testing::ExitedWithCode(0)(status);
  };
  EXPECT_EXIT(::_exit(lose_a_group_whose_host_is_cut_off()), is_right, "");
  if (!has_network) GTEST_SKIP() << "this machine does not allow a network of the test's own";
}

}  // namespace
}  // namespace lockstep::launcher
