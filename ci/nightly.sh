# Sourced by the steps that need a nightly toolchain: `nightly STEP COMPONENT...` gets it with these components, or ends the
# step with exit 77 (skipped) and says why. What it downloads has two minutes: a machine without a network skips.
skip() {
    echo "$1: skipped, $2"
    exit 77
}

nightly() {
    local step=$1 component installed
    shift
    command -v rustup >/dev/null || skip "$step" "there is no rustup to get a nightly toolchain with"
    if ! rustup run nightly rustc --version >/dev/null 2>&1; then
        timeout 120 rustup toolchain install nightly --profile minimal >/dev/null 2>&1 \
            || skip "$step" "the nightly toolchain cannot be installed"
    fi
    installed=$(rustup component list --toolchain nightly --installed 2>/dev/null || true)
    for component in "$@"; do
        grep -q "^$component" <<<"$installed" && continue
        timeout 120 rustup component add "$component" --toolchain nightly >/dev/null 2>&1 \
            || skip "$step" "$component of nightly cannot be installed"
    done
}
