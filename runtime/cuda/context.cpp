#include "runtime/cuda/context.h"

#include <fmt/format.h>

#include "runtime/cuda/status.h"

namespace lockstep::cu {

Result<std::unique_ptr<Context>> Context::create(const Driver& driver, int ordinal) {
  LOCKSTEP_TRY(DeviceFacts facts, driver.facts(ordinal));
  std::unique_ptr<Context> context(new Context(driver, std::move(facts)));
  const Functions& call = driver.functions();
  const std::string operation = fmt::format("take GPU {} ({})", ordinal, context->facts_.name);
  LOCKSTEP_TRY_VOID(check(call.DeviceGet(&context->device_, ordinal), operation));
  LOCKSTEP_TRY_VOID(check(call.DevicePrimaryCtxRetain(&context->context_, context->device_), operation));
  LOCKSTEP_TRY_VOID(context->make_current());
  return context;
}

Context::~Context() {
  if (context_ != nullptr) functions().DevicePrimaryCtxRelease(device_);
}

Result<void> Context::make_current() const { return check(functions().CtxSetCurrent(context_), "use a context"); }

Result<Bytes> Context::free_memory() const {
  size_t free = 0;
  size_t total = 0;
  LOCKSTEP_TRY_VOID(check(functions().MemGetInfo(&free, &total), "ask how much memory is free"));
  return Bytes(static_cast<int64_t>(free));
}

}  // namespace lockstep::cu
