# The instruction sets in LOCKSTEP_CPU_ISAS, and the products of weights in codes that belong to them. They name the
# files runtime/backends/cpu/kernels/isa_NAME.cpp and NAME.cpp. The portable ones are always built.
include(CheckCXXCompilerFlag)

set(LOCKSTEP_KNOWN_CPU_ISAS avx2 avx512 avx512_bf16 amx)  # ascending
set(LOCKSTEP_CODED_OF_avx2 floats_avx2 bytes_avx2 bytes_avx_vnni)
set(LOCKSTEP_CODED_OF_avx512 floats_avx512 bytes_avx512 bytes_avx512_vnni)
set(LOCKSTEP_CODED_OF_avx512_bf16 floats_avx512 bytes_avx512 bytes_avx512_vnni)
set(LOCKSTEP_CODED_OF_amx floats_avx512 bytes_amx)
# A flag that a compiler may lack.
set(LOCKSTEP_FLAG_OF_avx2 -mavx2)
set(LOCKSTEP_FLAG_OF_avx512 -mavx512dq)
set(LOCKSTEP_FLAG_OF_avx512_bf16 -mavx512bf16)
set(LOCKSTEP_FLAG_OF_amx -mamx-bf16)

# The best set of this machine that the compiler supports; empty if only the portable kernels work.
function(lockstep_find_native_isa result)
  set(source "${PROJECT_BINARY_DIR}/machine_isa.cpp")
  file(WRITE "${source}" "#include <cstdio>\n\n#include \"runtime/backends/cpu/isa.h\"\n\n"
                         "int main() { std::puts(to_string(lockstep::cpu::machine_isa()).data()); }\n")
  try_run(status compiled "${PROJECT_BINARY_DIR}/machine_isa" SOURCES
          "${source}" "${PROJECT_SOURCE_DIR}/runtime/backends/cpu/isa.cpp" "${PROJECT_SOURCE_DIR}/runtime/core/tile_unit.cpp"
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}"
          COMPILE_DEFINITIONS "-DLOCKSTEP_BUILT_ISAS=LOCKSTEP_ISA(portable)"
          CXX_STANDARD 20 RUN_OUTPUT_VARIABLE machine COMPILE_OUTPUT_VARIABLE messages)
  if(NOT compiled OR NOT status EQUAL 0)
    message(FATAL_ERROR "LOCKSTEP_CPU_ISAS=native: cannot ask this machine; name a list instead\n${messages}")
  endif()
  string(STRIP "${machine}" machine)
  set(best "")
  foreach(isa IN LISTS LOCKSTEP_KNOWN_CPU_ISAS)
    if(machine STREQUAL "portable")
      break()
    endif()
    check_cxx_compiler_flag(${LOCKSTEP_FLAG_OF_${isa}} LOCKSTEP_COMPILES_${isa})
    if(LOCKSTEP_COMPILES_${isa})
      set(best ${isa})
    endif()
    if(isa STREQUAL machine)
      break()
    endif()
  endforeach()
  set(${result} "${best}" PARENT_SCOPE)
endfunction()

function(lockstep_choose_cpu_isas isas coded_isas)
  set(chosen "${LOCKSTEP_CPU_ISAS}")
  string(REPLACE "," ";" chosen "${chosen}")
  if(chosen STREQUAL "all")
    set(chosen ${LOCKSTEP_KNOWN_CPU_ISAS})
  elseif(chosen STREQUAL "native")
    lockstep_find_native_isa(chosen)
  endif()
  list(REMOVE_ITEM chosen portable)
  set(coded floats_portable bytes_portable)
  foreach(isa IN LISTS chosen)
    if(NOT isa IN_LIST LOCKSTEP_KNOWN_CPU_ISAS)
      list(JOIN LOCKSTEP_KNOWN_CPU_ISAS ", " known)
      message(FATAL_ERROR "LOCKSTEP_CPU_ISAS: found ${isa}, expected all, native, or a list of portable, ${known}")
    endif()
    list(APPEND coded ${LOCKSTEP_CODED_OF_${isa}})
  endforeach()
  list(REMOVE_DUPLICATES coded)
  set(${isas} portable ${chosen} PARENT_SCOPE)
  set(${coded_isas} ${coded} PARENT_SCOPE)
endfunction()
