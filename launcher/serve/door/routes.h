// The paths of the server: its own, and those that it hands to the API.
//
//   head ─► key? ─► body ─► /health*, /metrics, /admin/*, /      answered here, also without an engine
//                             └──► ready? ─► Api ─► 404
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/serve/door/engine_watch.h"
#include "launcher/serve/door/parts.h"
#include "launcher/serve/door/token_rate.h"
#include "launcher/serve/replicas/replicas.h"

namespace lockstep::serve {

/// Whether a path is answered without a key. Pure.
bool is_public(std::string_view path);

/// The server's view of its replicas: the functions of Replicas.
struct ReplicaControl {
  std::function<Result<bool>(std::optional<int> ranks, Replica::OnChanged done)> change_ranks;
  std::function<Replicas::State()> state;
};

/// On the loop's thread.
class Routes {
 public:
  using Exchanged = std::shared_ptr<Exchange>;

  Routes(DoorParts& parts, EngineWatch& watch, ReplicaControl replicas)
      : parts_(parts), watch_(watch), replicas_(std::move(replicas)) {}

  /// The answer to a request without a key where it needs one (RefuseHead), noted as all answers. Paths that are
  /// public are so without a body.
  std::optional<HttpResponse> refuse_head(const HttpRequest& head);
  /// A request whose head was not refused.
  void handle(const Exchanged& exchange);

 private:
  struct OwnPath;
  static const OwnPath kOwnPaths[];

  void answer_live(const Exchanged& exchange);
  void answer_ready(const Exchanged& exchange);
  void answer_metrics(const Exchanged& exchange);
  void answer_status(const Exchanged& exchange);
  void answer_page(const Exchanged& exchange);
  /// POST /admin/degree {"tp": N, "wait": false} is answered with 202, or with 200 where N ranks serve already; with
  /// `wait`, when they serve; with 409 where the ranks cannot change. POST /admin/restart {"wait": false} asks for new
  /// ranks, as many as serve, and is answered alike. `has_number`: the body names N.
  void change_ranks(const Exchanged& exchange, bool has_number);
  void refuse_method(const Exchanged& exchange, std::string_view expected);
  void refuse_now(const Exchanged& exchange);
  void refuse_path(const Exchanged& exchange);

  void answer_health(const Exchanged& exchange, int status);
  /// Responds, and notes the answer. Unknown paths share one time series.
  void answer(const Exchanged& exchange, HttpResponse response);
  void note_answer(const HttpRequest& request, int status);

  DoorParts& parts_;
  EngineWatch& watch_;
  const ReplicaControl replicas_;
  const TimePoint began_ = DoorParts::now();
  TokenRate rate_{began_};
};

}  // namespace lockstep::serve
