// The extension module lockstep._lockstep: the library's door for the package lockstep, which users import.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "engine/python/errors.h"
#include "engine/python/inspection.h"
#include "engine/python/open_model.h"
#include "engine/python/plain_data.h"
#include "engine/python/ranks.h"

namespace lockstep::python {
namespace {

using namespace nanobind::literals;

using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<int32_t> vector_of(const Ids& ids) { return {ids.data(), ids.data() + ids.size()}; }

void bind_generation_config(nb::module_& module) {
  nb::class_<ChangedConfig>(module, "GenerationConfig")
      .def("copy", [](const ChangedConfig& config) { return ChangedConfig{config}; })
      .def("set",
           [](ChangedConfig& config, const std::string& name, const std::string& json) {
             value_of(config.set(name, json));
             config.changes.emplace_back(name, json);
           })
      .def_ro("changes", &ChangedConfig::changes)
      .def("validate", [](const ChangedConfig& config) { value_of(config.validate()); })
      .def("validate_streaming", [](const ChangedConfig& config) { value_of(config.validate_streaming()); })
      .def_ro("num_beams", &ChangedConfig::num_beams)
      .def_ro("num_return_sequences", &ChangedConfig::num_return_sequences)
      .def_ro("eos_token_ids", &ChangedConfig::eos_token_ids)
      .def_ro("bos_token_id", &ChangedConfig::bos_token_id)
      .def_ro("stop_strings", &ChangedConfig::stop_strings)
      .def_ro("pad_token_id", &ChangedConfig::pad_token_id)
      .def_ro("output_scores", &ChangedConfig::output_scores)
      .def_ro("output_logits", &ChangedConfig::output_logits);
  // Fails for options that are not supported; returns those that are not known.
  module.def("unknown_options", [](std::string_view json, std::string_view origin) {
    return value_of(generation::parse_generation_config(json, origin)).ignored;
  });
  module.def("generation_options", generation_option_rows);
}

void bind_answers(nb::module_& module) {
  nb::class_<FinishedAnswer>(module, "Answer", "One answer to a prompt.")
      .def_prop_ro(
          "token_ids", [](const FinishedAnswer& self) { return self.answer.ids; },
          "The new ids, up to and with the end token.")
      .def_prop_ro(
          "text", [](const FinishedAnswer& self) { return self.answer.text; },
          "Their text, cut before a stop string; empty without a tokenizer.")
      .def_prop_ro(
          "finish_reason", [](const FinishedAnswer& self) { return to_string(self.answer.reason); },
          "'eos', 'length', 'stop' or 'cancelled'.")
      .def_prop_ro(
          "stop_string", [](const FinishedAnswer& self) { return self.answer.stop_string; },
          "The stop string that ended it; empty: none.")
      .def_prop_ro(
          "sequence_score", [](const FinishedAnswer& self) { return self.answer.score; },
          "Of a beam: the sum of log-probabilities over length ** length_penalty; None without beams.")
      .def_prop_ro(
          "cached_tokens", [](const FinishedAnswer& self) { return self.answer.cached_tokens; },
          "Tokens of the prompt that the KV cache already held.")
      .def_prop_ro("logprobs", logprobs_of,
                   "With top_logprobs: (log-probability, [(id, log-probability), ...]) for each token; else None.")
      .def_prop_ro("scores", scores_of, "With output_scores: float32 [tokens, vocabulary], processed; else None.")
      .def_prop_ro(
          "logits", [](nb::pointer_and_handle<FinishedAnswer> self) { return logits_of(*self.p, self.h); },
          "With output_logits: float32 [tokens, vocabulary], raw; else None.")
      .def_prop_ro("token_times", token_times_of,
                   "Seconds from the submission to each token, float64 [tokens]; empty with beams.")
      .def("__repr__", [](nb::handle self) {
        return nb::str("Answer(text={!r}, finish_reason={!r})").format(self.attr("text"), self.attr("finish_reason"));
      });
}

void bind_pending(nb::module_& module) {
  nb::class_<StreamedToken>(module, "StreamedToken")
      .def_ro("index", &StreamedToken::index)
      .def_ro("id", &StreamedToken::id)
      .def_ro("text", &StreamedToken::text);
  nb::class_<PendingRequests>(module, "PendingRequests")
      .def("wait_done", &PendingRequests::wait_done)
      .def("is_done", &PendingRequests::is_done)
      .def("cancel", &PendingRequests::cancel)
      .def("next_token", &PendingRequests::next_token)
      .def("take_token", &PendingRequests::take_token)
      .def("set_listener", &PendingRequests::set_listener)
      .def("answers", &PendingRequests::answers)
      .def("answers_if_done", &PendingRequests::answers_if_done)
      .def("__len__", &PendingRequests::size);
  nb::class_<PendingTexts>(module, "PendingTexts").def("scores", [](PendingTexts& texts) {
    nb::list rows;
    for (const std::vector<TokenScore>& text : texts.scores()) rows.append(dict_of(text));
    return rows;
  });
}

using Embeddings = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// (ids, negative ids or None, number of ids that a mask hid inside, PromptRow::number, embeddings in place of ids).
using GivenRow = std::tuple<Ids, std::optional<Ids>, int64_t, std::optional<size_t>, std::optional<Embeddings>>;

std::vector<PromptRow> rows_of(const std::vector<GivenRow>& given) {
  std::vector<PromptRow> rows;
  for (const auto& [ids, negative, masked_inside, number, embeddings] : given) {
    PromptRow& row =
        rows.emplace_back(PromptRow{.ids = vector_of(ids), .masked_inside = masked_inside, .number = number});
    if (negative) row.negative = vector_of(*negative);
    if (!embeddings) continue;
    row.ids.assign(embeddings->shape(0), kEmbedded);
    row.embeddings.assign(embeddings->data(), embeddings->data() + embeddings->size());
  }
  return rows;
}

text::SpecialTokens special_tokens(bool adds) { return adds ? text::SpecialTokens::kAdd : text::SpecialTokens::kOmit; }

std::string decode(const OpenModel& open, const std::vector<int32_t>& ids, bool skips_special) {
  const auto special = skips_special ? text::SpecialPieces::kSkip : text::SpecialPieces::kKeep;
  return value_of(open.model().decode(ids, special));
}

/// `messages`: JSON objects; `variables`: a JSON object of the template's other variables; `continued`: the field of
/// the last message that the answer continues, or empty.
std::string render_chat(const OpenModel& open, const std::vector<std::string>& messages, bool add_generation_prompt,
                        const std::string& variables, const std::string& continued) {
  std::vector<text::Message> turns;
  for (const std::string& fields : messages) turns.push_back({.role = {}, .content = {}, .fields_json = fields});
  return value_of(open.model().render_chat(
      turns,
      {.add_generation_prompt = add_generation_prompt, .variables_json = variables, .continued_field = continued}));
}

/// Options of the files, and of the engine.
struct OpenOptions {
  ModelOptions model;
  EngineOptions engine;
};

Error wrong_option(std::string_view name, const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument, fmt::format("[lockstep] {}: found {}, expected {}", name, found, expected)};
}

MatrixFormat weights_of(const std::string& text) {
  const std::optional<MatrixFormat> format = served_format(text);
  if (!format)
    value_of(
        Result<void>(wrong_option("weights", text, "\"q4\", \"q8\" or \"int8\", each with \":GROUP\" or without")));
  return *format;
}

ActivationFormat activations_of(const std::string& text) {
  if (text == "int8") return ActivationFormat::kInt8ByGroup;
  if (text != "elements") value_of(Result<void>(wrong_option("activations", text, "\"elements\" or \"int8\"")));
  return ActivationFormat::kElements;
}

CacheType kv_dtype_of(const std::string& text) {
  const std::optional<CacheType> type = cache_type_from_text(text);
  if (!type || *type == CacheType::kModel) {
    value_of(Result<void>(wrong_option("kv_dtype", text, "\"int8\" or \"fp8\", or None for the activations' type")));
  }
  return *type;
}

OpenOptions open_options(const std::optional<std::string>& dtype, const std::optional<std::string>& weights,
                         const std::optional<std::string>& activations, const std::optional<std::string>& kv_dtype,
                         std::optional<int64_t> batch_size, std::optional<int64_t> max_seq_len, int64_t prefill_chunk,
                         std::optional<int> threads, const std::string& backend,
                         const std::map<std::string, std::string>& backend_options,
                         std::optional<int64_t> memory_budget, double check_weights_s, bool scoring,
                         int64_t max_logprobs, bool prompt_embeddings, const std::optional<std::string>& draft_model,
                         int64_t drafts, bool looks_up) {
  OpenOptions options{.model = {},
                      .engine = {.slots = batch_size,
                                 .capacity = max_seq_len,
                                 .prefill_chunk = prefill_chunk,
                                 .backend = backend,
                                 .backend_options = backend_options,
                                 .threads = threads,
                                 .scoring = scoring ? Scoring::kOn : Scoring::kOff,
                                 .scored_top = max_logprobs,
                                 .check_weights_s = check_weights_s}};
  if (prompt_embeddings) options.engine.prompt_embeddings = PromptEmbeddings::kOn;
  if (weights) options.model.weights = weights_of(*weights);
  if (activations) options.model.activations = activations_of(*activations);
  if (dtype) options.model.dtype = value_of(dtype_from_config_name(*dtype));
  if (kv_dtype) options.model.kv_dtype = kv_dtype_of(*kv_dtype);
  options.engine.drafting.tokens = drafts;
  if (draft_model) options.engine.drafting.model = *draft_model;
  if (looks_up) options.engine.drafting.lookup_ngram = GenerationConfig().max_matching_ngram_size;
  if (memory_budget) options.engine.memory_budget = Bytes(*memory_budget);
  return options;
}

void bind_ranks(nb::module_& module) {
  nb::class_<OpenOptions>(module, "OpenOptions");
  module.def("open_options", open_options, nb::kw_only(), "dtype"_a.none(), "weights"_a.none(), "activations"_a.none(),
             "kv_dtype"_a.none(), "batch_size"_a.none(), "max_seq_len"_a.none(), "prefill_chunk"_a, "threads"_a.none(),
             "backend"_a, "backend_options"_a, "memory_budget"_a.none(), "check_weights_s"_a, "scoring"_a,
             "max_logprobs"_a, "prompt_embeddings"_a, "draft_model"_a.none(), "drafts"_a, "looks_up"_a);
  nb::class_<Ranks>(module, "Ranks")
      .def(nb::init<std::optional<int>, nb::object, nb::object, nb::object>(), "communicator"_a.none(), "log"_a,
           "set_variable"_a, "end_process"_a)
      .def_prop_ro("rank", &Ranks::rank)
      .def_prop_ro("size", &Ranks::size)
      .def("broadcast", &Ranks::broadcast)
      .def("serve", [](Ranks& ranks, const std::string& directory,
                       const OpenOptions& options) { ranks.serve(directory, options.model, options.engine); })
      .def("leave", &Ranks::leave)
      .def("disown", &Ranks::disown);
}

void bind_open_model(nb::module_& module) {
  nb::class_<OpenModel>(module, "OpenModel")
      .def(
          "submit",
          [](OpenModel& open, const std::vector<GivenRow>& rows, const ChangedConfig& config, bool streams,
             bool special_text, nb::object process, nb::object is_met, nb::object allowed) {
            return open.submit(rows_of(rows), config, {.streams = streams, .special_text = special_text},
                               {std::move(process), std::move(is_met), std::move(allowed)});
          },
          "rows"_a, "config"_a, "streams"_a, "special_text"_a, "process"_a.none(), "is_met"_a.none(),
          "allowed"_a.none())
      .def("submit_texts",
           [](OpenModel& open, const std::vector<Ids>& texts, int64_t top) {
             std::vector<std::vector<int32_t>> ids;
             for (const Ids& text : texts) ids.push_back(vector_of(text));
             return open.submit_texts(ids, top);
           })
      .def("close", &OpenModel::close)
      .def("disown", &OpenModel::disown)
      .def("is_open", &OpenModel::is_open)
      .def("facts", [](const OpenModel& open) { return dict_of(open.facts()); })
      .def("counters", [](const OpenModel& open) { return dict_of(open.counters()); })
      .def("generation_config", [](const OpenModel& open) { return ChangedConfig{open.model().generation()}; })
      .def("warnings", [](const OpenModel& open) { return open.model().warnings(); })
      .def("vocabulary", [](const OpenModel& open) { return open.model().spec().vocabulary; })
      .def("embedding_size", [](const OpenModel& open) { return open.model().spec().embedding_size; })
      .def("model_type", [](const OpenModel& open) { return open.model().spec().model_type; })
      .def("encode",
           [](const OpenModel& open, std::string_view text, bool adds_special) {
             return value_of(open.model().encode(text, special_tokens(adds_special)));
           })
      .def("decode", decode)
      .def("render_chat", render_chat);
  module.def("open_files", [](const std::string& directory, const OpenOptions& options) {
    return std::make_unique<OpenModel>(directory, options.model);
  });
  module.def("open_on_threads", [](const std::string& directory, const OpenOptions& options, int tp, nb::object log) {
    return std::make_unique<OpenModel>(directory, tp, options.model, options.engine, std::move(log));
  });
  // The ranks outlive the model.
  module.def(
      "open_on_ranks",
      [](const std::string& directory, const OpenOptions& options, Ranks& ranks) {
        return std::make_unique<OpenModel>(directory, ranks, options.model, options.engine);
      },
      nb::keep_alive<0, 3>());
}

}  // namespace
}  // namespace lockstep::python

NB_MODULE(_lockstep, module) {
  using namespace lockstep::python;
  module.attr("version") = LOCKSTEP_VERSION;
  bind_generation_config(module);
  bind_answers(module);
  bind_pending(module);
  bind_ranks(module);
  bind_open_model(module);
  bind_inspection(module);
}
