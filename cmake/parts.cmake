# What single folders need beyond the common rules: generated protobuf code in net/, CUDA in devices/ and ops/.

file(GLOB protos CONFIGURE_DEPENDS net/*.proto)
if(protos AND TARGET troupe_net)
  set(generated "${CMAKE_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${generated}/net")
  add_library(troupe_proto OBJECT)
  protobuf_generate(TARGET troupe_proto PROTOS ${protos} LANGUAGE cpp IMPORT_DIRS "${CMAKE_CURRENT_SOURCE_DIR}"
    PROTOC_OUT_DIR "${generated}")
  target_include_directories(troupe_proto SYSTEM PUBLIC "${generated}" ${Protobuf_INCLUDE_DIRS})
  add_dependencies(troupe_net troupe_proto)
  target_include_directories(troupe_net SYSTEM PRIVATE "${generated}")
  list(APPEND troupe_extra_objects $<TARGET_OBJECTS:troupe_proto>)
endif()
