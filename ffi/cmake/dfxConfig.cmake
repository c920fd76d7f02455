# find_package(dfx): imported targets of pto-dfx.
#
#   dfx::host         the host half, libdfx.so
#   dfx::host_static  the same as libdfx.a, with what it needs of the system
#   dfx::device_a2a3, dfx::device_a5
#                     the device half of a platform
#   dfx::device       that of the platform named by DFX_PLATFORM (a2a3 or a5), set before find_package
#   dfx::headers      dfx.h and dfx_aicore.h alone, for kernels
#
# Host and device half may be linked into one program, a simulator's for example.

get_filename_component(_dfx_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_dfx_include "${_dfx_prefix}/include")
set(_dfx_lib "${_dfx_prefix}/lib")

if(NOT TARGET dfx::headers)
    add_library(dfx::headers INTERFACE IMPORTED)
    set_target_properties(dfx::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_dfx_include}")

    add_library(dfx::host SHARED IMPORTED)
    set_target_properties(dfx::host PROPERTIES
        IMPORTED_LOCATION "${_dfx_lib}/libdfx.so.1"
        IMPORTED_SONAME libdfx.so.1
        INTERFACE_LINK_LIBRARIES dfx::headers)

    add_library(dfx::host_static STATIC IMPORTED)
    set_target_properties(dfx::host_static PROPERTIES
        IMPORTED_LOCATION "${_dfx_lib}/libdfx.a"
        INTERFACE_LINK_LIBRARIES "dfx::headers;gcc_s;pthread;dl;m")

    foreach(_dfx_platform a2a3 a5)
        string(TOUPPER "${_dfx_platform}" _dfx_upper)
        add_library(dfx::device_${_dfx_platform} STATIC IMPORTED)
        set_target_properties(dfx::device_${_dfx_platform} PROPERTIES
            IMPORTED_LOCATION "${_dfx_lib}/libdfx_device_${_dfx_platform}.a"
            INTERFACE_COMPILE_DEFINITIONS "DFX_PLATFORM_${_dfx_upper}"
            INTERFACE_LINK_LIBRARIES dfx::headers)
    endforeach()
endif()

if(DFX_PLATFORM AND NOT TARGET dfx::device)
    if(NOT TARGET dfx::device_${DFX_PLATFORM})
        set(dfx_FOUND FALSE)
        set(dfx_NOT_FOUND_MESSAGE "DFX_PLATFORM is \"${DFX_PLATFORM}\", expected a2a3 or a5")
        return()
    endif()
    add_library(dfx::device INTERFACE IMPORTED)
    set_target_properties(dfx::device PROPERTIES INTERFACE_LINK_LIBRARIES dfx::device_${DFX_PLATFORM})
endif()

unset(_dfx_prefix)
unset(_dfx_include)
unset(_dfx_lib)
