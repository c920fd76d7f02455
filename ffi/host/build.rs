//! Gives the shared library its name at run time: that of the C ABI's version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdfx.so.1");
}
