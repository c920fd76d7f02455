//! A region on which no device half ever initialises: its feature was asked for, and the program that ran captured nothing
//! of it. That is told from a program in which there was nothing to capture.

#[allow(dead_code)] // a part of it is enough here
#[path = "hostile/memory.rs"]
mod memory;

use dfx_collector::abi::layout::{BufferLayout, DEP_GEN_LANE, DepGenLayout, ScopeStatsLayout};
use dfx_collector::abi::{Platform, peer};
use dfx_host_drain::report::Half;
use dfx_host_drain::{Board, DeviceEnd, DfxConfig, Drive, Session, SessionSpec, TransportKind};
use memory::{Memory, long, word};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Our device half's mark on the region at `base`, whose peer word is at `peer`.
fn sign(base: u64, peer: usize) {
    let word = word(base + peer as u64);
    word.store(peer::with_device(word.load(Acquire)), Release);
}

/// What is in the output directory, the codes of the reasons, and whose device half it was.
type Ended = (Vec<String>, Vec<String>, Half);

/// A run with dep_gen and scope statistics in which the device does `device` with the bases of the two regions.
fn run(platform: Platform, transport: TransportKind, device: impl FnOnce(u64, u64)) -> Ended {
    let memory = Arc::new(Memory::default());
    let config = DfxConfig { dep_gen: true, scope_stats: true, ..DfxConfig::default() };
    let board = Board { platform, core_is_aic: vec![true], aicpu_threads: 2 };
    let mut session =
        Session::configure(SessionSpec { config, board, memory: memory.clone(), transport }).unwrap();
    session.start(Drive::Stepped).unwrap();
    device(session.dep_gen_region().unwrap().0, session.scope_stats_region().unwrap().0);
    session.stop(DeviceEnd::Completed).unwrap();
    session.reconcile().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let files = session.export(dir.path()).unwrap();
    let files = files.iter().map(|info| info.path.file_name().unwrap().to_string_lossy().into_owned());
    let codes = session.reasons().iter().map(|reason| reason.code.clone());
    (files.collect(), codes.collect(), session.device_half())
}

fn everywhere(check: impl Fn(Platform, TransportKind)) {
    for platform in [Platform::A2a3, Platform::A5] {
        for transport in [TransportKind::Svm, TransportKind::Copy] {
            check(platform, transport);
        }
    }
}

fn has_graph(files: &[String]) -> bool {
    files.iter().any(|file| file == "deps.json")
}

#[test]
fn no_graph_is_written_of_a_program_that_no_device_half_watched_and_a_reason_says_so() {
    everywhere(|platform, transport| {
        let peer = ScopeStatsLayout::of(platform).queue.peer;
        let (files, codes, half) = run(platform, transport, |_, scopes| sign(scopes, peer));
        assert!(!has_graph(&files), "{files:?}");
        assert_eq!(codes, ["region_not_opened"]);
        assert_eq!(half, Half::Ours, "the half that was there");
    });
}

#[test]
fn an_empty_graph_is_written_of_a_program_that_our_device_half_watched_submit_nothing() {
    everywhere(|platform, transport| {
        let graphs = DepGenLayout::of(platform).queue.peer;
        let peer = ScopeStatsLayout::of(platform).queue.peer;
        let (files, codes, half) = run(platform, transport, |graph, scopes| {
            sign(graph, graphs);
            sign(scopes, peer);
        });
        assert!(has_graph(&files), "{files:?}");
        assert_eq!((codes.as_slice(), half), (&[] as &[String], Half::Ours));
    });
}

#[test]
fn an_empty_graph_is_written_of_a_program_that_the_reference_watched_submit_nothing() {
    everywhere(|platform, transport| {
        for flushed in [false, true] {
            let (files, codes, half) = run(platform, transport, |graph, _| {
                // It leaves no word, and takes a buffer.
                let lane = graph + DepGenLayout::of(platform).lane() as u64;
                let first = long(lane + DEP_GEN_LANE.free_ptrs as u64).load(Acquire);
                word(first + BufferLayout::dep_gen().count as u64).store(0, Release);
                word(lane + DEP_GEN_LANE.free_head as u64).store(1, Release);
                long(lane + DEP_GEN_LANE.current_ptr as u64).store(if flushed { 0 } else { first }, Release);
            });
            assert!(has_graph(&files), "{files:?}");
            assert_eq!((codes.as_slice(), half), (&[] as &[String], Half::Reference));
        }
    });
}
