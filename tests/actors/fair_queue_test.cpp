#include "actors/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;

Admission waiting(int64_t id, std::string client = "", int32_t priority = 0) {
  return {.id = RequestId(id), .rows = {}, .priority = priority, .client = std::move(client)};
}

std::vector<int64_t> drained(FairQueue& queue) {
  std::vector<int64_t> order;
  while (!queue.empty()) {
    const RequestId next = queue.front().id;
    EXPECT_EQ(queue.pop().id, next);
    order.push_back(next.value);
  }
  return order;
}

TEST(FairQueue, KeepsTheOrderOfOneClient) {
  FairQueue queue;
  for (const int64_t id : {3, 1, 2}) queue.add(waiting(id));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_THAT(drained(queue), ElementsAre(3, 1, 2));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, LetsClientsTakeTurnsHoweverManyRequestsOneHas) {
  FairQueue queue;
  for (const int64_t id : {1, 2, 3, 4}) queue.add(waiting(id, "a"));
  for (const int64_t id : {5, 6}) queue.add(waiting(id, "b"));
  queue.add(waiting(7, "c"));
  EXPECT_THAT(drained(queue), ElementsAre(1, 5, 7, 2, 6, 3, 4));
}

TEST(FairQueue, GivesAClientThatComesBackThePlaceAfterThoseThatWait) {
  FairQueue queue;
  queue.add(waiting(1, "a"));
  queue.add(waiting(2, "b"));
  queue.add(waiting(3, "b"));
  EXPECT_EQ(queue.pop().id, RequestId(1));
  queue.add(waiting(4, "a"));  // it has had its turn
  EXPECT_THAT(drained(queue), ElementsAre(2, 4, 3));
}

TEST(FairQueue, ServesHigherPrioritiesFirstAndTheirClientsInTurn) {
  FairQueue queue;
  queue.add(waiting(1, "a"));
  queue.add(waiting(2, "a", -1));
  queue.add(waiting(3, "b", 5));
  queue.add(waiting(4, "b", 5));
  queue.add(waiting(5, "a", 5));
  EXPECT_THAT(drained(queue), ElementsAre(3, 5, 4, 1, 2));
}

TEST(FairQueue, PutsTheRestOfARequestBeforeAllOthers) {
  FairQueue queue;
  queue.add(waiting(1, "a", 9));
  queue.put_first(waiting(2));
  EXPECT_TRUE(queue.has(RequestId(2)));
  EXPECT_THAT(drained(queue), ElementsAre(2, 1));
}

TEST(FairQueue, ForgetsADroppedRequestAndKeepsTheTurnsOfOthers) {
  FairQueue queue;
  queue.add(waiting(1, "a"));
  queue.add(waiting(2, "b"));
  queue.add(waiting(3, "a"));
  queue.put_first(waiting(4));
  queue.drop(RequestId(1));
  queue.drop(RequestId(4));
  queue.drop(RequestId(99));
  EXPECT_FALSE(queue.has(RequestId(1)));
  EXPECT_TRUE(queue.has(RequestId(3)));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(drained(queue), ElementsAre(3, 2));
}

/// A client with a request at time t waits for at most one request of each other client of its priority.
TEST(FairQueue, StarvesNoClientOfEqualPriority) {
  std::mt19937 random(5);
  FairQueue queue;
  constexpr int64_t kClients = 6;
  std::map<std::string, int64_t> since;  // pops since a waiting client's last turn
  int64_t next = 0;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 3 != 0) {
      const std::string client(1, static_cast<char>('a' + std::min<int64_t>(random() % 20, kClients - 1)));
      since.try_emplace(client, 0);
      queue.add(waiting(next++, client));
    }
    if (queue.empty() || random() % 4 == 0) continue;
    const std::string served = queue.pop().client;
    for (auto& [client, pops] : since) {
      pops = client == served ? 0 : pops + 1;
      ASSERT_LE(pops, kClients) << client;
    }
    bool waits = false;
    FairQueue rest = queue;
    while (!rest.empty()) waits |= rest.pop().client == served;
    if (!waits) since.erase(served);
  }
}

}  // namespace
}  // namespace lockstep::actors
