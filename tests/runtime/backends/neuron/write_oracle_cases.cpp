// neuron_oracle_cases [--indices] DIR [NAME…]: writes every case, or those whose name contains a NAME, for
// tools/check_hlo.py; with --indices the modules put out their indices, too:
//
//   DIR/<case>/case.json      modules, their signatures, initial contents, steps, what each step must give
//   DIR/<case>/<graph>.pb     the bytes of each module
//   DIR/<case>/data.bin       tensors in the device's form; case.json holds their offsets
//
// The reference backend computes the expected values, with ranks as threads.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/backends/neuron/hlo/wire.h"
#include "tests/runtime/backends/neuron/reference_run.h"

namespace lockstep::neuron {
namespace {

using conformance::Contents;
using conformance::TensorData;
using nlohmann::json;

class CaseWriter {
 public:
  CaseWriter(const OracleCase& c, const std::filesystem::path& directory)
      : c_(c), directory_(directory / c.name), lowered_(lower_all(c)) {
    std::filesystem::create_directories(directory_);
    data_.open(directory_ / "data.bin", std::ios::binary);
  }

  void write() {
    contents_ = c_.contents();
    records_ = run_reference(c_, contents_);
    json out{{"name", c_.name}, {"ranks", c_.ranks()}, {"tolerance", c_.tolerance}};
    for (const LoweredStep& step : lowered_) out["modules"].push_back(write_module(step));
    for (const LoweredStep& step : lowered_) add_initial(step.signature, out["initial"]);
    for (size_t i = 0; i < c_.script.size(); ++i) out["steps"].push_back(write_step(i));
    for (const LoweredStep& step : lowered_) add_final(step.signature, out["final"]);
    std::ofstream(directory_ / "case.json") << out.dump(1);
  }

 private:
  /// The offset of `bytes` in data.bin.
  int64_t store(const std::vector<std::byte>& bytes) {
    const int64_t at = offset_;
    data_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    offset_ += static_cast<int64_t>(bytes.size());
    return at;
  }

  static json type_json(const TensorType& type) {
    return {{"dtype", to_string(type.dtype)}, {"shape", type.shape.dims()}};
  }

  json write_module(const LoweredStep& step) {
    const std::string file = fmt::format("{}_{}.pb", step.module.name, modules_++);
    const std::vector<std::byte> bytes = hlo::to_bytes(step.module);
    std::ofstream(directory_ / file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::ofstream(directory_ / (file + ".txt")) << hlo::to_text(step.module);
    json out{{"file", file}, {"parameters", json::array()}, {"outputs", json::array()}};
    for (const Parameter& parameter : step.signature.parameters) {
      json described = type_json(parameter.type);
      described["name"] = parameter.name;
      described["role"] = to_string(parameter.role);
      if (parameter.role == Role::kRank) {
        for (const auto& own : parameter.contents) described["offsets"].push_back(store(own));
      }
      out["parameters"].push_back(std::move(described));
    }
    for (const ModuleOutput& output : step.signature.outputs) {
      json described = type_json(output.type);
      described["name"] = output.name;
      described["parameter"] = output.parameter ? json(*output.parameter) : json();
      out["outputs"].push_back(std::move(described));
    }
    return out;
  }

  /// A tensor of every rank as the device holds it; zeros where a rank has none.
  json placed(const Parameter& parameter, const std::function<const TensorData*(size_t rank)>& tensor_of) {
    json out = type_json(parameter.type);
    for (size_t r = 0; r < contents_.size(); ++r) {
      const TensorData* data = tensor_of(r);
      if (data == nullptr) {
        out["offsets"].push_back(-1);
        continue;
      }
      out["offsets"].push_back(store(to_device(parameter, static_cast<int>(r), data->bytes).value()));
    }
    return out;
  }

  static const TensorData* find(const Contents& contents, const std::string& name) {
    const auto found = contents.find(name);
    return found == contents.end() ? nullptr : &found->second;
  }

  void add_initial(const ModuleSignature& signature, json& out) {
    for (const Parameter& parameter : signature.parameters) {
      if (parameter.role != Role::kWeight && parameter.role != Role::kState) continue;
      if (out.contains(parameter.name)) continue;
      out[parameter.name] = placed(parameter, [&](size_t r) { return find(contents_[r], parameter.host_name()); });
    }
  }

  json write_step(size_t i) {
    const ScriptedStep& step = c_.script[i];
    json out{{"module", step.graph}, {"inputs", json::object()}, {"outputs", json::object()}};
    for (const Parameter& parameter : lowered_[step.graph].signature.parameters) {
      if (parameter.role != Role::kInput) continue;
      out["inputs"][parameter.name] = placed(parameter, [&](size_t r) { return find(step.inputs[r], parameter.name); });
    }
    for (const auto& [name, first] : records_[0].outputs[i]) {
      json expected = type_json(first.type);
      for (const RankRecord& record : records_) {
        expected["offsets"].push_back(store(record.outputs[i].at(name).bytes));
        expected["shapes"].push_back(record.outputs[i].at(name).type.shape.dims());
      }
      out["outputs"][name] = std::move(expected);
    }
    return out;
  }

  /// States that a step updates, without their scratch rows.
  void add_final(const ModuleSignature& signature, json& out) {
    for (const Parameter& parameter : signature.parameters) {
      if (!parameter.output || (out.is_object() && out.contains(parameter.name))) continue;
      int64_t elements = 1;
      for (const int64_t dim : parameter.placement.views[0].dims()) elements *= dim;
      json expected = placed(parameter, [&](size_t r) { return find(records_[r].states, parameter.name); });
      const bool has_scratch = elements < parameter.type.shape.elements() && parameter.type.shape.rank() == 2 &&
                               (parameter.placement.views[0].rank() == 4 || parameter.name == "seen");
      expected["rows"] = parameter.type.shape[0] - (has_scratch ? 1 : 0);
      out[parameter.name] = std::move(expected);
    }
  }

  const OracleCase& c_;
  const std::filesystem::path directory_;
  const std::vector<LoweredStep> lowered_;
  std::ofstream data_;
  int64_t offset_ = 0;
  int modules_ = 0;
  std::vector<Contents> contents_;
  std::vector<RankRecord> records_;
};

int run(std::vector<std::string> arguments) {
  const bool puts_out_indices = !arguments.empty() && arguments.front() == "--indices";
  if (puts_out_indices) arguments.erase(arguments.begin());
  if (arguments.empty()) {
    fmt::print(stderr, "usage: neuron_oracle_cases [--indices] DIR [NAME…]\n");
    return 2;
  }
  for (OracleCase& c : oracle_cases()) {
    if (puts_out_indices) c.options.indices = LoweringOptions::Indices::kOutput;
    bool is_wanted = arguments.size() == 1;
    for (size_t i = 1; i < arguments.size(); ++i) is_wanted |= c.name.find(arguments[i]) != std::string::npos;
    if (!is_wanted) continue;
    CaseWriter(c, arguments[0]).write();
    fmt::print("{}\n", c.name);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::neuron

int main(int argc, char** argv) { return lockstep::neuron::run({argv + 1, argv + argc}); }
