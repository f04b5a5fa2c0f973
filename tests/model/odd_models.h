// Tiny models with sizes that divide unevenly: nine to eleven query heads over few key/value heads, MLP widths and
// vocabularies that no power of two divides, heads narrower than a vector. One or two of every family, each with its
// particular features: biases, windows, sinks, soft caps, ALiBi, scaled rotations, experts, parallel branches.
//
// Their weights are a hash of names and places (shards::RandomWeights), so a directory with a config.json is a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::model {

struct OddModel {
  std::string name;    // "llama_tied"
  std::string config;  // the text of config.json
};

/// All of them. Each can be cut into 1 to 9 ranks, holds 96 positions and has a vocabulary of at least 61.
std::vector<OddModel> odd_models();

/// A directory with a model's config.json below the test's temporary directory; the destructor removes it.
class OddModelDirectory {
 public:
  explicit OddModelDirectory(const OddModel& model);
  ~OddModelDirectory();
  OddModelDirectory(const OddModelDirectory&) = delete;
  OddModelDirectory& operator=(const OddModelDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::model
