#include "engine/rpc/wire.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>

namespace lockstep::rpc {
namespace {

std::string_view view_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

kj::StringPtr text_of(const std::string& text) { return {text.c_str(), text.size()}; }

uint32_t index(size_t i) { return static_cast<uint32_t>(i); }

void write_ids(std::span<const int32_t> ids, capnp::List<int32_t>::Builder to) {
  for (size_t i = 0; i < ids.size(); ++i) to.set(index(i), ids[i]);
}

void write_candidates(std::span<const TokenLogprob> candidates, capnp::List<wire::Candidate>::Builder to) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    to[index(i)].setId(candidates[i].id);
    to[index(i)].setLogprob(candidates[i].logprob);
  }
}

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

/// A deadline beyond what the clock can count is none.
Result<std::optional<Duration>> deadline_of(double seconds) {
  constexpr double kLongest = 1e9;
  if (seconds > kLongest) return std::optional<Duration>();
  if (seconds >= 0.0) return std::optional(duration_of(seconds));
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[engine/rpc] deadlineS: found {}, expected 0 or more seconds; correct it", seconds)};
}

void write_presence(const RankPresence& presence, wire::Presence::Builder to) {
  to.setHost(presence.host.c_str());
  to.setSilentS(to_seconds(presence.silence));
  to.setLeaving(presence.is_leaving);
}

}  // namespace

std::vector<int32_t> read_ids(capnp::List<int32_t>::Reader from) {
  std::vector<int32_t> ids;
  ids.reserve(from.size());
  for (const int32_t id : from) ids.push_back(id);
  return ids;
}

Result<Request> read_request(wire::Request::Reader from, const Model& model) {
  // Field by field: a damaged message throws, and g++ 12 destroys the fields of an unfinished initialiser twice.
  Request request;
  request.prompt.ids = read_ids(from.getIds());
  request.prompt.negative = read_ids(from.getNegativeIds());
  request.config = model.generation();
  request.random_row = from.getRandomRow();
  request.model_logprobs = from.getModelLogprobs();
  request.special_text = from.getSpecialText();
  request.priority = from.getPriority();
  request.client = std::string(view_of(from.getClient()));
  for (const auto ids : from.getDelivered()) request.delivered.push_back(read_ids(ids));
  LOCKSTEP_TRY(request.deadline, deadline_of(from.getDeadlineS()));
  if (request.prompt.ids.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "[engine/rpc] a request: found no ids, expected at least one; send the prompt's tokens"};
  }
  for (const wire::Option::Reader option : from.getOptions()) {
    LOCKSTEP_TRY_VOID(request.config.set(view_of(option.getName()), view_of(option.getValue())));
  }
  return request;
}

void write_tokens(std::span<const SentToken> tokens, capnp::List<wire::Token>::Builder to) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const SentToken& token = tokens[i];
    wire::Token::Builder one = to[index(i)];
    one.setAnswer(index(token.answer));
    one.setId(token.id);
    one.setText(text_of(token.text));
    one.setLogprob(token.logprob.value_or(kNone));
    write_candidates(token.top, one.initTop(index(token.top.size())));
  }
}

void write_answers(std::span<const Answer> answers, capnp::List<wire::Answer>::Builder to) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    wire::Answer::Builder one = to[index(i)];
    write_ids(answer.ids, one.initIds(index(answer.ids.size())));
    one.setText(text_of(answer.text));
    one.setReason(text_of(std::string(generation::to_string(answer.reason))));
    one.setScore(answer.score.value_or(std::numeric_limits<double>::quiet_NaN()));
    one.setCachedTokens(static_cast<uint32_t>(answer.cached_tokens));
    one.setStopString(text_of(answer.stop_string));
    one.setWaitedS(to_seconds(answer.waited));
  }
}

void write_failure(const Error& error, wire::Failure::Builder to, bool abandoned) {
  to.setKind(text_of(std::string(to_string(error.kind))));
  to.setMessage(text_of(error.message));
  to.setRank(error.origin_rank.value_or(-1));
  to.setAbandoned(abandoned);
}

void write_scores(std::span<const TokenScore> scores, capnp::List<wire::Score>::Builder to) {
  for (size_t i = 0; i < scores.size(); ++i) {
    wire::Score::Builder one = to[index(i)];
    one.setId(scores[i].id);
    one.setLogprob(scores[i].logprob.value_or(kNone));
    write_candidates(scores[i].top, one.initTop(index(scores[i].top.size())));
  }
}

void write_status(const EngineCounters& counters, const trace::Activity& activity,
                  const std::vector<RankPresence>& presence, wire::Status::Builder to) {
  to.setRunning(static_cast<uint32_t>(counters.running));
  to.setQueued(static_cast<uint32_t>(counters.queued));
  to.setSubmitted(static_cast<uint64_t>(counters.submitted));
  to.setFinished(static_cast<uint64_t>(counters.finished));
  to.setPromptTokens(static_cast<uint64_t>(counters.prompt_tokens));
  to.setNewTokens(static_cast<uint64_t>(counters.new_tokens));
  to.setReusedTokens(static_cast<uint64_t>(counters.reused_tokens));
  if (!activity.steps.empty()) {
    to.setSteps(static_cast<uint64_t>(activity.steps.back().number));
    to.setStepAgeS(to_seconds(activity.read - activity.steps.back().ended));
  }
  auto ranks = to.initRanks(index(activity.ranks.size()));
  for (size_t i = 0; i < activity.ranks.size(); ++i) ranks.set(index(i), text_of(activity.ranks[i].state));
  auto present = to.initPresence(index(presence.size()));
  for (size_t i = 0; i < presence.size(); ++i) write_presence(presence[i], present[index(i)]);
}

void write_activity(const trace::Activity& activity, const std::vector<RankPresence>& presence,
                    wire::Activity::Builder to) {
  auto slots = to.initSlots(index(activity.slots.size()));
  for (size_t i = 0; i < activity.slots.size(); ++i) {
    const trace::SlotActivity& slot = activity.slots[i];
    slots[index(i)].setNumber(index(i));
    slots[index(i)].setState(trace::to_string(slot.use));
    slots[index(i)].setRequest(slot.request.value);
    slots[index(i)].setTokens(static_cast<uint32_t>(slot.tokens));
    slots[index(i)].setNewTokens(static_cast<uint32_t>(slot.new_tokens));
  }
  auto steps = to.initSteps(index(activity.steps.size()));
  for (size_t i = 0; i < activity.steps.size(); ++i) {
    const trace::StepActivity& step = activity.steps[i];
    steps[index(i)].setNumber(static_cast<uint64_t>(step.number));
    steps[index(i)].setKind(text_of(step.kind));
    steps[index(i)].setRows(static_cast<uint32_t>(step.rows));
    steps[index(i)].setSeconds(to_seconds(step.time));
    steps[index(i)].setAgeS(to_seconds(activity.read - step.ended));
  }
  auto ranks = to.initRanks(index(activity.ranks.size()));
  for (size_t i = 0; i < activity.ranks.size(); ++i) {
    ranks[index(i)].setState(text_of(activity.ranks[i].state));
    ranks[index(i)].setResidentBytes(static_cast<uint64_t>(activity.ranks[i].resident.value));
    if (i < presence.size()) write_presence(presence[i], ranks[index(i)].initPresence());
  }
}

}  // namespace lockstep::rpc
