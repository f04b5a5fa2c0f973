// A tiny model without weights, for entry points whose readers need a model.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/model.h"
#include "tests/model/tiny_configs.h"

namespace lockstep::fuzz {

/// Its files are read at once and removed.
inline Model tiny_model() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("lockstep_fuzz_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << model::kTinyLlama;
  Model model = Model::open(folder).value();
  fs::remove_all(folder);
  return model;
}

}  // namespace lockstep::fuzz
