# MPI is loaded when a program needs it. A build only needs the mpi.h of Open MPI and of MPICH, for the adapters of
# transport/mpi; tests also use the libraries and launchers.
#
#   LOCKSTEP_WITH_MPI       AUTO: an adapter for each header found; ON: at least one; OFF: none
#   LOCKSTEP_MPI_FAMILIES   OPEN_MPI, MPICH: those with an adapter
#
# For each family F: LOCKSTEP_F_INCLUDE_DIR, LOCKSTEP_F_MPIEXEC if found, and the target LockstepMpi::F if the library
# is found, for test programs that use MPI themselves.
set(LOCKSTEP_WITH_MPI AUTO CACHE STRING "Ranks as processes of mpirun or srun: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_WITH_MPI PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_MPI_FAMILIES "")
set(LOCKSTEP_MPI_C_INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)  # without MPI's removed C++ bindings
if(NOT LOCKSTEP_WITH_MPI)
  message(STATUS "MPI: none (LOCKSTEP_WITH_MPI=${LOCKSTEP_WITH_MPI})")
  return()
endif()

# Whether a folder's mpi.h, or a launcher, belongs to the family, because all families use the same names.
function(lockstep_is_open_mpi_header result folder)
  file(STRINGS "${folder}/mpi.h" found REGEX "define +OMPI_MAJOR_VERSION " LIMIT_COUNT 1)
  if(NOT found)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
function(lockstep_is_mpich_header result folder)
  file(STRINGS "${folder}/mpi.h" found REGEX "define +MPICH_VERSION " LIMIT_COUNT 1)
  if(NOT found)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
function(lockstep_is_open_mpi_launcher result program)
  execute_process(COMMAND "${program}" --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT said MATCHES "Open MPI|OpenRTE|PRRTE")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
function(lockstep_is_mpich_launcher result program)
  execute_process(COMMAND "${program}" --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT said MATCHES "HYDRA|MPICH")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

set(_arch "${CMAKE_LIBRARY_ARCHITECTURE}")
find_path(LOCKSTEP_OPEN_MPI_INCLUDE_DIR mpi.h DOC "The folder of Open MPI's mpi.h"
  HINTS /usr/lib/${_arch}/openmpi/include /usr/lib64/openmpi/include /usr/include/openmpi-${CMAKE_SYSTEM_PROCESSOR}
  PATH_SUFFIXES openmpi VALIDATOR lockstep_is_open_mpi_header)
find_path(LOCKSTEP_MPICH_INCLUDE_DIR mpi.h DOC "The folder of MPICH's mpi.h"
  HINTS /usr/include/${_arch}/mpich /usr/include/mpich-${CMAKE_SYSTEM_PROCESSOR}
  PATH_SUFFIXES mpich VALIDATOR lockstep_is_mpich_header)
find_program(LOCKSTEP_OPEN_MPI_MPIEXEC NAMES mpirun.openmpi mpirun mpiexec VALIDATOR lockstep_is_open_mpi_launcher)
find_program(LOCKSTEP_MPICH_MPIEXEC NAMES mpirun.mpich mpiexec.hydra mpirun mpiexec VALIDATOR lockstep_is_mpich_launcher)
find_library(LOCKSTEP_OPEN_MPI_LIBRARY NAMES libmpi.so.40)
find_library(LOCKSTEP_MPICH_LIBRARY NAMES libmpich.so.12 libmpi.so.12)

foreach(_family IN ITEMS OPEN_MPI MPICH)
  if(LOCKSTEP_${_family}_INCLUDE_DIR)
    list(APPEND LOCKSTEP_MPI_FAMILIES ${_family})
    message(STATUS "MPI: ${_family}, ${LOCKSTEP_${_family}_INCLUDE_DIR}")
    if(LOCKSTEP_${_family}_LIBRARY)
      add_library(LockstepMpi::${_family} UNKNOWN IMPORTED)
      set_target_properties(LockstepMpi::${_family} PROPERTIES
        IMPORTED_LOCATION "${LOCKSTEP_${_family}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${LOCKSTEP_${_family}_INCLUDE_DIR}"
        INTERFACE_COMPILE_DEFINITIONS "${LOCKSTEP_MPI_C_INTERFACE}")
    endif()
  endif()
endforeach()
if(LOCKSTEP_WITH_MPI STREQUAL "ON" AND NOT LOCKSTEP_MPI_FAMILIES)
  message(FATAL_ERROR "LOCKSTEP_WITH_MPI is ON, and there is no mpi.h of Open MPI or MPICH: install libopenmpi-dev or "
                      "libmpich-dev, or set LOCKSTEP_OPEN_MPI_INCLUDE_DIR or LOCKSTEP_MPICH_INCLUDE_DIR")
endif()
