// Reading of how a checkpoint is quantised, from its config. Private to this folder.
//
//   config.json: quantization_config ─┐
//   quantize_config.json              ├─► QuantisationConfig: rules by names of modules ─► a matrix's format and layout
//   quant_config.json                 │
//   hf_quant_config.json             ─┘
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/module_rules.h"
#include "runtime/checkpoint/weight_formats.h"
#include "runtime/core/dtype.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// How the matrices of a checkpoint are quantised.
struct QuantisationConfig {
  std::string method;             // "gptq"
  std::string origin;             // of the text, for messages
  std::vector<ModuleRule> rules;  // the first that matches decides; without one, a matrix has elements

  friend bool operator==(const QuantisationConfig&, const QuantisationConfig&) = default;
};

/// Reads the object `quantisation` of the file `origin`. `dtype` is the model's, in which some formats keep their
/// scales. Fails with `kInvalidArgument` for a malformed value, and with `kUnsupported`, naming an alternative, for a
/// method, a number of bits or an option that this program does not have.
Result<QuantisationConfig> read_quantisation(const nlohmann::json& quantisation, std::string_view origin, DType dtype);

/// Parses the text of a config as an object. GPTQModel's rules (`dynamic`), of which the first that matches holds,
/// become a list of pairs in the order of the text.
Result<nlohmann::json> parse_config(std::string_view text, std::string_view origin);

/// The object of `config.json` that says how weights are quantised; nullptr: they are not.
const nlohmann::json* quantisation_of(const nlohmann::json& config);

/// Adds to `config`, the content of a config.json in `directory`, the object of a file beside it, if it has none.
Result<void> add_quantisation_beside(nlohmann::json& config, const std::filesystem::path& directory);

/// Reads how the weights of `directory` are quantised; none if it has no config.json or they are not.
Result<std::optional<QuantisationConfig>> read_quantisation_of(const std::filesystem::path& directory, DType dtype);

/// The formats of the matrices of a model, from the config alone: of each module that a family may store them in.
Result<WeightFormats> expected_formats(const QuantisationConfig& quantisation, const ModelSpec& spec);

// The readers of single methods; `quantisation` is the object, with its origin.
Result<std::vector<ModuleRule>> read_gptq(const KeyReader& quantisation);
Result<std::vector<ModuleRule>> read_awq(const KeyReader& quantisation);
Result<std::vector<ModuleRule>> read_fp8(const KeyReader& quantisation);
Result<std::vector<ModuleRule>> read_compressed_tensors(const KeyReader& quantisation, ScaleType scales);
Result<std::vector<ModuleRule>> read_model_opt(const KeyReader& quantisation);

/// Appends a rule for each text of the list `key`, if there is one.
Result<void> add_modules_with_elements(const KeyReader& quantisation, std::string_view key, ModuleRule::Match match,
                                       std::vector<ModuleRule>& rules);

/// "cannot read the weights of <origin>: <key>: found …, expected …; take …": of kind `kUnsupported`.
Error cannot_read(const KeyReader& quantisation, std::string_view key, std::string_view found,
                  std::string_view expected);

}  // namespace lockstep::checkpoint
