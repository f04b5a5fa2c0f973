#include "actors/host_choosers.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

using generation::Choice;
using generation::FinishReason;

Error cannot_choose(RequestId request, std::string_view what, ErrorKind kind = ErrorKind::kInvalidArgument) {
  return {kind, fmt::format("[actors] cannot choose for request {}: {}", request, what), /*origin_rank=*/0};
}

Error no_logits(RequestId request) {
  return cannot_choose(request,
                       "logits were not asked for at start, expected an engine that returns them; start with "
                       "--output-logits or with the options that need the host to choose",
                       ErrorKind::kFailedPrecondition);
}

/// The finish reason of a request that its chooser ended, from its best answer.
FinishReason reason_of(const generation::TokenChooser& chooser) {
  const std::vector<generation::Sequence> sequences = chooser.sequences();
  if (sequences.empty()) return FinishReason::kStop;
  const FinishReason reason = sequences.front().reason;
  const bool is_an_end =
      reason == FinishReason::kEos || reason == FinishReason::kLength || reason == FinishReason::kStop;
  return is_an_end ? reason : FinishReason::kStop;
}

}  // namespace

std::vector<SlotId> continue_rows(std::span<const SlotId> slots, std::span<const int32_t> sources) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> successors(slots.size(), kNone);  // the new row in the slot of row r
  for (size_t row = 0; row < sources.size(); ++row) {
    if (sources[row] == static_cast<int32_t>(row)) successors[row] = sources[row];
  }
  for (size_t row = 0; row < sources.size(); ++row) {
    int32_t& successor = successors[static_cast<size_t>(sources[row])];
    if (successor == kNone) successor = static_cast<int32_t>(row);
  }
  std::vector<SlotId> next(sources.size());
  size_t dead = 0;  // earlier rows are sources, or their slots are reassigned
  for (size_t row = 0; row < sources.size(); ++row) {
    const auto source = static_cast<size_t>(sources[row]);
    if (successors[source] == static_cast<int32_t>(row)) {
      next[row] = slots[source];
      continue;
    }
    while (successors[dead] != kNone) ++dead;
    next[row] = slots[dead++];
  }
  return next;
}

void HostChoosers::open(const Request& request, const Admission& admission) {
  LOCKSTEP_CHECK(request.chooser != nullptr, request.id);
  Entry entry{.chooser = request.chooser, .rows = {}, .budget = admission.new_tokens};
  for (const AdmittedRow& row : admission.rows) {
    entry.rows.push_back({.slot = SlotId(-1), .has_begun = !row.ids.empty()});
    entry.is_mixed |= row.parameters.long_rope != admission.rows.front().parameters.long_rope;
  }
  std::lock_guard lock(mutex_);
  const bool is_new = entries_.emplace(request.id, std::move(entry)).second;
  LOCKSTEP_CHECK(is_new, request.id);
}

void HostChoosers::close(RequestId request) {
  std::lock_guard lock(mutex_);
  entries_.erase(request);
}

std::vector<HostChoice> HostChoosers::decide(std::span<const HostSlots> hosts, std::span<const uint8_t> with_logits,
                                             const shards::StepOutput& output, shards::Decision& decision) {
  const Step step{with_logits, output, decision};
  std::vector<HostChoice> choices;
  std::lock_guard lock(mutex_);
  for (const HostSlots& host : hosts) {
    const auto runs = [&](SlotId slot) { return with_logits[index(slot)] != 0; };
    if (std::ranges::none_of(host.slots, runs)) continue;
    std::optional<HostChoice> choice;
    const auto found = entries_.find(host.request);
    if (found != entries_.end()) choice = ask(host, found->second, step);
    const bool goes_on = found != entries_.end() && !(choice && choice->finished);
    if (choice) choices.push_back(*std::move(choice));
    if (goes_on) continue;
    entries_.erase(host.request);
    for (const SlotId slot : host.slots) decision.finished[index(slot)] = runs(slot) ? 1 : 0;
  }
  return choices;
}

/// The chooser's choice, if it has all its logits. Its failures are failures of the request.
std::optional<HostChoice> HostChoosers::ask(const HostSlots& host, Entry& entry, const Step& step) {
  const RequestId request = host.request;
  if (entry.made == 0) {
    for (size_t row = 0; row < entry.rows.size(); ++row) entry.rows[row].slot = host.slots[row];
  }
  const auto failed = [&](const Error& error) {
    return HostChoice{.request = request, .certain = {}, .finished = FinishReason::kError, .error = error};
  };
  const auto threw = [&](std::string_view what) {
    return failed(cannot_choose(request, fmt::format("its token chooser failed: {}", what), ErrorKind::kInternal));
  };
  try {
    Result<std::optional<HostChoice>> choice = advance(request, entry, step);
    return choice.has_value() ? std::move(choice).assume_value() : failed(choice.error());
  } catch (const std::exception& failure) {
    return threw(failure.what());
  } catch (...) {
    return threw("it threw an unknown exception");
  }
}

Result<std::optional<HostChoice>> HostChoosers::advance(RequestId request, Entry& entry, const Step& step) {
  if (step.output.logits.empty()) return no_logits(request);
  const std::span<const float> logits = take_logits(entry, step);
  const auto waits = [](const Row& row) { return row.has_begun && !row.has_logits; };
  if (std::ranges::any_of(entry.rows, waits)) return std::nullopt;
  for (Row& row : entry.rows) row.has_logits = false;
  const Choice choice = entry.chooser->choose(logits);
  if (choice.error) return *choice.error;
  const std::span<const int32_t> certain = entry.chooser->certain();
  HostChoice told{.request = request,
                  .certain = {certain.begin(), certain.end()},
                  .records = entry.chooser->certain_records(),
                  .finished = {},
                  .error = {}};
  if (entry.rows.size() == 1) told.fed = choice.tokens;
  ++entry.made;
  if (choice.finished) {
    told.finished = reason_of(*entry.chooser);
  } else if (entry.made == entry.budget) {
    told.finished = FinishReason::kLength;
  } else {
    const auto vocabulary = static_cast<int64_t>(logits.size() / entry.rows.size());
    LOCKSTEP_TRY_VOID(check(request, entry, choice, vocabulary));
    apply(entry, choice, step.decision);
  }
  return std::optional(std::move(told));
}

/// Those of all rows so far. One row's are read where the step has them; several may arrive in several steps.
std::span<const float> HostChoosers::take_logits(Entry& entry, const Step& step) {
  const size_t vocabulary = step.output.logits.size() / step.with_logits.size();
  const auto logits_of = [&](SlotId slot) { return step.output.logits.subspan(index(slot) * vocabulary, vocabulary); };
  if (entry.rows.size() == 1) {
    Row& row = entry.rows.front();
    row.has_logits = row.has_begun && step.with_logits[index(row.slot)] != 0;
    return logits_of(row.slot);
  }
  entry.logits.resize(entry.rows.size() * vocabulary);
  for (size_t r = 0; r < entry.rows.size(); ++r) {
    Row& row = entry.rows[r];
    if (!row.has_begun || step.with_logits[index(row.slot)] == 0) continue;
    std::ranges::copy(logits_of(row.slot), entry.logits.begin() + static_cast<ptrdiff_t>(r * vocabulary));
    row.has_logits = true;
  }
  return entry.logits;
}

Result<void> HostChoosers::check(RequestId request, const Entry& entry, const Choice& choice, int64_t vocabulary) {
  const size_t rows = entry.rows.size();
  if (choice.tokens.size() != rows || choice.sources.size() != rows) {
    return cannot_choose(request, fmt::format("found {} tokens and {} sources, expected one for each of {} rows",
                                              choice.tokens.size(), choice.sources.size(), rows));
  }
  for (size_t r = 0; r < rows; ++r) {
    const int32_t token = choice.tokens[r], source = choice.sources[r];
    if (token < 0 || token >= vocabulary) {
      return cannot_choose(request,
                           fmt::format("found token {} of row {}, expected 0 to {}", token, r, vocabulary - 1));
    }
    const bool exists = source >= 0 && source < static_cast<int32_t>(rows);
    if (!exists || !entry.rows[static_cast<size_t>(source)].has_begun) {
      return cannot_choose(request,
                           fmt::format("row {} cannot go on from row {}, expected a row that has run", r, source));
    }
    if (entry.is_mixed && source != static_cast<int32_t>(r)) {
      return cannot_choose(request, fmt::format("row {} cannot go on from row {}: prompts on both sides of the "
                                                "model's original length are turned differently",
                                                r, source));
    }
  }
  return ok();
}

void HostChoosers::apply(Entry& entry, const Choice& choice, shards::Decision& decision) {
  std::vector<SlotId> slots;
  for (const Row& row : entry.rows) slots.push_back(row.slot);
  const std::vector<SlotId> next = continue_rows(slots, choice.sources);
  for (size_t r = 0; r < next.size(); ++r) {
    const SlotId source = slots[static_cast<size_t>(choice.sources[r])];
    decision.sources[index(next[r])] = source.value;
    decision.tokens[index(next[r])] = choice.tokens[r];
    entry.rows[r] = {.slot = next[r], .has_begun = true};
  }
}

}  // namespace lockstep::actors
