# Extra needs of single folders: generated protobuf code in net/, CUDA in devices/ and ops/.

file(GLOB protos CONFIGURE_DEPENDS net/wire/*.proto)
if(protos)
  set(generated "${CMAKE_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${generated}/net/wire")
  add_library(troupe_proto OBJECT)
  protobuf_generate(TARGET troupe_proto PROTOS ${protos} LANGUAGE cpp IMPORT_DIRS "${CMAKE_CURRENT_SOURCE_DIR}"
    PROTOC_OUT_DIR "${generated}")
  target_include_directories(troupe_proto SYSTEM PUBLIC "${generated}" ${Protobuf_INCLUDE_DIRS})
  add_dependencies(troupe_net_wire troupe_proto)
  target_include_directories(troupe_net_wire SYSTEM PRIVATE "${generated}")
  list(APPEND troupe_extra_objects $<TARGET_OBJECTS:troupe_proto>)
endif()

# CUDA: the device and its kernels, or stubs that report that there is none. All of it is host code
# for the C++ compiler. cuBLAS is loaded when a CUDA device is made (devices/cuda.hpp gives the
# reason), so only the small runtime is linked.
if(TROUPE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT TARGET CUDA::cublas)
    message(FATAL_ERROR "TROUPE_CUDA needs cuBLAS, which is not in ${CUDAToolkit_LIBRARY_DIR}; install it or configure with -DTROUPE_CUDA=OFF")
  endif()
  set(troupe_cuda_links CUDA::cudart_static)
  list(APPEND troupe_links ${troupe_cuda_links} ${CMAKE_DL_LIBS})
  foreach(folder devices ops)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*cuda*.cpp ${folder}/*/*cuda*.cpp)
    list(FILTER sources EXCLUDE REGEX "no_cuda\\.cpp$")
    target_sources(troupe_${folder} PRIVATE ${sources})
    target_include_directories(troupe_${folder} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  endforeach()
  set_property(SOURCE devices/cuda_blas.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    TROUPE_CUBLAS_NAME="libcublas.so.${CUDAToolkit_VERSION_MAJOR}" TROUPE_CUBLAS_PATH="${CUDA_cublas_LIBRARY}")
else()
  target_sources(troupe_devices PRIVATE devices/no_cuda.cpp)
  target_sources(troupe_ops PRIVATE ops/support/no_cuda.cpp)
endif()

# Packages that programs need behind a room's library; the room's own files see the headers without this.
target_link_libraries(troupe_devices INTERFACE $<LINK_ONLY:Threads::Threads> $<LINK_ONLY:DNNL::dnnl> ${CMAKE_DL_LIBS})
foreach(link ${troupe_cuda_links})
  target_link_libraries(troupe_devices INTERFACE $<LINK_ONLY:${link}>)
endforeach()
target_link_libraries(troupe_graph_base INTERFACE $<LINK_ONLY:spdlog::spdlog>)
target_link_libraries(troupe_data_files INTERFACE $<LINK_ONLY:ZLIB::ZLIB>)
target_link_libraries(troupe_data INTERFACE $<LINK_ONLY:ZLIB::ZLIB> $<LINK_ONLY:JPEG::JPEG> $<LINK_ONLY:PNG::PNG>
  $<LINK_ONLY:utf8proc::utf8proc>)
target_link_libraries(troupe_net_wire INTERFACE $<LINK_ONLY:protobuf::libprotobuf>)
target_link_libraries(troupe_net_certificates INTERFACE $<LINK_ONLY:OpenSSL::SSL> $<LINK_ONLY:OpenSSL::Crypto>)
target_link_libraries(troupe_net_caf INTERFACE $<LINK_ONLY:CAF::io>)
