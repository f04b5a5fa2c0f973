// The functions of the CUDA driver that are in use.
//
// FUNCTION(name, symbol), both without "cu": cuda.h calls it cu<name>, and its macros make that cu<symbol>, the name in
// the library.
#pragma once

#define LOCKSTEP_CUDA_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(Init, Init)                                                                           \
  FUNCTION(DriverGetVersion, DriverGetVersion)                                                   \
  FUNCTION(DeviceGetCount, DeviceGetCount)                                                       \
  FUNCTION(DeviceGet, DeviceGet)                                                                 \
  FUNCTION(DeviceGetName, DeviceGetName)                                                         \
  FUNCTION(DeviceGetUuid, DeviceGetUuid_v2)                                                      \
  FUNCTION(DeviceGetPCIBusId, DeviceGetPCIBusId)                                                 \
  FUNCTION(DeviceTotalMem, DeviceTotalMem_v2)                                                    \
  FUNCTION(DeviceGetAttribute, DeviceGetAttribute)                                               \
  FUNCTION(DevicePrimaryCtxRetain, DevicePrimaryCtxRetain)                                       \
  FUNCTION(DevicePrimaryCtxRelease, DevicePrimaryCtxRelease_v2)                                  \
  FUNCTION(CtxSetCurrent, CtxSetCurrent)                                                         \
  FUNCTION(CtxEnablePeerAccess, CtxEnablePeerAccess)                                             \
  FUNCTION(DeviceCanAccessPeer, DeviceCanAccessPeer)                                             \
  FUNCTION(IpcGetMemHandle, IpcGetMemHandle)                                                     \
  FUNCTION(IpcOpenMemHandle, IpcOpenMemHandle_v2)                                                \
  FUNCTION(IpcCloseMemHandle, IpcCloseMemHandle)                                                 \
  FUNCTION(MemGetInfo, MemGetInfo_v2)                                                            \
  FUNCTION(MemAlloc, MemAlloc_v2)                                                                \
  FUNCTION(MemFree, MemFree_v2)                                                                  \
  FUNCTION(MemHostAlloc, MemHostAlloc)                                                           \
  FUNCTION(MemFreeHost, MemFreeHost)                                                             \
  FUNCTION(MemHostGetDevicePointer, MemHostGetDevicePointer_v2)                                  \
  FUNCTION(MemcpyHtoDAsync, MemcpyHtoDAsync_v2)                                                  \
  FUNCTION(MemcpyDtoHAsync, MemcpyDtoHAsync_v2)                                                  \
  FUNCTION(MemcpyDtoDAsync, MemcpyDtoDAsync_v2)                                                  \
  FUNCTION(MemsetD8Async, MemsetD8Async)                                                         \
  FUNCTION(MemGetAllocationGranularity, MemGetAllocationGranularity)                             \
  FUNCTION(MemAddressReserve, MemAddressReserve)                                                 \
  FUNCTION(MemAddressFree, MemAddressFree)                                                       \
  FUNCTION(MemCreate, MemCreate)                                                                 \
  FUNCTION(MemRelease, MemRelease)                                                               \
  FUNCTION(MemMap, MemMap)                                                                       \
  FUNCTION(MemUnmap, MemUnmap)                                                                   \
  FUNCTION(MemSetAccess, MemSetAccess)                                                           \
  FUNCTION(StreamCreate, StreamCreate)                                                           \
  FUNCTION(StreamDestroy, StreamDestroy_v2)                                                      \
  FUNCTION(StreamBeginCapture, StreamBeginCapture_v2)                                            \
  FUNCTION(StreamEndCapture, StreamEndCapture)                                                   \
  FUNCTION(EventCreate, EventCreate)                                                             \
  FUNCTION(EventDestroy, EventDestroy_v2)                                                        \
  FUNCTION(EventRecord, EventRecord)                                                             \
  FUNCTION(EventQuery, EventQuery)                                                               \
  FUNCTION(EventElapsedTime, EventElapsedTime_v2)                                                \
  FUNCTION(GraphGetNodes, GraphGetNodes)                                                         \
  FUNCTION(GraphDestroy, GraphDestroy)                                                           \
  FUNCTION(GraphInstantiate, GraphInstantiateWithFlags)                                          \
  FUNCTION(GraphUpload, GraphUpload)                                                             \
  FUNCTION(GraphLaunch, GraphLaunch)                                                             \
  FUNCTION(GraphExecDestroy, GraphExecDestroy)                                                   \
  FUNCTION(ModuleLoadData, ModuleLoadData)                                                       \
  FUNCTION(ModuleUnload, ModuleUnload)                                                           \
  FUNCTION(ModuleGetFunction, ModuleGetFunction)                                                 \
  FUNCTION(FuncLoad, FuncLoad)                                                                   \
  FUNCTION(FuncGetAttribute, FuncGetAttribute)                                                   \
  FUNCTION(FuncSetAttribute, FuncSetAttribute)                                                   \
  FUNCTION(FuncGetParamInfo, FuncGetParamInfo)                                                   \
  FUNCTION(OccupancyMaxActiveBlocksPerMultiprocessor, OccupancyMaxActiveBlocksPerMultiprocessor) \
  FUNCTION(LaunchKernelEx, LaunchKernelEx)
