# The optional parts of a build. A part that is off needs no package; using it is an error that names the build option.
# LOCKSTEP_WITH_MPI and its consequences: LockstepMpi.cmake.
option(LOCKSTEP_WITH_NEURON "The backend for AWS Neuron; needs Protocol Buffers and the compile cache" ON)
set(LOCKSTEP_WITH_CACHE "AUTO" CACHE STRING "The compile cache, for backends that compile ahead of time; needs Cap'n Proto and \
headers of libcurl: ON, OFF, or AUTO (with such a backend)")
set(LOCKSTEP_WITH_REFERENCE "AUTO" CACHE STRING "The reference backend; needs libtorch: ON, OFF, or AUTO (where it is found)")
set_property(CACHE LOCKSTEP_WITH_CACHE LOCKSTEP_WITH_REFERENCE PROPERTY STRINGS AUTO ON OFF)
option(LOCKSTEP_WITH_MEASURE "The commands bench, sweep, plan and doctor" ON)
option(LOCKSTEP_WITH_JOURNAL "Journals of batch jobs; needs Cap'n Proto" ON)
option(LOCKSTEP_WITH_TESTS "Tests and examples; needs GoogleTest" ON)
set(LOCKSTEP_CPU_ISAS "all" CACHE STRING "Instruction sets that the CPU backend has kernels for, besides the portable ones: all, \
native (the best that this machine and the compiler have), or a list of avx2, avx512, avx512_bf16, amx")
option(LOCKSTEP_UNITY "Join small sources into one where that compiles faster" OFF)

# From here on each option is ON or OFF, and the packages of those that are ON are found.
if(LOCKSTEP_WITH_CACHE STREQUAL "AUTO")
  set(LOCKSTEP_WITH_CACHE ${LOCKSTEP_WITH_NEURON})
endif()
if(LOCKSTEP_WITH_REFERENCE STREQUAL "AUTO")
  find_package(Libtorch QUIET)
  set(LOCKSTEP_WITH_REFERENCE OFF)
  if(Libtorch_FOUND)
    set(LOCKSTEP_WITH_REFERENCE ON)
  endif()
elseif(LOCKSTEP_WITH_REFERENCE)
  find_package(Libtorch REQUIRED)
endif()
if(LOCKSTEP_WITH_CACHE)
  find_package(CURL 7.75 REQUIRED)
  if(LOCKSTEP_WITH_NEURON)
    find_package(Protobuf 3.21 REQUIRED)
  endif()
endif()
if(LOCKSTEP_WITH_CACHE OR LOCKSTEP_WITH_JOURNAL)
  find_package(CapnProto 0.9 REQUIRED)
endif()
if(LOCKSTEP_WITH_TESTS)
  find_package(GTest REQUIRED)
endif()

include(LockstepCpuIsas)
lockstep_choose_cpu_isas(LOCKSTEP_BUILT_ISAS LOCKSTEP_BUILT_INT8_ISAS)

# The text of --version about the build.
list(JOIN LOCKSTEP_BUILT_ISAS " " _isas)
set(LOCKSTEP_OPTIONS_TEXT "neuron ${LOCKSTEP_WITH_NEURON}, reference ${LOCKSTEP_WITH_REFERENCE}, compile cache \
${LOCKSTEP_WITH_CACHE}, measure ${LOCKSTEP_WITH_MEASURE}, journal ${LOCKSTEP_WITH_JOURNAL}, instruction sets: ${_isas}")
message(STATUS "Options: ${LOCKSTEP_OPTIONS_TEXT}, tests ${LOCKSTEP_WITH_TESTS}")
