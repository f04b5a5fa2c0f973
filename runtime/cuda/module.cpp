#include "runtime/cuda/module.h"

#include <fmt/format.h>

#include <array>

#include "runtime/cuda/status.h"

namespace lockstep::cu {

Result<std::unique_ptr<Module>> Module::load(const Context& context, std::span<const std::byte> image) {
  std::unique_ptr<Module> module(new Module(context));
  LOCKSTEP_TRY_VOID(check(context.functions().ModuleLoadData(&module->module_, image.data()),
                          fmt::format("load the kernels for {} (compute capability {}.{})", context.device().name,
                                      context.device().major, context.device().minor)));
  return module;
}

Module::~Module() {
  if (module_ != nullptr) context_.functions().ModuleUnload(module_);
}

Result<Kernel> Module::find(const std::string& name, size_t parameter_bytes, int64_t shared_bytes) const {
  const Functions& call = context_.functions();
  const std::string operation = fmt::format("find the kernel {}", name);
  Kernel kernel{.name = name};
  LOCKSTEP_TRY_VOID(check(call.ModuleGetFunction(&kernel.function, module_, name.c_str()), operation));
  LOCKSTEP_TRY_VOID(check(call.FuncLoad(kernel.function), operation));
  const auto read = [&](CUfunction_attribute attribute) -> Result<int> {
    int value = 0;
    LOCKSTEP_TRY_VOID(check(call.FuncGetAttribute(&value, attribute, kernel.function), operation));
    return value;
  };
  LOCKSTEP_TRY(kernel.registers, read(CU_FUNC_ATTRIBUTE_NUM_REGS));
  LOCKSTEP_TRY(kernel.local_bytes, read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  LOCKSTEP_TRY(kernel.static_shared, read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  LOCKSTEP_TRY(kernel.most_threads, read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  size_t offset = 0;
  size_t bytes = 0;
  LOCKSTEP_TRY_VOID(check(call.FuncGetParamInfo(kernel.function, 0, &offset, &bytes), operation));
  if (bytes != parameter_bytes) {
    return Error{ErrorKind::kInternal,
                 fmt::format("[runtime/cuda] cannot use the kernel {}: found {} bytes of parameters, expected {}; the "
                             "image is of another build, build again",
                             name, bytes, parameter_bytes)};
  }
  LOCKSTEP_TRY_VOID(check(call.FuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                static_cast<int>(shared_bytes)),
                          fmt::format("give the kernel {} {} bytes of shared memory", name, shared_bytes)));
  return kernel;
}

Result<int> Module::blocks_per_multiprocessor(const Kernel& kernel, const LaunchShape& shape) const {
  int blocks = 0;
  LOCKSTEP_TRY_VOID(check(context_.functions().OccupancyMaxActiveBlocksPerMultiprocessor(
                              &blocks, kernel.function, shape.threads, static_cast<size_t>(shape.shared_bytes)),
                          fmt::format("ask how many blocks of {} fit an SM", kernel.name)));
  return blocks;
}

Result<void> launch(Stream& stream, const Kernel& kernel, const LaunchShape& shape, const void* parameters) {
  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned int count = 0;
  if (shape.waits_for_blocks) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.cooperative = 1;
  }
  if (shape.starts_early) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  const CUlaunchConfig config{.gridDimX = static_cast<unsigned int>(shape.blocks),
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = static_cast<unsigned int>(shape.threads),
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .sharedMemBytes = static_cast<unsigned int>(shape.shared_bytes),
                              .hStream = stream.native(),
                              .attrs = attributes.data(),
                              .numAttrs = count};
  std::array<void*, 1> arguments = {const_cast<void*>(parameters)};  // the driver only reads them
  const CUresult status =
      stream.context().functions().LaunchKernelEx(&config, kernel.function, arguments.data(), nullptr);
  if (status == CUDA_SUCCESS) return ok();
  return error_of(status, fmt::format("launch {} with {} blocks of {} threads and {} bytes of shared memory",
                                      kernel.name, shape.blocks, shape.threads, shape.shared_bytes));
}

}  // namespace lockstep::cu
