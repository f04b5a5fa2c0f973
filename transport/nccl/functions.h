// The functions of NCCL that are in use: FUNCTION(name), without "nccl".
#pragma once

#define LOCKSTEP_NCCL_FUNCTIONS(FUNCTION) \
  FUNCTION(GetVersion)                    \
  FUNCTION(GetUniqueId)                   \
  FUNCTION(CommInitRankConfig)            \
  FUNCTION(CommGetAsyncError)             \
  FUNCTION(CommAbort)                     \
  FUNCTION(GetLastError)                  \
  FUNCTION(GroupStart)                    \
  FUNCTION(GroupEnd)                      \
  FUNCTION(AllGather)                     \
  FUNCTION(Send)                          \
  FUNCTION(Recv)
