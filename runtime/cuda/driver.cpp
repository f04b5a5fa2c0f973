#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <type_traits>
#include <vector>

#include "runtime/cuda/status.h"

namespace lockstep::cu {
namespace {

std::string text_of(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Error unavailable(std::string message) { return {ErrorKind::kUnavailable, "[runtime/cuda] " + std::move(message)}; }

/// "GPU-01234567-89ab-…", as nvidia-smi writes it.
std::string text_of(const CUuuid& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::open(const std::filesystem::path& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return unavailable(fmt::format(
        "cannot load the CUDA driver: found {}, expected {} to be a library; install the NVIDIA driver, show its "
        "libraries to the container, or name the file with --cuda-driver",
        dlerror(), path.string()));
  }
  std::unique_ptr<Driver> driver(new Driver);
  LOCKSTEP_TRY_VOID(driver->find_functions(handle, path));
  LOCKSTEP_TRY_VOID(check(driver->functions_.Init(0), "start the CUDA driver"));
  LOCKSTEP_TRY_VOID(driver->check_version(path));
  LOCKSTEP_TRY_VOID(check(driver->functions_.DeviceGetCount(&driver->devices_), "count the GPUs"));
  if (driver->devices_ < 1) return error_of(CUDA_ERROR_NO_DEVICE, "count the GPUs");
  return driver;
}

Result<void> Driver::find_functions(void* handle, const std::filesystem::path& path) {
  std::vector<std::string> missing;
#define LOCKSTEP_CUDA_FIND(name, symbol)                                                      \
  functions_.name = reinterpret_cast<decltype(functions_.name)>(dlsym(handle, "cu" #symbol)); \
  if (functions_.name == nullptr) missing.push_back("cu" #symbol);
  LOCKSTEP_CUDA_FUNCTIONS(LOCKSTEP_CUDA_FIND)
#undef LOCKSTEP_CUDA_FIND
  if (missing.empty()) return ok();
  return unavailable(fmt::format("cannot use {}: found no {}, expected a driver of CUDA {} or newer; install one",
                                 path.string(), fmt::join(missing, ", "), text_of(kOldestDriver)));
}

Result<void> Driver::check_version(const std::filesystem::path& path) {
  LOCKSTEP_TRY_VOID(check(functions_.DriverGetVersion(&version_), "ask the CUDA driver for its version"));
  if (version_ >= kOldestDriver) return ok();
  return unavailable(
      fmt::format("cannot use {}: found a driver of CUDA {}, expected {} or newer; install NVIDIA driver 580 or newer",
                  path.string(), text_of(version_), text_of(kOldestDriver)));
}

std::string Driver::version_text() const { return text_of(version_); }

Result<DeviceFacts> Driver::facts(int ordinal) const {
  const std::string operation = fmt::format("ask for the facts of GPU {}", ordinal);
  CUdevice device = 0;
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGet(&device, ordinal), operation));
  std::array<char, 256> name{};
  std::array<char, 32> bus{};
  CUuuid uuid{};
  size_t memory = 0;
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGetName(name.data(), static_cast<int>(name.size()), device), operation));
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device), operation));
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGetUuid(&uuid, device), operation));
  LOCKSTEP_TRY_VOID(check(functions_.DeviceTotalMem(&memory, device), operation));
  DeviceFacts facts{.ordinal = ordinal,
                    .name = name.data(),
                    .uuid = text_of(uuid),
                    .bus = bus.data(),
                    .memory = Bytes(static_cast<int64_t>(memory))};
  const auto read = [&](CUdevice_attribute attribute, auto& field) -> Result<void> {
    int value = 0;
    LOCKSTEP_TRY_VOID(check(functions_.DeviceGetAttribute(&value, attribute, device), operation));
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    return ok();
  };
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, facts.major));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, facts.minor));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, facts.multiprocessors));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, facts.shared_bytes));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, facts.l2_bytes));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, facts.clock_khz));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, facts.memory_clock_khz));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, facts.memory_bus_bits));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, facts.has_cooperative_launch));
  LOCKSTEP_TRY_VOID(read(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, facts.has_virtual_memory));
  return facts;
}

Result<bool> Driver::sees(int ordinal, int other) const {
  const std::string operation = fmt::format("ask whether GPU {} sees the memory of GPU {}", ordinal, other);
  CUdevice device = 0;
  CUdevice peer = 0;
  int can = 0;
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGet(&device, ordinal), operation));
  LOCKSTEP_TRY_VOID(check(functions_.DeviceGet(&peer, other), operation));
  LOCKSTEP_TRY_VOID(check(functions_.DeviceCanAccessPeer(&can, device, peer), operation));
  return can != 0;
}

}  // namespace lockstep::cu
