# The optional parts of a build. A part that is off needs no package; using it is an error that names the build option.
# LOCKSTEP_WITH_MPI and its consequences: LockstepMpi.cmake.
option(LOCKSTEP_WITH_NEURON "The backend for AWS Neuron; needs Protocol Buffers and the compile cache" ON)
set(LOCKSTEP_WITH_CACHE "AUTO" CACHE STRING "The compile cache, for backends that compile ahead of time; needs Cap'n Proto and \
headers of libcurl: ON, OFF, or AUTO (with such a backend)")
set(LOCKSTEP_WITH_REFERENCE "AUTO" CACHE STRING "The reference backend; needs libtorch: ON, OFF, or AUTO (where it is found)")
set(LOCKSTEP_WITH_CUDA "AUTO" CACHE STRING "Kernels for NVIDIA GPUs; needs nvcc of CUDA 13: ON, OFF, or AUTO (where it is found)")
set_property(CACHE LOCKSTEP_WITH_CACHE LOCKSTEP_WITH_REFERENCE LOCKSTEP_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_WITH_CONSTRAINTS "AUTO" CACHE STRING "Constraints on answers; needs xgrammar's sources: ON, OFF, or AUTO \
(where they are found)")
set(LOCKSTEP_XGRAMMAR "${PROJECT_SOURCE_DIR}/.venv/sources/xgrammar-0.2.8" CACHE PATH "xgrammar's source distribution, unpacked")
option(LOCKSTEP_WITH_MEASURE "The commands bench, sweep, plan and doctor" ON)
option(LOCKSTEP_WITH_JOURNAL "Journals of batch jobs; needs Cap'n Proto" ON)
option(LOCKSTEP_WITH_SERVER "The command engine and the HTTP server; needs Cap'n Proto and libssl" ON)
set(LOCKSTEP_WITH_PYTHON "AUTO" CACHE STRING "The Python package; needs nanobind and Python's headers: ON, OFF, or AUTO \
(where they are found)")
option(LOCKSTEP_WITH_TESTS "Tests and examples; needs GoogleTest" ON)
set(LOCKSTEP_CPU_ISAS "all" CACHE STRING "Instruction sets that the CPU backend has kernels for, besides the portable ones: all, \
native (the best that this machine and the compiler have), or a list of avx2, avx512, avx512_bf16, amx")
option(LOCKSTEP_UNITY "Join small sources into one where that compiles faster" OFF)

# lockstep_settle(OPTION found reason)
# Turns an option that is AUTO or ON into ON where the variable `found` is true, otherwise AUTO into OFF; ON then fails.
macro(lockstep_settle option found reason)
  if(${found})
    set(${option} ON)
  elseif(${option} STREQUAL "AUTO")
    set(${option} OFF)
  else()
    message(FATAL_ERROR "${option} is ON: found ${reason}")
  endif()
endmacro()

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
if(LOCKSTEP_WITH_CONSTRAINTS)
  find_file(LOCKSTEP_XGRAMMAR_HEADER include/xgrammar/xgrammar.h PATHS "${LOCKSTEP_XGRAMMAR}" NO_DEFAULT_PATH NO_CACHE)
  lockstep_settle(LOCKSTEP_WITH_CONSTRAINTS LOCKSTEP_XGRAMMAR_HEADER "no xgrammar in ${LOCKSTEP_XGRAMMAR}, expected its \
source distribution; run scripts/setup, or name it with -DLOCKSTEP_XGRAMMAR=DIR")
endif()
if(LOCKSTEP_WITH_CUDA)
  lockstep_find_nvcc()
  lockstep_settle(LOCKSTEP_WITH_CUDA LOCKSTEP_NVCC "no nvcc, expected the wheels of tools/requirements-cuda.txt in \
.venv-cuda; run scripts/setup, or name one with -DLOCKSTEP_NVCC=FILE")
endif()
if(LOCKSTEP_WITH_PYTHON)
  lockstep_find_nanobind()
  lockstep_settle(LOCKSTEP_WITH_PYTHON nanobind_FOUND "no nanobind or no Python.h for ${LOCKSTEP_PYTHON}, expected both; \
run scripts/setup, or name another Python with -DLOCKSTEP_PYTHON=FILE")
endif()
if(LOCKSTEP_WITH_CACHE)
  find_package(CURL 7.75 REQUIRED)
  if(LOCKSTEP_WITH_NEURON)
    find_package(Protobuf 3.21 REQUIRED)
  endif()
endif()
if(LOCKSTEP_WITH_CACHE OR LOCKSTEP_WITH_JOURNAL OR LOCKSTEP_WITH_SERVER)
  find_package(CapnProto 0.9 REQUIRED)
endif()
if(LOCKSTEP_WITH_SERVER)
  find_package(prometheus-cpp REQUIRED)  # its package states no version
  find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto SSL)
endif()
if(LOCKSTEP_WITH_TESTS)
  find_package(GTest REQUIRED)
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
endif()

include(LockstepCpuIsas)
lockstep_choose_cpu_isas(LOCKSTEP_BUILT_ISAS LOCKSTEP_BUILT_CODED_ISAS)

# The text of --version about the build.
list(JOIN LOCKSTEP_BUILT_ISAS " " _isas)
set(LOCKSTEP_OPTIONS_TEXT "neuron ${LOCKSTEP_WITH_NEURON}, cuda ${LOCKSTEP_WITH_CUDA}, reference ${LOCKSTEP_WITH_REFERENCE}, compile cache \
${LOCKSTEP_WITH_CACHE}, measure ${LOCKSTEP_WITH_MEASURE}, journal ${LOCKSTEP_WITH_JOURNAL}, server ${LOCKSTEP_WITH_SERVER}, constraints ${LOCKSTEP_WITH_CONSTRAINTS}, instruction sets: ${_isas}")
message(STATUS "Options: ${LOCKSTEP_OPTIONS_TEXT}, tests ${LOCKSTEP_WITH_TESTS}")
