#include "runtime/topology/discovery.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/topology/hwloc_status.h"

namespace lockstep::topology {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

constexpr std::string_view kForThisMachine = "check /sys, and with lstopo what hwloc sees";

Result<Topology> make_topology(ErrorKind kind, std::string_view advice) {
  hwloc_topology_t made = nullptr;
  LOCKSTEP_TRY_VOID(check(hwloc_topology_init(&made), kind, "prepare hwloc", advice));
  Topology topology(made, hwloc_topology_destroy);
  // Discovery must not move this thread from core to core.
  LOCKSTEP_TRY_VOID(check(hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING), kind,
                          "keep this thread's cores", advice));
  return topology;
}

std::vector<hwloc_obj_t> objects_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t next = hwloc_get_next_obj_by_type(topology, type, nullptr); next != nullptr;
       next = hwloc_get_next_obj_by_type(topology, type, next)) {
    objects.push_back(next);
  }
  return objects;
}

std::vector<int> numbers_in(hwloc_const_cpuset_t set) {
  std::vector<int> numbers;
  for (int next = hwloc_bitmap_next(set, -1); next >= 0; next = hwloc_bitmap_next(set, next)) numbers.push_back(next);
  return numbers;
}

/// The cores inside `set`. Where the system does not tell cores, each hardware thread is one.
std::vector<Core> cores_in(hwloc_topology_t topology, hwloc_const_cpuset_t set) {
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  std::vector<Core> cores;
  for (const hwloc_obj_t core : objects_of(topology, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU)) {
    if (!hwloc_bitmap_iszero(core->cpuset) && hwloc_bitmap_isincluded(core->cpuset, set)) {
      cores.push_back({numbers_in(core->cpuset)});
    }
  }
  return cores;
}

int package_of(hwloc_topology_t topology, hwloc_obj_t object) {
  const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  return package == nullptr ? 0 : static_cast<int>(package->logical_index);
}

std::vector<NumaNode> nodes_of(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  std::set<int> known;  // cores with two kinds of memory belong to the first
  for (const hwloc_obj_t object : objects_of(topology, HWLOC_OBJ_NUMANODE)) {
    NumaNode node{.number = static_cast<int>(object->os_index),
                  .package = package_of(topology, object),
                  .memory = Bytes(static_cast<int64_t>(object->attr->numanode.local_memory)),
                  .cores = {}};
    for (Core& core : cores_in(topology, object->cpuset)) {
      if (known.insert(core.number()).second) node.cores.push_back(std::move(core));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<PciDevice> devices_of(hwloc_topology_t topology) {
  std::vector<PciDevice> devices;
  for (hwloc_obj_t object = hwloc_get_next_pcidev(topology, nullptr); object != nullptr;
       object = hwloc_get_next_pcidev(topology, object)) {
    const auto& place = object->attr->pcidev;
    PciDevice device{
        .bus = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", place.domain, place.bus, place.dev, unsigned{place.func}),
        .cores = {}};
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, object);
    for (const Core& core : cores_in(topology, near->cpuset)) device.cores.push_back(core.number());
    devices.push_back(std::move(device));
  }
  return devices;
}

Machine value_of(hwloc_topology_t topology) {
  Machine machine{.processor = {}, .nodes = nodes_of(topology), .devices = devices_of(topology)};
  const auto packages = objects_of(topology, HWLOC_OBJ_PACKAGE);
  if (packages.empty()) return machine;
  const char* const model = hwloc_obj_get_info_by_name(packages.front(), "CPUModel");
  if (model != nullptr) machine.processor = model;
  return machine;
}

Result<void> keep_devices(hwloc_topology_t topology, ErrorKind kind, std::string_view advice) {
  return check(hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT), kind,
               "ask for PCI devices", advice);
}

}  // namespace

Result<Machine> read_machine(Devices devices) {
  constexpr ErrorKind kKind = ErrorKind::kUnavailable;
  LOCKSTEP_TRY(const Topology topology, make_topology(kKind, kForThisMachine));
  if (devices == Devices::kPci) LOCKSTEP_TRY_VOID(keep_devices(topology.get(), kKind, kForThisMachine));
  LOCKSTEP_TRY_VOID(check(hwloc_topology_load(topology.get()), kKind, "read this machine", kForThisMachine));
  return value_of(topology.get());
}

Result<Machine> machine_from_synthetic(const std::string& description) {
  constexpr ErrorKind kKind = ErrorKind::kInvalidArgument;
  constexpr std::string_view kAdvice = "write it as hwloc's manual says, such as 'package:2 numa:1 core:4 pu:2'";
  LOCKSTEP_TRY(const Topology topology, make_topology(kKind, kAdvice));
  const std::string operation = fmt::format("read the machine '{}'", description);
  LOCKSTEP_TRY_VOID(
      check(hwloc_topology_set_synthetic(topology.get(), description.c_str()), kKind, operation, kAdvice));
  LOCKSTEP_TRY_VOID(check(hwloc_topology_load(topology.get()), kKind, operation, kAdvice));
  return value_of(topology.get());
}

Result<Machine> machine_from_xml(const std::filesystem::path& file) {
  constexpr ErrorKind kKind = ErrorKind::kInvalidArgument;
  constexpr std::string_view kAdvice = "write it with lstopo FILE.xml";
  LOCKSTEP_TRY(const Topology topology, make_topology(kKind, kAdvice));
  const std::string operation = fmt::format("read the machine in {}", file.string());
  LOCKSTEP_TRY_VOID(keep_devices(topology.get(), kKind, kAdvice));
  LOCKSTEP_TRY_VOID(check(hwloc_topology_set_xml(topology.get(), file.c_str()), kKind, operation, kAdvice));
  LOCKSTEP_TRY_VOID(check(hwloc_topology_load(topology.get()), kKind, operation, kAdvice));
  return value_of(topology.get());
}

}  // namespace lockstep::topology
