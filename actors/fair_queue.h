// Admitted requests that wait for slots, in the order in which they get them.
//
//   priority 1   a: A4                  the highest priority goes first
//   priority 0   a: A1 A2 A3 ─┐         clients of one priority take turns: A1 B1 A2 B2 A3
//                b: B1 B2    ─┘         the requests of one client keep their order
//
// A client that has to wait gets its turn after at most one request of each other client of its priority.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>

#include "actors/admission.h"
#include "runtime/core/ids.h"

namespace lockstep::actors {

/// Pure. Used by one thread.
class FairQueue {
 public:
  void add(Admission admission);
  /// Puts the rest of a request before all others, of any priority.
  void put_first(Admission rest) { rests_.push_front(std::move(rest)); }

  bool empty() const { return size_ + rests_.size() == 0; }
  size_t size() const { return size_ + rests_.size(); }
  bool has(RequestId request) const;

  /// The next request. It stays the next one until `pop`, unless one of a higher priority is added. Not empty.
  const Admission& front() const;
  Admission pop();

  /// Ignores a request that does not wait.
  void drop(RequestId request);

 private:
  /// The waiting requests of one client and priority; at least one.
  struct Turn {
    std::string client;
    std::deque<Admission> requests;
  };

  std::deque<Admission> rests_;
  std::map<int32_t, std::list<Turn>, std::greater<>> turns_;  // by priority; each list begins with the next client
  size_t size_ = 0;                                           // of `turns_`
};

}  // namespace lockstep::actors
