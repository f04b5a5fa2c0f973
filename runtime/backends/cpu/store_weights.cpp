// Weights of a store: their packed forms, and filling them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/backends/cpu/store.h"

namespace lockstep::cpu {
namespace {

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/cpu] " + std::move(message)};
}

}  // namespace

void Store::add_packing(Weight& weight, const Packing& packing) {
  for (const Form& form : weight.panels) {
    if (form.packing == packing) return;
  }
  weight.panels.push_back({packing});
}

Result<void> Store::add_coded(const graph::Value& value, Weight& weight, const CodedPacking& packing) {
  if (!is_multiplied(packing.format, packing.groups.columns)) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/backends/cpu] cannot pack weight {}: found {}, expected integers in groups of at "
                    "most {} columns, or e2m1 or e4m3 without zeros and minima; omit --weights",
                    value.name, to_string(packing.format), kMostByteGroup)};
  }
  for (const CodedPanels& form : weight.coded) {
    if (form.packing == packing) return ok();
    if (form.packing.groups == packing.groups) continue;
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/cpu] cannot pack weight {}: found products that cut its columns "
                             "differently, expected one cut; use a weight for each",
                             value.name)};
  }
  weight.coded.push_back({packing});
  return ok();
}

Result<Store::Weight*> Store::find_weight(std::string_view name, int64_t bytes) {
  const auto found = weights_.find(name);
  if (found == weights_.end()) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/backends/cpu] cannot set weight {}: no graph of this store has it", name)};
  }
  if (bytes != found->second.type.bytes()) {
    return invalid(fmt::format("cannot set weight {}: found {} bytes, expected {} for {}", name, bytes,
                               found->second.type.bytes(), to_string(found->second.type)));
  }
  return &found->second;
}

WeightPlace Store::place_of(const Weight& weight, const graph::Value& value) const {
  WeightPlace place{.value = &value};
  if (weight.rows_offset >= 0) place.rows = weight_memory_.data() + weight.rows_offset;
  for (const Form& form : weight.panels)
    place.panels.push_back(panel_form(form.packing, weight_memory_.data() + form.offset));
  for (const CodedPanels& form : weight.coded)
    place.coded.push_back(coded_form(form.packing, weight_memory_.data() + form.offset));
  return place;
}

void Store::quantise_weight(const Weight& weight, std::span<const std::byte> bytes) {
  const graph::Value value{.type = weight.type, .format = weight.format};
  for (const CodedForm& form : place_of(weight, value).coded) pack_quantised(value, form, bytes);
}

void Store::mark_set(Weight& weight) {
  if (!weight.is_set) --unset_weights_;
  weight.is_set = true;
}

Result<void> Store::set_weight(std::string_view name, std::span<const std::byte> bytes) {
  LOCKSTEP_TRY(Weight* const weight, find_weight(name, static_cast<int64_t>(bytes.size())));
  if (!bytes.empty()) {
    std::byte* const memory = weight_memory_.data();
    if (weight->format) quantise_weight(*weight, bytes);
    for (const Form& form : weight->panels) pack(form.packing, bytes.data(), memory + form.offset);
    if (weight->rows_offset >= 0) std::memcpy(memory + weight->rows_offset, bytes.data(), bytes.size());
  }
  mark_set(*weight);
  return ok();
}

Result<void> Store::load(const graph::Graph& graph, const device::WeightReader& reader) {
  std::vector<WeightPlace> places;
  std::vector<Weight*> weights;
  for (const graph::Value* value : device::weights_in_file_order(graph, reader)) {
    LOCKSTEP_TRY(weights.emplace_back(), find_weight(value->name, value->type.bytes()));
    places.push_back(place_of(*weights.back(), *value));
  }
  LOCKSTEP_TRY_VOID(load_weights(places, reader, team_));
  for (Weight* const weight : weights) mark_set(*weight);
  return ok();
}

std::vector<device::ResidentWeight> Store::resident_weights() const {
  std::vector<device::ResidentWeight> resident;
  const auto add = [&](std::string_view name, int64_t offset, int64_t bytes) {
    resident.push_back({name, {weight_memory_.data() + offset, static_cast<size_t>(bytes)}});
  };
  for (const auto& [name, weight] : weights_) {
    for (const Form& form : weight.panels) add(name, form.offset, form.packing.bytes());
    for (const CodedPanels& form : weight.coded) add(name, form.offset, form.packing.bytes());
    if (weight.rows_offset >= 0) add(name, weight.rows_offset, weight.type.bytes());
  }
  return resident;
}

std::optional<PackedWeight> Store::packed(std::string_view name, const Packing& packing) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) return std::nullopt;
  for (const Form& form : found->second.panels) {
    if (form.packing == packing) return PackedWeight{packing, weight_memory_.data() + form.offset};
  }
  return std::nullopt;
}

std::optional<PackedWeight> Store::any_packed(std::string_view name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end() || found->second.panels.empty()) return std::nullopt;
  const Form& form = found->second.panels.front();
  return PackedWeight{form.packing, weight_memory_.data() + form.offset};
}

std::optional<CodedWeight> Store::coded(std::string_view name, const CodedPacking& packing) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) return std::nullopt;
  for (const CodedPanels& form : found->second.coded) {
    if (form.packing == packing) return CodedWeight{packing, weight_memory_.data() + form.offset};
  }
  return std::nullopt;
}

std::optional<CodedWeight> Store::any_coded(std::string_view name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end() || found->second.coded.empty()) return std::nullopt;
  const CodedPanels& form = found->second.coded.front();
  return CodedWeight{form.packing, weight_memory_.data() + form.offset};
}

const std::byte* Store::rows(std::string_view name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end() || found->second.rows_offset < 0) return nullptr;
  return weight_memory_.data() + found->second.rows_offset;
}

}  // namespace lockstep::cpu
