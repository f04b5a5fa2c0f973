#include "runtime/topology/machine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

namespace lockstep::topology {
namespace {

bool is_same_bus(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char one, unsigned char other) { return std::tolower(one) == std::tolower(other); });
}

std::string counted(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

int Machine::packages() const {
  std::set<int> numbers;
  for (const NumaNode& node : nodes) numbers.insert(node.package);
  return static_cast<int>(numbers.size());
}

int Machine::cores() const {
  size_t count = 0;
  for (const NumaNode& node : nodes) count += node.cores.size();
  return static_cast<int>(count);
}

Bytes Machine::memory() const {
  Bytes sum;
  for (const NumaNode& node : nodes) sum += node.memory;
  return sum;
}

std::vector<CoreThread> Machine::cores_of(std::span<const int> threads) const {
  std::set<int> left(threads.begin(), threads.end());
  std::vector<CoreThread> found;
  for (const NumaNode& node : nodes) {
    for (const Core& core : node.cores) {
      const auto own = std::ranges::find_if(core.threads, [&](int thread) { return left.contains(thread); });
      if (own != core.threads.end()) found.push_back({core.number(), *own});
      for (const int thread : core.threads) left.erase(thread);
    }
  }
  for (const int thread : left) found.push_back({thread, thread});
  return found;
}

std::vector<std::vector<int>> Machine::divide(std::span<const int> threads, size_t parts) const {
  std::set<int> left(threads.begin(), threads.end());
  std::vector<std::vector<int>> cores;  // the threads of each
  const auto take = [&](const std::vector<int>& of_core) {
    std::vector<int> own;
    std::ranges::copy_if(of_core, std::back_inserter(own), [&](int thread) { return left.erase(thread) > 0; });
    if (!own.empty()) cores.push_back(std::move(own));
  };
  for (const NumaNode& node : nodes) {
    for (const Core& core : node.cores) take(core.threads);
  }
  for (const int thread : std::set(left)) take({thread});
  std::vector<std::vector<int>> divided(parts);
  for (size_t part = 0; part < parts && !cores.empty(); ++part) {
    const size_t begin = part * cores.size() / parts;
    const size_t end = std::max(begin + 1, (part + 1) * cores.size() / parts);
    for (size_t core = begin; core < end; ++core) {
      divided[part].insert(divided[part].end(), cores[core].begin(), cores[core].end());
    }
  }
  return divided;
}

const PciDevice* Machine::find_device(std::string_view bus) const {
  const auto found = std::ranges::find_if(devices, [&](const PciDevice& own) { return is_same_bus(own.bus, bus); });
  return found == devices.end() ? nullptr : &*found;
}

std::string where(const Machine& machine, std::span<const int> cores) {
  std::vector<int> numbers;
  for (const NumaNode& node : machine.nodes) {
    const auto is_asked = [&](const Core& core) { return std::ranges::find(cores, core.number()) != cores.end(); };
    if (std::ranges::any_of(node.cores, is_asked)) numbers.push_back(node.number);
  }
  if (numbers.empty()) return "this machine";
  return fmt::format("NUMA node{} {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

std::string to_string(const Machine& machine) {
  if (machine.nodes.empty()) return "an unknown machine";
  size_t threads = 0;
  for (const NumaNode& node : machine.nodes) {
    for (const Core& core : node.cores) threads = std::max(threads, core.threads.size());
  }
  return fmt::format("{}, {}, {} of {}", counted(machine.packages(), "package"),
                     counted(static_cast<int>(machine.nodes.size()), "NUMA node"), counted(machine.cores(), "core"),
                     counted(static_cast<int>(threads), "hardware thread"));
}

}  // namespace lockstep::topology
