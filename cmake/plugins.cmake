# Plugins: shared libraries with ops (include/troupe/custom_op.hpp). For this build, and for users of
# the installed package.

# For a program that loads plugins: links the whole library into it and exports its symbols.
function(troupe_enable_plugins target)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_options(${target} PRIVATE "LINKER:--whole-archive,$<TARGET_FILE:troupe::troupe>,--no-whole-archive")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# A plugin NAME.so of these files. It links no part of the library, since the loading program has
# all of it.
function(troupe_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} SYSTEM PRIVATE $<TARGET_PROPERTY:troupe::troupe,INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()
