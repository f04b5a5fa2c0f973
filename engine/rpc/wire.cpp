#include "engine/rpc/wire.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>

namespace lockstep::rpc {
namespace {

std::string_view view_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

kj::StringPtr text_of(const std::string& text) { return {text.c_str(), text.size()}; }

std::vector<int32_t> ids_of(capnp::List<int32_t>::Reader from) {
  std::vector<int32_t> ids;
  ids.reserve(from.size());
  for (const int32_t id : from) ids.push_back(id);
  return ids;
}

uint32_t index(size_t i) { return static_cast<uint32_t>(i); }

void write_ids(std::span<const int32_t> ids, capnp::List<int32_t>::Builder to) {
  for (size_t i = 0; i < ids.size(); ++i) to.set(index(i), ids[i]);
}

}  // namespace

Result<Request> read_request(wire::Request::Reader from, const Model& model) {
  Request request{.prompt = {.ids = ids_of(from.getIds()), .negative = ids_of(from.getNegativeIds())},
                  .config = model.generation(),
                  .random_row = from.getRandomRow()};
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
    one.setLogprob(token.logprob.value_or(std::numeric_limits<float>::quiet_NaN()));
    auto top = one.initTop(index(token.top.size()));
    for (size_t k = 0; k < token.top.size(); ++k) {
      top[index(k)].setId(token.top[k].id);
      top[index(k)].setLogprob(token.top[k].logprob);
    }
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
  }
}

void write_failure(const Error& error, wire::Failure::Builder to) {
  to.setKind(text_of(std::string(to_string(error.kind))));
  to.setMessage(text_of(error.message));
  to.setRank(error.origin_rank.value_or(-1));
}

void write_status(const EngineCounters& counters, wire::Status::Builder to) {
  to.setRunning(static_cast<uint32_t>(counters.running));
  to.setQueued(static_cast<uint32_t>(counters.queued));
  to.setSubmitted(static_cast<uint64_t>(counters.submitted));
  to.setFinished(static_cast<uint64_t>(counters.finished));
  to.setPromptTokens(static_cast<uint64_t>(counters.prompt_tokens));
  to.setNewTokens(static_cast<uint64_t>(counters.new_tokens));
  to.setReusedTokens(static_cast<uint64_t>(counters.reused_tokens));
}

}  // namespace lockstep::rpc
