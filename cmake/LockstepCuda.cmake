# Kernels for NVIDIA GPUs: .cu sources compiled by nvcc to device images inside a library. No CUDA language of CMake, whose
# check wants a whole toolkit, and no CUDA library: the driver is loaded at run time.

# Sets LOCKSTEP_NVCC to the nvcc of .venv-cuda, or of PATH; LOCKSTEP_CUDA_INCLUDE to the folder of its cuda.h.
function(lockstep_find_nvcc)
  file(GLOB folders "${PROJECT_SOURCE_DIR}/.venv-cuda/lib/python3*/site-packages/nvidia/cu13/bin")
  find_program(LOCKSTEP_NVCC nvcc HINTS ${folders} DOC "nvcc of CUDA 13")
  if(LOCKSTEP_NVCC)
    get_filename_component(folder "${LOCKSTEP_NVCC}" REALPATH)
    get_filename_component(folder "${folder}" DIRECTORY)
    find_path(LOCKSTEP_CUDA_INCLUDE cuda.h HINTS "${folder}/../include" NO_DEFAULT_PATH DOC "The folder of cuda.h")
  endif()
endfunction()

# lockstep_add_cuda_images(TARGET target SOURCES file.cu…)
# Compiles each source for compute capability 9.0 and adds a source to the target that defines
# lockstep::cuda::images() (runtime/backends/cuda/images.h). A touched header compiles the image again, and no more.
function(lockstep_add_cuda_images)
  cmake_parse_arguments(ARG "" "TARGET" "SOURCES" ${ARGN})
  set(holder "${CMAKE_CURRENT_BINARY_DIR}/images.cpp")
  set(declarations "")
  set(rows "")
  set(cubins "")
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(name "${source}" NAME_WE)
    set(input "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    set(cubin "${CMAKE_CURRENT_BINARY_DIR}/${name}.cubin")
    add_custom_command(
      OUTPUT "${cubin}"
      COMMAND "${LOCKSTEP_NVCC}" -std=c++20 -gencode arch=compute_90a,code=sm_90a -fmad=false -cubin -Werror all-warnings
              -ccbin "${CMAKE_CXX_COMPILER}" -I "${PROJECT_SOURCE_DIR}" -MD -MF "${cubin}.d" -MT "${cubin}" -o "${cubin}"
              "${input}"
      DEPENDS "${input}" DEPFILE "${cubin}.d" COMMENT "Building device image ${name}.cubin" VERBATIM)
    list(APPEND cubins "${cubin}")
    string(APPEND declarations "asm(\".section .rodata\\n.balign 64\\n.globl lockstep_image_${name}\\nlockstep_image_${name}:\\n\"
    \".incbin \\\"${cubin}\\\"\\n.globl lockstep_image_${name}_end\\nlockstep_image_${name}_end:\\n.byte 0\\n.previous\\n\");
extern \"C\" const std::byte lockstep_image_${name}[];
extern \"C\" const std::byte lockstep_image_${name}_end[];
")
    string(APPEND rows "      Image{\"${name}\", {lockstep_image_${name}, lockstep_image_${name}_end}},\n")
  endforeach()
  list(LENGTH ARG_SOURCES count)
  file(CONFIGURE OUTPUT "${holder}" CONTENT "#include \"runtime/backends/cuda/images.h\"

#include <array>
#include <cstddef>

@declarations@
namespace lockstep::cuda {

std::span<const Image> images() {
  static const std::array<Image, @count@> kImages{
@rows@  };
  return kImages;
}

}  // namespace lockstep::cuda
" @ONLY)
  set_source_files_properties("${holder}" PROPERTIES OBJECT_DEPENDS "${cubins}" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${ARG_TARGET} PRIVATE "${holder}")
endfunction()
