#include "engine/python/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string_view>

#include "engine/python/errors.h"
#include "engine/python/open_model.h"
#include "engine/python/plain_data.h"
#include "lockstep/inspect.h"

namespace lockstep::python {
namespace {

using namespace nanobind::literals;

template <typename T>
nb::object plain(const T& value);
template <typename T>
nb::object plain(const std::optional<T>& value) {
  return value ? plain(*value) : nb::none();
}
template <typename T>
nb::object plain(const std::vector<T>& values) {
  nb::list made;
  for (const T& value : values) made.append(plain(value));
  return made;
}
/// The fields of a value, and of the values in it.
template <typename T>
nb::object plain(const T& value) {
  if constexpr (HasFields<T>) {
    nb::dict made;
    for_each_field(value, [&made](std::string_view name, const auto& field) {
      made[nb::str(name.data(), name.size())] = plain(field);
    });
    return made;
  } else if constexpr (std::is_enum_v<T>) {
    return nb::cast(static_cast<int64_t>(value));
  } else {
    return nb::cast(value);
  }
}

std::string_view name_of(graph::ValueKind kind) {
  switch (kind) {
    case graph::ValueKind::kInput: return "input";
    case graph::ValueKind::kWeight: return "weight";
    case graph::ValueKind::kState: return "state";
    case graph::ValueKind::kConstant: return "constant";
    case graph::ValueKind::kResult: return "result";
  }
  return "unknown";
}

nb::dict dict_of(const graph::Value& value) {
  nb::dict made;
  made["kind"] = name_of(value.kind);
  made["name"] = value.name;
  made["dtype"] = std::string(to_string(value.type.dtype));
  made["shape"] = value.type.shape.dims();
  nb::list slices;
  for (const graph::WeightSlice& slice : value.slices) {
    nb::list ranges;
    for (const Range& range : slice.range) ranges.append(nb::make_tuple(range.begin, range.end));
    slices.append(nb::make_tuple(slice.tensor, ranges));
  }
  made["slices"] = slices;
  return made;
}

nb::dict dict_of(const graph::Graph& graph, size_t number, const graph::NodeCost& cost) {
  const graph::Node& node = graph.nodes[number];
  nb::list operands;
  for (const graph::ValueId operand : node.operands) operands.append(graph.value(operand).name);
  nb::dict made;
  made["op"] = graph::to_string(node.op);
  made["operands"] = operands;
  made["attributes"] = std::map<std::string, graph::Attribute>(node.attributes.begin(), node.attributes.end());
  made["result"] = node.result ? nb::cast(graph.value(*node.result).name) : nb::none();
  made["is_collective"] = cost.is_collective;
  made["weight_bytes"] = cost.weight_bytes;
  made["flops"] = cost.flops;
  made["sent_bytes"] = cost.sent_bytes;
  return made;
}

nb::dict dict_of(const graph::Graph& graph) {
  nb::list values, nodes;
  for (const graph::Value& value : graph.values) values.append(dict_of(value));
  const std::vector<graph::NodeCost> costs = graph::node_costs(graph);
  for (size_t number = 0; number < graph.nodes.size(); ++number) nodes.append(dict_of(graph, number, costs[number]));
  nb::dict outputs;
  for (const graph::Output& output : graph.outputs) outputs[output.name.c_str()] = graph.value(output.value).name;
  nb::dict made;
  made["name"] = graph.name;
  made["ranks"] = graph.ranks;
  made["rank"] = graph.rank;
  made["rows"] = graph.rows;
  made["slots"] = graph.slots;
  made["values"] = values;
  made["nodes"] = nodes;
  made["outputs"] = outputs;
  made["text"] = to_text(graph);
  return made;
}

nb::list graphs(const OpenModel& open, int rank, bool before_passes) {
  const int ranks = open.facts().ranks;
  const GraphForm form = before_passes ? GraphForm::kBuilt : GraphForm::kCompiled;
  nb::list made;
  for (const graph::Graph& graph :
       value_of(without_gil([&] { return graphs_of_rank(open.model(), open.options(), ranks, rank, form); }))) {
    made.append(dict_of(graph));
  }
  return made;
}

/// A number of a machine, under the name of its field.
struct MachineNumber {
  std::string_view name;
  void (*set)(MachineOptions& machine, double value);
};

constexpr MachineNumber kMachineNumbers[] = {
    {"bandwidth", [](MachineOptions& machine, double value) { machine.bandwidth = value; }},
    {"flops", [](MachineOptions& machine, double value) { machine.flops = value; }},
    {"host_bandwidth", [](MachineOptions& machine, double value) { machine.host_bandwidth = value; }},
    {"host_flops", [](MachineOptions& machine, double value) { machine.host_flops = value; }},
    {"link_latency_us", [](MachineOptions& machine, double value) { machine.link_latency_us = value; }},
    {"link_bandwidth", [](MachineOptions& machine, double value) { machine.link_bandwidth = value; }},
    {"of_bandwidth", [](MachineOptions& machine, double value) { machine.of_bandwidth = value; }},
    {"of_peak", [](MachineOptions& machine, double value) { machine.of_peak = value; }},
};

/// Raises for a name that no number has.
MachineOptions machine_of(const std::map<std::string, double>& numbers) {
  MachineOptions machine;
  for (const auto& [name, value] : numbers) {
    const auto known = std::ranges::find(kMachineNumbers, std::string_view(name), &MachineNumber::name);
    if (known == std::end(kMachineNumbers)) {
      std::vector<std::string_view> names;
      for (const MachineNumber& number : kMachineNumbers) names.push_back(number.name);
      raise(Error{ErrorKind::kInvalidArgument,
                  fmt::format("[python] cannot plan: found machine option {}, expected one of {}; correct it", name,
                              fmt::join(names, ", "))});
    }
    known->set(machine, value);
  }
  return machine;
}

std::string plan_json(const OpenModel& open, const std::vector<int>& degrees, std::optional<int64_t> prompt_tokens,
                      int64_t new_tokens, std::optional<int64_t> batch_size, std::optional<int64_t> max_seq_len,
                      std::optional<int64_t> memory_budget, const std::map<std::string, double>& rates, bool measure,
                      const std::optional<std::string>& probe) {
  EngineOptions options = open.options();
  if (batch_size) options.slots = batch_size;
  if (max_seq_len) options.capacity = max_seq_len;
  if (memory_budget) options.memory_budget = Bytes(*memory_budget);
  PlanOptions plan{
      .degrees = degrees, .prompt_tokens = prompt_tokens, .new_tokens = new_tokens, .machine = machine_of(rates)};
  plan.most_ranks = *std::max_element(degrees.begin(), degrees.end());
  plan.machine.measure = measure;
  if (probe) plan.machine.probe = *probe;
  return value_of(without_gil([&] { return plan_document(open.model(), options, plan); }));
}

double seconds_of(TimePoint time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

nb::dict activity(const OpenModel& open) {
  const trace::Activity found = open.activity();
  nb::list steps, slots, ranks;
  for (const trace::StepActivity& step : found.steps) {
    const double end = seconds_of(step.ended);
    steps.append(
        nb::make_tuple(step.number, step.kind, step.rows, end - std::chrono::duration<double>(step.time).count(), end));
  }
  for (const trace::SlotActivity& slot : found.slots) {
    nb::dict made;
    made["use"] = to_string(slot.use);
    made["request"] = slot.request.value < 0 ? nb::none() : nb::cast(slot.request.value);
    made["tokens"] = slot.tokens;
    made["new_tokens"] = slot.new_tokens;
    slots.append(made);
  }
  for (const trace::RankActivity& rank : found.ranks) {
    nb::dict made;
    made["state"] = rank.state;
    made["resident"] = rank.resident.value;
    ranks.append(made);
  }
  nb::dict made;
  made["steps"] = steps;
  made["slots"] = slots;
  made["ranks"] = ranks;
  return made;
}

}  // namespace

void bind_inspection(nb::module_& module) {
  module.def("graphs", graphs, "open"_a, "rank"_a, "before_passes"_a);
  module.def("plan_json", plan_json, "open"_a, nb::kw_only(), "degrees"_a, "prompt_tokens"_a.none(), "new_tokens"_a,
             "batch_size"_a.none(), "max_seq_len"_a.none(), "memory_budget"_a.none(), "machine"_a, "measure"_a,
             "probe"_a.none());
  module.def("activity", activity, "open"_a);
  module.def("directory", [](const OpenModel& open) { return open.model().directory().value_or("").string(); });
  module.def("draft_model", [](const OpenModel& open) {
    const auto& model = open.options().drafting.model;
    return model ? std::optional(model->string()) : std::nullopt;
  });
  module.def("fields_of",
             [](const ChangedConfig& config) { return plain(static_cast<const GenerationConfig&>(config)); });
}

}  // namespace lockstep::python
