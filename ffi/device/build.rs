//! Chooses the platform: `DFX_PLATFORM=a2a3|a5`, a2a3 when nothing is said.

fn main() {
    println!("cargo::rerun-if-env-changed=DFX_PLATFORM");
    let platform = std::env::var("DFX_PLATFORM").unwrap_or_else(|_| "a2a3".to_owned());
    assert!(
        platform == "a2a3" || platform == "a5",
        "DFX_PLATFORM={platform} is not accepted, expected a2a3 or a5"
    );
    println!("cargo::rustc-cfg=dfx_platform=\"{platform}\"");
}
