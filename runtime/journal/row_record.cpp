#include "runtime/journal/row_record.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include "runtime/journal/row_record.capnp.h"

namespace lockstep::journal {
namespace {

Error no_record(std::string_view why) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/journal] cannot read a record: {}", why)};
}

std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

capnp::Text::Reader to_text(const std::string& text) { return {text.c_str(), text.size()}; }

template <typename List>
void put_facts(List list, const std::vector<Fact>& facts) {
  for (uint32_t i = 0; i < list.size(); ++i) {
    list[i].setName(to_text(facts[i].name));
    list[i].setValue(to_text(facts[i].value));
  }
}

std::vector<Fact> read_facts(capnp::List<wire::Fact>::Reader list) {
  std::vector<Fact> facts;
  for (const auto fact : list) facts.push_back({to_string(fact.getName()), to_string(fact.getValue())});
  return facts;
}

uint32_t count(const auto& list) { return static_cast<uint32_t>(list.size()); }

void put_answer(wire::Answer::Builder to, const RowAnswer& answer) {
  auto tokens = to.initTokens(count(answer.tokens));
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens.set(i, answer.tokens[i]);
  to.setText(to_text(answer.text));
  to.setFinishReason(to_text(answer.finish_reason));
  if (answer.score) to.getScore().setValue(*answer.score);
  auto logprobs = to.initLogprobs(count(answer.logprobs));
  for (uint32_t i = 0; i < logprobs.size(); ++i) logprobs.set(i, answer.logprobs[i]);
  auto likeliest = to.initLikeliest(count(answer.likeliest));
  for (uint32_t i = 0; i < likeliest.size(); ++i) {
    auto tokens_of_step = likeliest.init(i, count(answer.likeliest[i]));
    for (uint32_t t = 0; t < tokens_of_step.size(); ++t) {
      tokens_of_step[t].setId(answer.likeliest[i][t].id);
      tokens_of_step[t].setLogprob(answer.likeliest[i][t].logprob);
    }
  }
}

RowAnswer read_answer(wire::Answer::Reader from) {
  RowAnswer answer;
  for (const int32_t token : from.getTokens()) answer.tokens.push_back(token);
  answer.text = to_string(from.getText());
  answer.finish_reason = to_string(from.getFinishReason());
  if (from.getScore().isValue()) answer.score = from.getScore().getValue();
  for (const float logprob : from.getLogprobs()) answer.logprobs.push_back(logprob);
  for (const auto step : from.getLikeliest()) {
    auto& likeliest = answer.likeliest.emplace_back();
    for (const auto token : step) likeliest.push_back({token.getId(), token.getLogprob()});
  }
  return answer;
}

RowResult read_row(wire::Row::Reader from) {
  RowResult row{.row = from.getRow(), .answers = {}, .error = to_string(from.getError())};
  for (const auto answer : from.getAnswers()) row.answers.push_back(read_answer(answer));
  return row;
}

std::vector<std::byte> bytes_of(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

/// Calls `read` with the message in `payload`; exceptions of Cap'n Proto become an error.
template <typename Read>
auto with_message(std::span<const std::byte> payload, Read read) -> decltype(read(wire::Record::Reader())) {
  if (payload.size() % sizeof(capnp::word) != 0) return no_record("found a part of a word at its end");
  const auto* words = reinterpret_cast<const capnp::word*>(payload.data());
  const size_t size = payload.size() / sizeof(capnp::word);
  // A valid message is read once; a few times its size allows for lists of empty lists.
  const capnp::ReaderOptions limits{.traversalLimitInWords = 8 * size + 1024, .nestingLimit = 16};
  try {
    capnp::FlatArrayMessageReader message(kj::arrayPtr(words, size), limits);
    return read(message.getRoot<wire::Record>());
  } catch (const kj::Exception& failure) {
    return no_record(failure.getDescription().cStr());
  }
}

Result<JobDescription> read_job(wire::Job::Reader from) {
  if (from.getVersion() != kVersion) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/journal] cannot go on with a journal of format {}: expected {}; finish it with "
                             "the program that began it, or begin a new one in another folder",
                             from.getVersion(), kVersion)};
  }
  return JobDescription{from.getRows(), read_facts(from.getFacts()), read_facts(from.getNotes())};
}

}  // namespace

std::vector<std::byte> encode(const JobDescription& job) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Record>().initJob();
  to.setVersion(kVersion);
  to.setRows(job.rows);
  put_facts(to.initFacts(count(job.facts)), job.facts);
  put_facts(to.initNotes(count(job.notes)), job.notes);
  return bytes_of(message);
}

std::vector<std::byte> encode(std::span<const RowResult> rows) {
  capnp::MallocMessageBuilder message;
  auto list = message.initRoot<wire::Record>().initRows(count(rows));
  for (uint32_t i = 0; i < list.size(); ++i) {
    list[i].setRow(rows[i].row);
    list[i].setError(to_text(rows[i].error));
    auto answers = list[i].initAnswers(count(rows[i].answers));
    for (uint32_t a = 0; a < answers.size(); ++a) put_answer(answers[a], rows[i].answers[a]);
  }
  return bytes_of(message);
}

Result<Record> decode(std::span<const std::byte> payload) {
  return with_message(payload, [](wire::Record::Reader record) -> Result<Record> {
    if (record.isJob()) {
      LOCKSTEP_TRY(JobDescription job, read_job(record.getJob()));
      return Record(std::move(job));
    }
    if (!record.isRows()) return no_record("found neither a job nor rows");
    std::vector<RowResult> rows;
    for (const auto row : record.getRows()) rows.push_back(read_row(row));
    return Record(std::move(rows));
  });
}

Result<RowResult> decode_row(std::span<const std::byte> payload, size_t index) {
  return with_message(payload, [&](wire::Record::Reader record) -> Result<RowResult> {
    if (!record.isRows() || index >= record.getRows().size()) {
      return no_record(fmt::format("found no row at index {}", index));
    }
    return read_row(record.getRows()[static_cast<uint32_t>(index)]);
  });
}

}  // namespace lockstep::journal
