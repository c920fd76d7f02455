//! Scope samples: bytes are exact however often a heap wraps, and every line parses whatever a site is called.

use dfx_collector::abi::tensor::DataType::Float32;
use dfx_host_drain::DfxConfig;
use dfx_sim::builder::{BuildError, ProgramBuilder};
use dfx_sim::program::{Op, Program};
use dfx_sim::run::Rig;
use dfx_tests::five::{assert_complete, program, scopes, virtual_request};
use dfx_tests::{PLATFORMS, Run, run_named, run_on};
use std::time::Duration;

const KIB: u64 = 1024;

fn sampling() -> DfxConfig {
    DfxConfig { scope_stats: true, ..DfxConfig::default() }
}

/// A scope of `tasks` tasks that make 1 KiB each, on heaps of `heap` KiB.
fn wrapping(name: &str, heap: u64, tasks: u64) -> Result<Program, BuildError> {
    let mut p = ProgramBuilder::new(name);
    p.ring_heap(heap * KIB);
    let nothing = p.kernel("nothing", Duration::from_micros(1), |_| {});
    p.scope_begin();
    for _ in 0..tasks {
        let part = p.tensor("part", Float32, &[256])?;
        p.submit().aiv(nothing).output(part).done()?;
    }
    p.scope_end()?;
    p.build()
}

fn number(line: &serde_json::Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("{key} of {line}"))
}

#[test]
fn bytes_are_exact_for_any_number_of_wraps() {
    for target in PLATFORMS {
        for wraps in [0, 1, 3, 1000] {
            for (heap, extra) in [(4, 0), (4, 3), (1, 0), (7, 5)] {
                let made = heap * wraps + extra;
                let what = format!("{wraps} wraps of {heap} KiB and {extra} on {}", target.name());
                let program = wrapping("wraps", heap, made).expect("it is a program");
                let run = run_on(virtual_request("wraps", target, sampling()), program, &Rig::new(target));
                assert_complete(&what, &run);
                let lines = scopes(&run);
                assert_eq!(lines.len(), 5, "{what}");
                assert!((0..4).all(|ring| lines[0]["heap_max"][ring] == heap * KIB), "{what}: {}", lines[0]);
                let (begin, end) = (&lines[2], &lines[3]);
                assert_eq!(
                    (begin["phase"].as_str(), end["phase"].as_str()),
                    (Some("begin"), Some("end")),
                    "{what}"
                );
                assert_eq!((number(begin, "heap_start"), number(begin, "heap_end")), (0, 0), "{what}");
                let (start, end_at) = (number(end, "heap_start"), number(end, "heap_end"));
                assert_eq!(end_at, made * KIB, "{what}: bytes allocated");
                // What is live fits into the heap, and is a whole number of parts.
                assert!(
                    start <= end_at && end_at - start <= heap * KIB && start % KIB == 0,
                    "{what}: {start}"
                );
                assert_eq!(
                    (number(end, "task_window_end"), number(end, "dep_pool_end")),
                    (made, 1),
                    "{what}"
                );
                assert_eq!(
                    number(end, "task_window_end") - number(end, "task_window_start"),
                    (end_at - start) / KIB
                );
            }
        }
    }
}

/// What each sample of the `scopes` workload must say of its ring: computed from the program, operation by operation.
fn assert_samples(what: &str, program: &Program, run: &Run) {
    let mut depth = 0usize;
    let mut allocated = [0u64; 4];
    let mut tasks = [0u64; 4];
    let mut expected = vec![("begin", 0, 0, 0)];
    for op in &program.ops {
        let ring = |depth: usize| depth.min(3);
        match op {
            Op::ScopeBegin { .. } => {
                depth += 1;
                expected.push(("begin", depth, allocated[ring(depth)], tasks[ring(depth)]));
            }
            Op::ScopeEnd => {
                expected.push(("end", depth, allocated[ring(depth)], tasks[ring(depth)]));
                depth -= 1;
            }
            Op::Submit(submit) => {
                tasks[ring(depth)] += 1;
                let made = program.buffers.iter().filter(|buffer| buffer.creator == Some(submit.id));
                allocated[ring(depth)] += made.map(|buffer| buffer.bytes.next_multiple_of(KIB)).sum::<u64>();
            }
        }
    }
    expected.push(("end", 0, allocated[0], tasks[0]));
    let lines = scopes(run);
    let found: Vec<_> = lines[1..]
        .iter()
        .map(|line| {
            let phase = if line["phase"] == "begin" { "begin" } else { "end" };
            (phase, number(line, "depth") as usize, number(line, "heap_end"), number(line, "task_window_end"))
        })
        .collect();
    assert_eq!(found, expected, "{what}");
    assert_eq!(number(&lines[0], "total"), expected.len() as u64, "{what}");
    for line in &lines[1..] {
        assert_eq!(number(line, "ring"), number(line, "depth").min(3), "{what}");
        assert!(number(line, "heap_start") <= number(line, "heap_end"), "{what}: {line}");
    }
}

#[test]
fn every_sample_of_every_workload_is_what_its_program_says() {
    for target in PLATFORMS {
        for workload in ["scopes", "paged_attention", "vector_example", "mixed"] {
            let what = format!("{workload} on {}", target.name());
            let run = run_named(virtual_request(workload, target, sampling()));
            assert_complete(&what, &run);
            assert_samples(&what, &program(workload), &run);
        }
    }
}

/// Per scope: by how many heaps the ring's allocation has gone on between its begin and its end.
#[test]
fn the_workload_wraps_often_in_some_scopes_and_never_in_others() {
    let run = run_named(virtual_request("scopes", PLATFORMS[0], sampling()));
    let lines = scopes(&run);
    let heap = lines[0]["heap_max"][0].as_u64().expect("a heap");
    let (mut open, mut wraps) = (Vec::new(), Vec::new());
    for line in &lines[1..] {
        let at = number(line, "heap_end") / heap;
        match line["phase"].as_str() {
            Some("begin") => open.push(at),
            _ => wraps.push(at - open.pop().expect("an open scope")),
        }
    }
    assert!(wraps.contains(&0) && wraps.contains(&1) && wraps.iter().any(|&n| n > 3), "{wraps:?}");
}

#[test]
fn every_line_parses_whatever_the_site_is_called() {
    let long = "é".repeat(40);
    let names = [
        "quote\"back\\slash",
        "new\nline\ttab\r",
        "control\u{1}\u{7f}",
        "../../a directory/file.cpp",
        "c:\\kernels\\orch.cpp",
        "ends/",
        &long,
        "31 bytes exactly, then no more.",
        "more than 31 bytes are cut off here.cpp",
        "{\"not\": \"a field\"}, \u{2028}",
        "",
    ];
    for target in PLATFORMS {
        for name in names {
            let program = wrapping(name, 4, 2).expect("it is a program");
            let run = run_on(virtual_request("site", target, sampling()), program, &Rig::new(target));
            assert_complete(name, &run);
            let lines = scopes(&run);
            assert_eq!(lines.len(), 5, "{name:?}");
            let site = lines[2]["site"].as_str().expect("a site").to_owned();
            let (file, line) = site.rsplit_once(':').expect("file:line");
            assert_eq!((line, lines[3]["site"].as_str()), ("1", Some(&*site)), "{name:?}");
            let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
            if base.len() <= 31 && !base.is_empty() {
                assert_eq!(file, base, "{name:?}");
            } else if !base.is_empty() {
                assert!(
                    base.starts_with(file.trim_end_matches('\u{fffd}')) && file.len() >= 30,
                    "{name:?}: {file:?}"
                );
            }
        }
    }
}
