// One request on its way: opens the engine's calls, collects or streams what they give.
//
//   start ─► [score of each prompt] ─► open each sequence ─► tokens … ─► done ─┬─► whole answer ─► respond
//                                                             │                └─► end of the stream
//                                              slow reader: pause, resume      client gone: all calls are dropped
#pragma once

#include <functional>
#include <memory>

#include "launcher/serve/api/api.h"
#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

/// What runs of all requests share. Outlives them.
struct RunServices {
  const ApiOptions* options;
  const Clock* clock;
  Engine* engine;
  EventLoop* loop;
  ApiObserver* observer;
};

/// On the loop's thread only.
class Run {
 public:
  virtual ~Run() = default;
  virtual void start() = 0;
  /// The client left: the engine's work ends, nothing is written.
  virtual void abandon() = 0;
  /// Sequences, open or waiting for their prompt's score.
  virtual size_t sequences() const = 0;
};

/// `facts`: number, id, endpoint, peer; the rest follows from the request. `on_end` is called once, and not from
/// `start`; the run may be destroyed from then on.
std::shared_ptr<Run> make_run(const RunServices& services, const Protocol& protocol, std::shared_ptr<Exchange> exchange,
                              ReadRequest request, ApiRequest facts, TimePoint arrived, std::function<void()> on_end);

}  // namespace lockstep::serve
