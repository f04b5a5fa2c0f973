// The library's values as Python's plain data: dicts, lists and numpy arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/python/pending.h"
#include "lockstep/engine.h"

namespace lockstep::python {

/// Options, and those that were set, for other processes.
struct ChangedConfig : GenerationConfig {
  std::vector<std::pair<std::string, std::string>> changes = {};  // name, JSON
};

nb::dict dict_of(const EngineFacts& facts);
nb::dict dict_of(const EngineCounters& counters);
/// The table of generation options, one dict each.
nb::list generation_option_rows();

/// {"ids", "logprobs", "top"}; the first token has no log-probability: None.
nb::dict dict_of(const std::vector<TokenScore>& text);

/// f32 [ids, V] of one answer; None where the request did not ask for it. `owner` keeps the answer's memory.
nb::object logits_of(FinishedAnswer& finished, nb::handle owner);
/// The same of processed scores.
nb::object scores_of(const FinishedAnswer& finished);
/// [(log-probability, [(id, log-probability) of the likeliest])] by token; None likewise.
nb::object logprobs_of(const FinishedAnswer& finished);
/// f64 [tokens]: seconds since the submission.
nb::object token_times_of(const FinishedAnswer& finished);

}  // namespace lockstep::python
