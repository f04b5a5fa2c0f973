#include "engine/python/plain_data.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace lockstep::python {
namespace {

using Matrix = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

template <typename Values>
nb::dict dict_of_fields(const Values& values) {
  nb::dict made;
  for_each_field(values, [&made](std::string_view name, const auto& field) {
    const nb::str key(name.data(), name.size());
    if constexpr (requires { field.value; }) {  // an amount of memory
      made[key] = nb::cast(field.value);
    } else {
      made[key] = nb::cast(field);
    }
  });
  return made;
}

nb::list pairs_of(const std::vector<TokenLogprob>& likeliest) {
  nb::list pairs;
  for (const TokenLogprob& one : likeliest) pairs.append(nb::make_tuple(one.id, one.logprob));
  return pairs;
}

std::string_view name_of(OptionForm form) {
  switch (form) {
    case OptionForm::kFlag: return "bool";
    case OptionForm::kNumber: return "float";
    case OptionForm::kWhole: return "int";
    case OptionForm::kIds: return "int or list of int";
    case OptionForm::kWord: return "bool or str";
    case OptionForm::kTexts: return "str or list of str";
    case OptionForm::kJson: return "list or dict";
  }
  return "object";
}

}  // namespace

nb::dict dict_of(const EngineFacts& facts) {
  nb::dict made;
  made["ranks"] = facts.ranks;
  made["threads"] = facts.threads;
  made["backend"] = facts.backend;
  made["backend_settings"] = facts.backend_settings;
  made["communicator"] = facts.communicator;
  made["dtype"] = facts.dtype;
  made["weights"] = facts.weights;
  made["kv_dtype"] = facts.kv_dtype;
  made["batch_size"] = facts.slots;
  made["max_seq_len"] = facts.capacity;
  made["prefill_chunk"] = facts.prefill_chunk;
  made["drafts"] = facts.drafts;
  made["graphs"] = facts.graphs;
  made["graphs_after_start"] = facts.graphs_after_start;
  nb::dict startup;
  for (const auto& [phase, seconds] : facts.startup) startup[phase.c_str()] = seconds;
  made["startup_s"] = startup;
  nb::list memory;
  for (const RankMemory& rank : facts.memory) memory.append(dict_of_fields(rank));
  made["memory"] = memory;
  nb::list cores;
  for (const RankCores& rank : facts.cores) cores.append(dict_of_fields(rank));
  made["cores"] = cores;
  return made;
}

nb::dict dict_of(const EngineCounters& counters) {
  nb::dict made;
  made["submitted"] = counters.submitted;
  made["finished"] = counters.finished;
  made["running"] = counters.running;
  made["queued"] = counters.queued;
  made["prompt_tokens"] = counters.prompt_tokens;
  made["new_tokens"] = counters.new_tokens;
  made["reused_tokens"] = counters.reused_tokens;
  made["drafted"] = counters.drafted;
  made["accepted"] = counters.accepted;
  return made;
}

nb::list generation_option_rows() {
  nb::list rows;
  for (const GenerationOption& option : generation_options()) {
    nb::dict row;
    row["name"] = option.name;
    row["type"] = name_of(option.form);
    row["default"] = option.default_value();
    row["allowed"] = option.allowed;
    row["help"] = option.help;
    rows.append(row);
  }
  return rows;
}

nb::dict dict_of(const std::vector<TokenScore>& text) {
  nb::list ids, logprobs, top;
  for (const TokenScore& token : text) {
    ids.append(token.id);
    logprobs.append(token.logprob);
    top.append(pairs_of(token.top));
  }
  nb::dict row;
  row["ids"] = ids;
  row["logprobs"] = logprobs;
  row["top"] = top;
  return row;
}

nb::object logits_of(FinishedAnswer& finished, nb::handle owner) {
  std::vector<float>& logits = finished.answer.logits;
  if (logits.empty()) return nb::none();
  return nb::cast(Matrix(logits.data(), {logits.size() / finished.vocabulary, finished.vocabulary}, owner));
}

nb::object scores_of(const FinishedAnswer& finished) {
  const auto& records = finished.answer.records;
  if (records.empty() || records.front()->scores.empty()) return nb::none();
  auto values = std::make_unique_for_overwrite<float[]>(records.size() * finished.vocabulary);
  for (size_t token = 0; token < records.size(); ++token) {
    std::ranges::copy(records[token]->scores, values.get() + token * finished.vocabulary);
  }
  float* const data = values.get();
  const nb::capsule owner(values.release(), [](void* memory) noexcept { delete[] static_cast<float*>(memory); });
  return nb::cast(Matrix(data, {records.size(), finished.vocabulary}, owner));
}

nb::object logprobs_of(const FinishedAnswer& finished) {
  const auto& records = finished.answer.records;
  if (records.empty() || records.front()->top.empty()) return nb::none();
  nb::list logprobs;
  for (const auto& record : records) logprobs.append(nb::make_tuple(record->logprob, pairs_of(record->top)));
  return logprobs;
}

nb::object token_times_of(const FinishedAnswer& finished) {
  const TokenTimes& times = finished.answer.times;
  auto values = std::make_unique<double[]>(times.made.size());
  for (size_t token = 0; token < times.made.size(); ++token) {
    values[token] = std::chrono::duration<double>(times.made[token] - times.submitted).count();
  }
  double* const data = values.get();
  const nb::capsule owner(values.release(), [](void* memory) noexcept { delete[] static_cast<double*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(data, {times.made.size()}, owner));
}

}  // namespace lockstep::python
