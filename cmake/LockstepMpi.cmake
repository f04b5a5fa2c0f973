# Finds one MPI, LOCKSTEP_MPI, where a machine may have several: the compiler wrapper and mpiexec by the names that tell
# them apart, then a look at what was found, so that one MPI's headers never meet another's launcher. Defines
# MPI::MPI_CXX, MPIEXEC_EXECUTABLE and LOCKSTEP_MPI_NAME ("Open MPI 4.1.4").
set(LOCKSTEP_MPI "openmpi" CACHE STRING "The MPI to build with: openmpi, mpich, or any (what CMake finds first)")
set_property(CACHE LOCKSTEP_MPI PROPERTY STRINGS openmpi mpich any)

if(LOCKSTEP_MPI STREQUAL "openmpi")
  find_program(MPI_CXX_COMPILER NAMES mpicxx.openmpi mpicxx)
  find_program(MPIEXEC_EXECUTABLE NAMES mpirun.openmpi mpirun mpiexec)
elseif(LOCKSTEP_MPI STREQUAL "mpich")
  find_program(MPI_CXX_COMPILER NAMES mpicxx.mpich mpicxx)
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.mpich mpirun.mpich mpiexec.hydra mpiexec)
elseif(NOT LOCKSTEP_MPI STREQUAL "any")
  message(FATAL_ERROR "LOCKSTEP_MPI: found '${LOCKSTEP_MPI}', expected openmpi, mpich or any")
endif()
set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings that MPI has given up
find_package(MPI REQUIRED COMPONENTS CXX)

# Whose headers and whose launcher are these? Empty for an MPI that is neither.
set(_headers "")
foreach(_directory IN LISTS MPI_CXX_INCLUDE_DIRS)
  if(_headers STREQUAL "" AND EXISTS "${_directory}/mpi.h")
    file(STRINGS "${_directory}/mpi.h" _lines REGEX "define +(OMPI_(MAJOR|MINOR|RELEASE)_VERSION|MPICH_VERSION) ")
    string(REGEX MATCH "MPICH_VERSION +\"([0-9.]+)" _found "${_lines}")
    if(_found)
      set(_headers "MPICH ${CMAKE_MATCH_1}")
    elseif(_lines MATCHES "MAJOR_VERSION +([0-9]+).*MINOR_VERSION +([0-9]+).*RELEASE_VERSION +([0-9]+)")
      set(_headers "Open MPI ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
    endif()
  endif()
endforeach()
execute_process(COMMAND "${MPIEXEC_EXECUTABLE}" --version OUTPUT_VARIABLE _version ERROR_VARIABLE _version)
set(_launcher "")
if(_version MATCHES "Open MPI|OpenRTE|PRRTE")
  set(_launcher "Open MPI")
elseif(_version MATCHES "HYDRA|MPICH")
  set(_launcher "MPICH")
endif()

if(NOT _launcher STREQUAL "" AND NOT _headers STREQUAL "" AND NOT _headers MATCHES "^${_launcher}")
  message(FATAL_ERROR "two MPIs are mixed: mpi.h is that of ${_headers} (${MPI_CXX_INCLUDE_DIRS}), "
                      "${MPIEXEC_EXECUTABLE} is that of ${_launcher}; set MPI_CXX_COMPILER and MPIEXEC_EXECUTABLE")
endif()
if((LOCKSTEP_MPI STREQUAL "openmpi" AND _headers MATCHES "^MPICH") OR
   (LOCKSTEP_MPI STREQUAL "mpich" AND _headers MATCHES "^Open MPI"))
  message(FATAL_ERROR "LOCKSTEP_MPI is ${LOCKSTEP_MPI}, but only ${_headers} was found; install it, or configure with "
                      "-DLOCKSTEP_MPI=any")
endif()
set(LOCKSTEP_MPI_NAME "${_headers}")
message(STATUS "MPI: ${_headers}, started by ${MPIEXEC_EXECUTABLE}")
