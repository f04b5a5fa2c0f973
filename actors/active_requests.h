// Open requests on rank 0: their slots by schedule, their tokens, and when each ends.
//
// The stopping rules are those of the ranks' device state and are applied to the same tokens, so both agree without a
// message. A request with a chooser ends when its chooser says so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
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

  /// A request is removed from `choosers`, which is borrowed, before its sink receives `on_finish`.
  explicit ActiveRequests(HostChoosers* choosers = nullptr) : choosers_(choosers) {}

  /// `sink` is borrowed until `on_finish` of the request has returned. The id must be new.
  void open(const Request& request, Sink& sink);
  bool has(RequestId request) const { return requests_.contains(request); }
  bool empty() const { return requests_.empty(); }

  /// After `tokens` more tokens, `take` returns the rest of `request`, which is then admitted again.
  void divide(const Request& request, int64_t tokens);

  /// Notes the owners of the slots during schedule `number`.
  void note_schedule(int32_t number, Occupants occupants);
  /// Reports how many tokens of the request's prompt need no prefill.
  void note_reused(RequestId request, int64_t tokens);
  /// Forgets the oldest schedule after its last result. Returns the requests that are still open but in no noted
  /// schedule.
  std::vector<RequestId> drop_schedule(int32_t number);

  /// Whether all noted schedules, at least one, give `slot` to `request`, so that a message about the slot cannot
  /// affect another request.
  bool owns(RequestId request, SlotId slot) const;

  /// A request that ended while a result was taken.
  struct Ended {
    RequestId request;
    generation::FinishReason reason = generation::FinishReason::kError;
  };
  /// Changes of requests by one result.
  struct Taken {
    std::vector<Ended> ended;
    std::vector<Request> rests;                       // of divided requests, to be admitted now
    std::vector<std::pair<RequestId, int32_t>> made;  // tokens, in their order
  };

  /// Hands the tokens and scores of a step to the sinks of their requests.
  Taken take(const StepResult& result);

  /// Ends a request now. Ignores a request that is not open.
  void close(RequestId request, generation::FinishReason reason, const std::optional<Error>& error = std::nullopt);

  /// Abandons every request with `error`.
  void fail_all(const Error& error);

 private:
  /// The first part of a divided request.
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
    int32_t from_schedule = 0;  // tokens of its slots in older schedules are padding
  };

  /// Its sink; null when it is not open.
  Sink* remove(RequestId request);
  void take_slot(const StepResult& result, size_t slot, RequestId request, Taken& taken);
  static std::span<const float> logits_of(const StepResult& result, size_t slot);
  void take_scores(int32_t schedule, const ScoredRows& scored, Taken& taken);
  void take_choice(const HostChoice& choice, TimePoint made, Taken& taken);
  void end(RequestId request, generation::FinishReason reason, const std::optional<Error>& error, Taken& taken);
  bool end_part(Open& open, int32_t token, Taken& taken) const;

  static std::optional<generation::FinishReason> after_token(Open& open, int32_t token, Verdict verdict);

  HostChoosers* choosers_;
  std::map<RequestId, Open> requests_;
  std::map<int32_t, Occupants> schedules_;
};

}  // namespace lockstep::actors
