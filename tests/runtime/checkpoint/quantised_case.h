// Matrices packed by the libraries of quantised formats, written as model directories.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/runtime/checkpoint/stored_testing.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {

/// A tensor as a safetensors file has it.
struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  template <typename T>
  void set(size_t index, T value) {
    ASSERT_LE((index + 1) * sizeof value, bytes.size());
    std::memcpy(&bytes[index * sizeof value], &value, sizeof value);
  }
};

/// One case of goldens/quantised.json: the tensors of `kModule`, and what its library decodes them to.
struct QuantisedCase {
  static constexpr const char* kModule = "model.layers.0.self_attn.q_proj";

  std::string name;
  nlohmann::json config;                     // the quantization_config
  std::map<std::string, RawTensor> tensors;  // by the name after that of the module
  Shape shape;
  uint64_t fnv = 0;  // of the values in float32
  std::vector<float> first_row;

  RawTensor& operator[](const std::string& part) { return tensors.at(part); }

  /// Writes config.json and model.safetensors; `module` is the name of the module, `dot` what is between it and a
  /// part's.
  void write(const TemporaryDirectory& directory, const std::string& module = kModule,
             const std::string& dot = ".") const {
    directory.write("config.json", nlohmann::json{{"quantization_config", config}}.dump());
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [part, tensor] : tensors) {
      header[module + dot + part] = {{"dtype", tensor.dtype},
                                     {"shape", tensor.shape},
                                     {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    directory.write_safetensors("model.safetensors", header.dump(), data);
  }
};

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

inline std::vector<QuantisedCase> quantised_cases() {
  std::vector<QuantisedCase> cases;
  const auto golden = nlohmann::json::parse(std::ifstream(LOCKSTEP_QUANTISED_GOLDENS));
  for (const auto& from : golden.at("cases")) {
    QuantisedCase& added = cases.emplace_back(QuantisedCase{from.at("name"), from.at("quantization_config")});
    for (const auto& [name, tensor] : from.at("tensors").items()) {
      added.tensors[name.substr(std::strlen(QuantisedCase::kModule) + 1)] = {tensor.at("dtype"), tensor.at("shape"),
                                                                             from_hex(tensor.at("hex"))};
    }
    added.shape = Shape{from.at("shape")[0].get<int64_t>(), from.at("shape")[1].get<int64_t>()};
    added.fnv = std::stoull(from.at("fnv").get<std::string>());
    added.first_row = from.at("first_row").get<std::vector<float>>();
  }
  return cases;
}

inline constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";

inline Result<std::unique_ptr<Checkpoint>> open_case(const TemporaryDirectory& directory, const QuantisedCase& opened) {
  opened.write(directory);
  return open_model_checkpoint(directory.path(), spec_of("llama"));
}

inline QuantisedCase quantised_case(const std::string& name) {
  for (QuantisedCase& found : quantised_cases()) {
    if (found.name == name) return std::move(found);
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

}  // namespace lockstep::checkpoint
