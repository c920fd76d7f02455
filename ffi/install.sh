#!/usr/bin/env bash
# Installs both halves for C and C++ programs: headers, libraries, a CMake package and pkg-config files.
#
#   ffi/install.sh PREFIX
#
# Environment: DFX_HOST_LIBS, a directory that has libdfx.a and libdfx.so (else they are built, in release mode),
# DFX_DEVICE_LIBS, one that has libdfx_device_a2a3.a and libdfx_device_a5.a (else they are built, dfx_* only).
# What is installed finds its own place: the prefix may be moved.
set -euo pipefail
if (($# != 1)) || [[ $1 == -* ]]; then
    echo "usage: ffi/install.sh PREFIX" >&2
    exit 2
fi
prefix=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

host=${DFX_HOST_LIBS:-}
if [[ -z $host ]]; then
    CARGO_TARGET_DIR=$target cargo build --quiet --release --locked -p dfx-ffi
    host=$target/release
fi
device=${DFX_DEVICE_LIBS:-}
if [[ -z $device ]]; then
    device=$work
    for platform in a2a3 a5; do
        CARGO_TARGET_DIR=$target ffi/device/archive.sh $platform "$device/libdfx_device_$platform.a" native
    done
fi

abi=$(sed -n 's/^#define DFX_ABI_VERSION //p' ffi/include/dfx.h)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
fill() { # fill TEMPLATE [PLATFORM]
    sed -e "s/@ABI@/$abi/g" -e "s/@VERSION@/$version/g" -e "s/@PLATFORM@/${2:-}/g" -e "s/@UPPER@/$(tr a-z A-Z <<<"${2:-}")/g" "$1"
}

mkdir -p "$prefix"/{include/dfx/dropin/host,lib/cmake/dfx,lib/pkgconfig}
install -m 644 ffi/include/dfx.h ffi/include/dfx_aicore.h "$prefix/include/"
install -m 644 ffi/include/dropin/*.* "$prefix/include/dfx/dropin/"
install -m 644 ffi/include/dropin/host/*.h "$prefix/include/dfx/dropin/host/"
install -m 644 "$host/libdfx.a" "$prefix/lib/"
install -m 755 "$host/libdfx.so" "$prefix/lib/libdfx.so.$abi"
ln -sf "libdfx.so.$abi" "$prefix/lib/libdfx.so"
install -m 644 ffi/cmake/dfxConfig.cmake "$prefix/lib/cmake/dfx/"
fill ffi/cmake/dfxConfigVersion.cmake.in >"$prefix/lib/cmake/dfx/dfxConfigVersion.cmake"
fill ffi/pkgconfig/dfx.pc.in >"$prefix/lib/pkgconfig/dfx.pc"
fill ffi/pkgconfig/dfx-static.pc.in >"$prefix/lib/pkgconfig/dfx-static.pc"
for platform in a2a3 a5; do
    install -m 644 "$device/libdfx_device_$platform.a" "$prefix/lib/"
    fill ffi/pkgconfig/dfx-device.pc.in $platform >"$prefix/lib/pkgconfig/dfx-device-$platform.pc"
done
echo "installed pto-dfx $version, C ABI $abi, in $prefix"
