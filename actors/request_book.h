// Rank 0's account of the requests that have not ended: which schedule gave which slot to whom, how many tokens each
// has, when it is over. It applies the same stopping rules as the device state of the ranks, to the same tokens, so the
// two agree without a message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/request.h"
#include "actors/schedule.h"

namespace lockstep::actors {

/// Feeds the sinks. Used by one thread; sinks are called from inside its methods.
class RequestBook {
 public:
  using Occupants = std::vector<std::optional<RequestId>>;  // [slots]

  /// `sink` is borrowed until `on_finish` of the request has returned. The id must be new.
  void open(const Request& request, Sink& sink);
  bool has(RequestId request) const { return requests_.contains(request); }
  bool empty() const { return requests_.empty(); }

  /// Notes who owns the slots while schedule `number` runs.
  void note_schedule(int32_t number, Occupants occupants);
  /// Forgets it: its last result has been taken. Returns the requests that are still open though no schedule that is
  /// noted holds them any more.
  std::vector<RequestId> drop_schedule(int32_t number);

  /// Whether all noted schedules, at least one, give `slot` to `request`: what is said about the slot now cannot hit
  /// another request.
  bool owns(RequestId request, SlotId slot) const;

  /// A request that ended while a result was taken.
  struct Ended {
    RequestId request;
    SlotId slot;
    generation::FinishReason reason = generation::FinishReason::kError;
  };

  /// Hands the tokens of a step to the sinks of their requests. Returns the requests that this ended.
  std::vector<Ended> take(const StepResult& result);

  /// Ends a request now; nothing when it is not open.
  void close(RequestId request, generation::FinishReason reason, const std::optional<Error>& error = std::nullopt);

  /// Ends every request with `error`.
  void fail_all(const Error& error);

 private:
  struct Open {
    int32_t max_new_tokens = 1;
    std::vector<int32_t> eos_ids;
    Logits logits = Logits::kOmit;
    Sink* sink = nullptr;
    int32_t made = 0;
  };

  static std::optional<generation::FinishReason> after_token(Open& open, int32_t token, Verdict verdict);

  std::map<RequestId, Open> requests_;
  std::map<int32_t, Occupants> schedules_;
};

}  // namespace lockstep::actors
