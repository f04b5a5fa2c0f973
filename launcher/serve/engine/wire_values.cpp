#include "launcher/serve/engine/wire_values.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "runtime/core/error_kinds.h"

namespace lockstep::serve {
namespace {

std::string string_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

std::optional<float> number_of(float value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

std::vector<EngineCandidate> candidates_of(capnp::List<wire::Candidate>::Reader from) {
  std::vector<EngineCandidate> top;
  top.reserve(from.size());
  for (const auto one : from) top.push_back({one.getId(), one.getLogprob()});
  return top;
}

RankPresence presence_of(wire::Presence::Reader from) {
  return {.host = string_of(from.getHost()), .silent_s = from.getSilentS(), .leaves = from.getLeaving()};
}

void write_ids(const std::vector<int32_t>& ids, capnp::List<int32_t>::Builder to) {
  for (uint32_t i = 0; i < to.size(); ++i) to.set(i, ids[i]);
}

}  // namespace

Error error_of(wire::Failure::Reader failure) {
  Error error{error_kind_named(failure.getKind().cStr()).value_or(ErrorKind::kInternal), failure.getMessage().cStr()};
  if (failure.getAbandoned()) error.kind = ErrorKind::kPeerLost;
  if (failure.getRank() >= 0) error.origin_rank = failure.getRank();
  return error;
}

std::vector<EngineToken> tokens_of(capnp::List<wire::Token>::Reader from) {
  std::vector<EngineToken> tokens;
  tokens.reserve(from.size());
  for (const auto one : from) {
    tokens.push_back({one.getAnswer(), one.getId(), string_of(one.getText()), number_of(one.getLogprob()),
                      candidates_of(one.getTop())});
  }
  return tokens;
}

std::vector<EngineAnswer> answers_of(capnp::List<wire::Answer>::Reader from) {
  std::vector<EngineAnswer> answers;
  for (const auto one : from) {
    EngineAnswer answer{.ids = {},
                        .text = string_of(one.getText()),
                        .reason = string_of(one.getReason()),
                        .cached_tokens = one.getCachedTokens(),
                        .stop_string = string_of(one.getStopString()),
                        .waited_s = one.getWaitedS()};
    for (const int32_t id : one.getIds()) answer.ids.push_back(id);
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<std::vector<EngineScore>> scores_of(wire::Scored::Reader from) {
  if (from.isFailure()) return error_of(from.getFailure());
  std::vector<EngineScore> scores;
  for (const auto one : from.getTokens()) {
    scores.push_back({one.getId(), number_of(one.getLogprob()), candidates_of(one.getTop())});
  }
  return scores;
}

EngineFacts facts_of(wire::Facts::Reader from) {
  std::vector<EngineAddress> replicas;
  for (const auto one : from.getReplicas()) {
    const auto secret = one.getSecret().asChars();
    replicas.push_back({.socket = string_of(one.getSocket()),
                        .host = string_of(one.getHost()),
                        .port = one.getPort(),
                        .secret = {secret.begin(), secret.end()}});
  }
  return {.model = string_of(from.getModel()),
          .identity = string_of(from.getIdentity()),
          .ranks = static_cast<int>(from.getRanks()),
          .slots = from.getSlots(),
          .capacity = from.getCapacity(),
          .vocabulary = from.getVocabulary(),
          .backend = string_of(from.getBackend()),
          .dtype = string_of(from.getDtype()),
          .replicas = std::move(replicas)};
}

EngineStatus status_of(wire::Status::Reader from) {
  EngineStatus status{.running = from.getRunning(),
                      .queued = from.getQueued(),
                      .submitted = from.getSubmitted(),
                      .finished = from.getFinished(),
                      .prompt_tokens = from.getPromptTokens(),
                      .new_tokens = from.getNewTokens(),
                      .reused_tokens = from.getReusedTokens(),
                      .steps = from.getSteps()};
  if (!std::isnan(from.getStepAgeS())) status.step_age_s = from.getStepAgeS();
  for (const auto rank : from.getRanks()) status.ranks.push_back(string_of(rank));
  for (const auto one : from.getPresence()) status.presence.push_back(presence_of(one));
  return status;
}

EngineActivity activity_of(wire::Activity::Reader from) {
  EngineActivity activity;
  for (const auto slot : from.getSlots()) {
    activity.slots.push_back({string_of(slot.getState()), slot.getRequest(), slot.getTokens(), slot.getNewTokens()});
  }
  for (const auto step : from.getSteps()) {
    activity.steps.push_back(
        {step.getNumber(), string_of(step.getKind()), step.getRows(), step.getSeconds(), step.getAgeS()});
  }
  for (const auto rank : from.getRanks()) {
    activity.ranks.push_back({string_of(rank.getState()), rank.getResidentBytes(), presence_of(rank.getPresence())});
  }
  return activity;
}

void write_request(const EngineRequest& from, wire::Request::Builder to) {
  write_ids(from.ids, to.initIds(static_cast<uint32_t>(from.ids.size())));
  auto options = to.initOptions(static_cast<uint32_t>(from.options.size()));
  for (uint32_t i = 0; i < options.size(); ++i) {
    options[i].setName(from.options[i].first.c_str());
    options[i].setValue(from.options[i].second.c_str());
  }
  to.setRandomRow(from.random_row);
  if (from.model_logprobs) to.setModelLogprobs(*from.model_logprobs);
  to.setConstraint(from.constraint.c_str());
  to.setSpecialText(from.special_text);
  to.setPriority(from.priority);
  to.setClient(from.client.c_str());
  if (from.deadline_s) to.setDeadlineS(*from.deadline_s);
  auto delivered = to.initDelivered(static_cast<uint32_t>(from.delivered.size()));
  for (uint32_t i = 0; i < delivered.size(); ++i)
    write_ids(from.delivered[i], delivered.init(i, static_cast<uint32_t>(from.delivered[i].size())));
}

}  // namespace lockstep::serve
