//! What the header states: its layout, and that every compiler takes it.

use dfx_tests::glue::{self, Fact, Flavor, Glue, Language};
use serde_json::Value;

/// The pinned facts of `platform` that the header has, as the header should state them.
fn pinned(name: &str, has_ring: bool) -> Vec<Fact> {
    let path = format!("{}/../collector/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let facts: Value = serde_json::from_slice(&std::fs::read(path).expect("the pinned facts")).expect("JSON");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is no number"));
    let mut all = Vec::new();
    let mut structs = vec!["ChipSwimlaneAicoreTaskRecord", "ChipSwimlaneActiveHead"];
    let mut numbers =
        vec!["PLATFORM_AICORE_BUFFER_SIZE", "SIMPLER_DFX_FLAG_CHIP_SWIMLANE", "SIMPLER_DFX_FLAG_PMU"];
    if has_ring {
        structs.extend(["PmuRecord", "PmuAicoreRing"]);
        numbers.extend(["PLATFORM_PMU_AICORE_RING_SIZE", "PMU_COUNTER_COUNT_A5"]);
    }
    for of in structs {
        let fact = |field: &str, at: &Value, bytes: &Value| Fact {
            of: of.to_owned(),
            field: field.to_owned(),
            at: number(at),
            bytes: number(bytes),
        };
        let pinned = &facts["structs"][of];
        all.push(fact("", &pinned["align"], &pinned["size"]));
        for field in pinned["fields"].as_array().expect("fields") {
            let name = field["name"].as_str().expect("a name");
            all.push(fact(name, &field["offset"], &field["size"]));
        }
    }
    for of in numbers {
        let at = number(&facts["constants"][of]);
        all.push(Fact { of: of.to_owned(), field: "=".to_owned(), at, bytes: 0 });
    }
    all.sort();
    all
}

#[test]
fn the_header_lies_as_pinned_field_by_field_on_both_platforms() {
    for glue in Glue::all(Flavor::Atomics, None) {
        let mut ours = glue.facts();
        ours.sort();
        assert_eq!(ours, pinned("a5", true), "{glue:?}");
        let shared = |fact: &Fact| !fact.of.contains("Pmu") && !fact.of.contains("PMU_");
        ours.retain(|fact| shared(fact) || fact.of == "SIMPLER_DFX_FLAG_PMU");
        assert_eq!(ours, pinned("a2a3", false), "{glue:?}");
    }
}

#[test]
fn the_header_compiles_without_a_warning_however_it_is_used() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let strict = ["-Wconversion", "-Wshadow", "-Wundef", "-Wcast-qual", "-Wcast-align"];
    let custom = "#define DFX_DSB() __asm__ volatile(\"\" ::: \"memory\")\n#define DFX_CLOCK() 7u\n";
    let mut compiled = 0;
    for (language, name) in [(Language::C, "use.c"), (Language::Cxx, "use.cpp")] {
        for (number, prelude) in ["", custom].into_iter().enumerate() {
            let source = dir.path().join(format!("{number}{name}"));
            let twice = "#include \"dfx_aicore.h\"\n#include \"dfx_aicore.h\"\n";
            std::fs::write(&source, format!("{prelude}{twice}")).expect("a file");
            for compiler in language.compilers() {
                for freestanding in [&[][..], &["-ffreestanding", "-nostdlib"]] {
                    for define in ["", "-DDFX_PLATFORM_A2A3", "-DDFX_PLATFORM_A5", "-DDFX_AICORE_ATOMICS=0"] {
                        let mut args: Vec<&str> = strict.to_vec();
                        args.extend(["-O2", "-fsyntax-only"].iter().chain(freestanding));
                        args.extend((!define.is_empty()).then_some(define));
                        let output = glue::compile(&compiler, language, &source, &args);
                        let said = String::from_utf8_lossy(&output.stderr);
                        assert!(output.status.success() && said.is_empty(), "{compiler} {args:?}:\n{said}");
                        compiled += 1;
                    }
                }
            }
        }
    }
    assert!(compiled >= 16, "a C compiler is there: Rust links with it");
}

/// Whether every pointer into device memory says so: with an address space that the compiler tells from the usual one.
#[test]
fn every_pointer_to_device_memory_carries_the_address_space() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (language, name) in [(Language::C, "use.c"), (Language::Cxx, "use.cpp")] {
        let source = dir.path().join(name);
        std::fs::write(&source, "#include \"dfx_aicore.h\"\n").expect("a file");
        for compiler in language.compilers().into_iter().filter(|name| name.contains("clang")) {
            let space = "-DDFX_GM=__attribute__((address_space(1)))";
            for atomics in ["-DDFX_AICORE_ATOMICS=0", "-DDFX_AICORE_ATOMICS=1"] {
                let output = glue::compile(&compiler, language, &source, &[space, atomics, "-fsyntax-only"]);
                assert!(output.status.success(), "{compiler}:\n{}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

/// A simulator's threads are right: by default a look acquires and a publication releases, which only shows on a processor
/// that would not do so anyway.
#[test]
fn on_aarch64_the_default_acquires_and_releases() {
    let (language, args) =
        (Language::C, ["--target=aarch64-linux-gnu", "-ffreestanding", "-O2", "-S", "-o", "-"]);
    for compiler in language.compilers().into_iter().filter(|name| name.contains("clang")) {
        let count = |atomics: &str, instruction: &str| {
            let args: Vec<&str> = args.iter().copied().chain([atomics]).collect();
            let output = glue::compile(&compiler, language, &language.source(), &args);
            assert!(output.status.success(), "{compiler}:\n{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().filter(|line| line.trim_start().starts_with(instruction)).count()
        };
        // The entry and the number in reserve, the entry in resolve and in pmu_open.
        assert!(count("-O2", "ldar") >= 4, "{compiler}");
        // The start time, the slot's id, the control word in begin and in end.
        assert!(count("-O2", "stlr") >= 4, "{compiler}");
        let plain = "-DDFX_AICORE_ATOMICS=0";
        assert_eq!(count(plain, "ldar") + count(plain, "stlr"), 0, "{compiler}: volatile is volatile");
    }
}
