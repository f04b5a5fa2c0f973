#include "runtime/checkpoint/unpickler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::checkpoint {
namespace {

constexpr size_t kLongestTensorName = 1024;  // of a tensor: bounds the memory of many copies of one name

/// The pickle of 0x1950a86a20f9469cfc6c.
constexpr std::string_view kMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
constexpr int64_t kProtocol = 1001;

Result<PickledTensors> tensors_of(const PickleMachine& machine, uint32_t result) {
  const PickleValue& dict = machine.value(result);
  if (dict.kind != PickleKind::kDict)
    return machine.malformed("found a pickle that is not a dict, expected a state dict");
  PickledTensors tensors;
  for (size_t i = 0; i + 1 < dict.parts.size(); i += 2) {
    const PickleValue& key = machine.value(dict.parts[i]);
    const PickleValue& held = machine.value(dict.parts[i + 1]);
    if (key.kind != PickleKind::kText || held.kind != PickleKind::kTensor) continue;
    if (key.text.size() > kLongestTensorName) {
      return machine.malformed(
          fmt::format("found a name of {} bytes, expected at most {}", key.text.size(), kLongestTensorName));
    }
    tensors.insert_or_assign(std::string(key.text), machine.tensor(held));
  }
  return tensors;
}

/// The storages in the program, by key.
Result<std::map<std::string_view, PickledStorage>> storages_of(const PickleMachine& machine) {
  std::map<std::string_view, PickledStorage> storages;
  for (const PickleValue& value : machine.values()) {
    if (value.kind != PickleKind::kStorage) continue;
    const PickledStorage storage{std::string(value.text), machine.value(value.parts[0]).text, value.number};
    const auto [known, is_new] = storages.try_emplace(value.text, storage);
    if (!is_new && (known->second.dtype != storage.dtype || known->second.elements != storage.elements)) {
      return machine.malformed(fmt::format("found the storage {} with two types or sizes", storage.key));
    }
  }
  return storages;
}

/// Checks the magic number; any other pickle could be anything.
Result<void> check_magic(std::span<const std::byte> start, const PickleMachine& machine) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), std::min(start.size(), kMagic.size()));
  if (text == kMagic) return ok();
  if (kMagic.starts_with(text)) return machine.malformed("found the file's end in its first pickle");
  return machine.refused("a bare pickle");
}

Result<void> check_protocol(const PickleMachine& machine, uint32_t result) {
  const PickleValue& protocol = machine.value(result);
  if (protocol.kind == PickleKind::kNumber && protocol.number == kProtocol) return ok();
  return machine.malformed(fmt::format("found another protocol than {}", kProtocol));
}

/// Each of `storages` once, in the order of the key list.
Result<std::vector<PickledStorage>> in_order(const PickleMachine& keys, uint32_t result,
                                             std::map<std::string_view, PickledStorage> storages) {
  std::vector<PickledStorage> ordered;
  for (const uint32_t part : keys.value(result).parts) {
    const auto found = storages.find(keys.value(part).text);
    if (found == storages.end()) {
      return keys.malformed(
          fmt::format("found the storage {:.40}, expected one that a tensor has", keys.value(part).text));
    }
    ordered.push_back(std::move(found->second));
    storages.erase(found);
  }
  if (storages.empty()) return ordered;
  return keys.malformed(fmt::format("found no storage {:.40} in the list of storages", storages.begin()->first));
}

}  // namespace

Result<PickledTensors> unpickle_tensors(std::span<const std::byte> pickle, std::string_view origin) {
  PickleMachine machine(pickle, origin);
  LOCKSTEP_TRY(const uint32_t dict, machine.run());
  return tensors_of(machine, dict);
}

Result<OldTorchPickles> unpickle_old_file(std::span<const std::byte> start, std::string_view origin) {
  PickleMachine protocol(start.subspan(std::min(start.size(), kMagic.size())), origin);
  LOCKSTEP_TRY_VOID(check_magic(start, protocol));
  LOCKSTEP_TRY(const uint32_t version, protocol.run());
  LOCKSTEP_TRY_VOID(check_protocol(protocol, version));
  PickleMachine facts(protocol.rest(),
                      origin);  // describes the writing machine; its bytes are little-endian anyway
  LOCKSTEP_TRY_VOID(facts.run());
  PickleMachine dict(facts.rest(), origin);
  LOCKSTEP_TRY(const uint32_t state, dict.run());
  OldTorchPickles pickles;
  LOCKSTEP_TRY(pickles.tensors, tensors_of(dict, state));
  LOCKSTEP_TRY(auto storages, storages_of(dict));
  PickleMachine keys(dict.rest(), origin);
  LOCKSTEP_TRY(const uint32_t list, keys.run());
  LOCKSTEP_TRY(pickles.storages, in_order(keys, list, std::move(storages)));
  pickles.bytes = std::ssize(start) - std::ssize(keys.rest());
  return pickles;
}

}  // namespace lockstep::checkpoint
