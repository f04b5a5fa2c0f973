#include "runtime/backends/neuron/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/core/check.h"
#include "runtime/core/int8_groups.h"

namespace lockstep::neuron {
namespace {

/// Calls `visit(host element, device element, elements)` for every run of contiguous elements.
template <typename Visit>
void for_each_run(const Placement& placement, int rank, Visit visit) {
  const std::vector<int64_t>& dims = placement.views.at(static_cast<size_t>(rank)).dims();
  LOCKSTEP_CHECK(dims.size() == placement.strides.size(), dims.size(), placement.strides.size());
  const int64_t run = dims.empty() ? 1 : dims.back();
  LOCKSTEP_CHECK(dims.empty() || placement.strides.back() == 1, placement.strides.back());
  int64_t runs = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) runs *= dims[i];
  if (run == 0) return;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t rest = r, device = 0;
    for (size_t axis = dims.size() - (dims.empty() ? 0 : 1); axis-- > 0;) {
      device += rest % dims[axis] * placement.strides[axis];
      rest /= dims[axis];
    }
    visit(r * run, device, run);
  }
}

/// Calls `visit(row, device group, first column in the host's row, columns)` for every group of a rank's tensor.
template <typename Visit>
void for_each_group(const Int8Part& part, const Shape& view, Visit visit) {
  const ColumnGroups groups{.columns = view[1], .leaf = part.leaf, .width = part.width};
  for (int64_t row = 0; row < view[0]; ++row) {
    for (int64_t group = 0; group < groups.count(); ++group) {
      visit(row, group, groups.of(group).begin, groups.of(group).size());
    }
  }
}

void place_int8(const Parameter& parameter, const Shape& view, std::span<const std::byte> host,
                std::span<std::byte> device) {
  const Int8Part& part = *parameter.int8;
  std::vector<float> values(static_cast<size_t>(view.elements()));
  convert_elements(host.data(), part.host, reinterpret_cast<std::byte*>(values.data()), DType::kFloat32, values.size());
  const bool is_scales = part.holds == Int8Part::Holds::kScales;
  const int64_t columns = parameter.type.shape[1];
  std::vector<int8_t> integers(static_cast<size_t>(part.width));
  for_each_group(part, view, [&](int64_t row, int64_t group, int64_t begin, int64_t count) {
    const float scale = to_int8(values.data() + row * view[1] + begin, count, integers.data());
    if (is_scales) {
      std::memcpy(device.data() + static_cast<size_t>(group * columns + row) * sizeof scale, &scale, sizeof scale);
    } else {
      std::memcpy(device.data() + row * columns + group * part.width, integers.data(), static_cast<size_t>(count));
    }
  });
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::kInput: return "input";
    case Role::kState: return "state";
    case Role::kWeight: return "weight";
    case Role::kRank: return "rank";
  }
  return "";
}

const Parameter* ModuleSignature::find(std::string_view name) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

std::string to_text(const ModuleSignature& signature) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const Parameter& parameter = signature.parameters[i];
    fmt::format_to(out, "input{:<4} {:<6} {:<24} {}", i, to_string(parameter.role), to_string(parameter.type),
                   parameter.name);
    if (parameter.output) fmt::format_to(out, "   updated: output{}", *parameter.output);
    text += "\n";
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    const ModuleOutput& output = signature.outputs[i];
    fmt::format_to(out, "output{:<3} {:<6} {:<24} {}\n", i, output.parameter ? "state" : "output",
                   to_string(output.type), output.name);
  }
  return text;
}

Result<std::vector<std::byte>> to_device(const Parameter& parameter, int rank, std::span<const std::byte> host) {
  const DType held = parameter.int8 ? parameter.int8->host : parameter.type.dtype;
  const size_t element = size_of(held);
  const Shape& view = parameter.placement.views.at(static_cast<size_t>(rank));
  const size_t expected = static_cast<size_t>(view.elements()) * element;
  if (host.size() != expected) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/backends/neuron] cannot place {}: found {} bytes, expected {} ({} as {})",
                             parameter.name, host.size(), expected, to_string(held), to_string(view))};
  }
  std::vector<std::byte> device(static_cast<size_t>(parameter.type.bytes()));
  if (parameter.int8) {
    place_int8(parameter, view, host, device);
    return device;
  }
  for_each_run(parameter.placement, rank, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(device.data() + static_cast<size_t>(to) * element, host.data() + static_cast<size_t>(from) * element,
                static_cast<size_t>(count) * element);
  });
  return device;
}

std::vector<std::byte> to_host(const Parameter& parameter, int rank, std::span<const std::byte> device) {
  LOCKSTEP_CHECK(!parameter.int8, parameter.name);
  const size_t element = size_of(parameter.type.dtype);
  LOCKSTEP_CHECK(device.size() == static_cast<size_t>(parameter.type.bytes()), parameter.name, device.size());
  const Shape& view = parameter.placement.views.at(static_cast<size_t>(rank));
  std::vector<std::byte> host(static_cast<size_t>(view.elements()) * element);
  for_each_run(parameter.placement, rank, [&](int64_t to, int64_t from, int64_t count) {
    std::memcpy(host.data() + static_cast<size_t>(to) * element, device.data() + static_cast<size_t>(from) * element,
                static_cast<size_t>(count) * element);
  });
  return host;
}

}  // namespace lockstep::neuron
