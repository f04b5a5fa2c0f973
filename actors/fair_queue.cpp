#include "actors/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

void FairQueue::add(Admission admission) {
  std::list<Turn>& turns = turns_[admission.priority];
  const auto found = std::ranges::find(turns, admission.client, &Turn::client);
  Turn& turn = found != turns.end() ? *found : turns.emplace_back(Turn{admission.client, {}});
  turn.requests.push_back(std::move(admission));
  ++size_;
}

bool FairQueue::has(RequestId request) const {
  const auto is_it = [&](const Admission& queued) { return queued.id == request; };
  const auto waits = [&](const Turn& turn) { return std::ranges::any_of(turn.requests, is_it); };
  return std::ranges::any_of(rests_, is_it) ||
         std::ranges::any_of(turns_, [&](const auto& turns) { return std::ranges::any_of(turns.second, waits); });
}

const Admission& FairQueue::front() const {
  LOCKSTEP_CHECK(!empty(), size_);
  return rests_.empty() ? turns_.begin()->second.front().requests.front() : rests_.front();
}

Admission FairQueue::pop() {
  LOCKSTEP_CHECK(!empty(), size_);
  if (!rests_.empty()) {
    Admission rest = std::move(rests_.front());
    rests_.pop_front();
    return rest;
  }
  std::list<Turn>& turns = turns_.begin()->second;
  Turn& turn = turns.front();
  Admission next = std::move(turn.requests.front());
  turn.requests.pop_front();
  --size_;
  if (turn.requests.empty()) {
    turns.pop_front();
  } else {
    turns.splice(turns.end(), turns, turns.begin());
  }
  if (turns.empty()) turns_.erase(turns_.begin());
  return next;
}

void FairQueue::drop(RequestId request) {
  const auto is_it = [&](const Admission& queued) { return queued.id == request; };
  std::erase_if(rests_, is_it);
  for (auto& [priority, turns] : turns_) {
    for (Turn& turn : turns) size_ -= std::erase_if(turn.requests, is_it);
    std::erase_if(turns, [](const Turn& turn) { return turn.requests.empty(); });
  }
  std::erase_if(turns_, [](const auto& turns) { return turns.second.empty(); });
}

}  // namespace lockstep::actors
