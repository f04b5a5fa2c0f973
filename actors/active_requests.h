// Rank 0's account of the requests that have not ended: which schedule gave which slots to whom, how many tokens each
// has, when it is over. It applies the same stopping rules as the device state of the ranks, to the same tokens, so the
// two agree without a message. Where the host chooses, its chooser says when.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/host_choosers.h"
#include "actors/request.h"
#include "actors/schedule.h"

namespace lockstep::actors {

/// Feeds the sinks. Used by one thread; sinks are called from inside its methods.
class ActiveRequests {
 public:
  using Occupants = std::vector<std::optional<RequestId>>;  // [slots]

  /// A request leaves `choosers`, which is borrowed, before its sink is told that it is over.
  explicit ActiveRequests(HostChoosers* choosers = nullptr) : choosers_(choosers) {}

  /// `sink` is borrowed until `on_finish` of the request has returned. The id must be new.
  void open(const Request& request, Sink& sink);
  bool has(RequestId request) const { return requests_.contains(request); }
  bool empty() const { return requests_.empty(); }

  /// After `tokens` more tokens the rest of `request` is run anew: `take` then returns it.
  void divide(const Request& request, int64_t tokens);

  /// Notes who owns the slots while schedule `number` runs.
  void note_schedule(int32_t number, Occupants occupants);
  /// Reports how many tokens of the request's prompt need no prefill.
  void note_reused(RequestId request, int64_t tokens);
  /// Forgets it: its last result has been taken. Returns the requests that are still open though no schedule that is
  /// noted holds them any more.
  std::vector<RequestId> drop_schedule(int32_t number);

  /// Whether all noted schedules, at least one, give `slot` to `request`: what is said about the slot now cannot hit
  /// another request.
  bool owns(RequestId request, SlotId slot) const;

  /// A request that ended while a result was taken.
  struct Ended {
    RequestId request;
    generation::FinishReason reason = generation::FinishReason::kError;
  };
  /// What became of requests.
  struct Taken {
    std::vector<Ended> ended;
    std::vector<Request> rests;                       // of requests that were divided: to be admitted now
    std::vector<std::pair<RequestId, int32_t>> made;  // tokens, in their order
  };

  /// Hands the tokens and scores of a step to the sinks of their requests.
  Taken take(const StepResult& result);

  /// Ends a request now; nothing when it is not open.
  void close(RequestId request, generation::FinishReason reason, const std::optional<Error>& error = std::nullopt);

  /// Abandons every request with `error`.
  void fail_all(const Error& error);

 private:
  /// The first part of a request that goes on anew.
  struct Part {
    Request request;
    int64_t size = 0;  // tokens
    std::vector<int32_t> tokens;
  };
  struct Open {
    int64_t budget = 1;  // new tokens, or scores of a text, to come
    std::vector<int32_t> eos_ids;
    Logits logits = Logits::kOmit;
    bool host_chosen = false;
    Sink* sink = nullptr;
    bool has_started = false;
    std::optional<Part> part;
    int32_t from_schedule = 0;  // what its slots make in older ones is padding
  };

  /// Its sink; null when it is not open.
  Sink* remove(RequestId request);
  void take_slot(const StepResult& result, size_t slot, RequestId request, Taken& taken);
  void take_scores(const StepResult& result, Taken& taken);
  void take_choice(const HostChoice& choice, TimePoint made, Taken& taken);
  void end(RequestId request, generation::FinishReason reason, const std::optional<Error>& error, Taken& taken);
  bool end_part(Open& open, int32_t token, Taken& taken) const;

  static std::optional<generation::FinishReason> after_token(Open& open, int32_t token, Verdict verdict);

  HostChoosers* choosers_;
  std::map<RequestId, Open> requests_;
  std::map<int32_t, Occupants> schedules_;
};

}  // namespace lockstep::actors
