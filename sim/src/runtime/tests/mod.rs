//! The runtime over real threads.

mod faults;
mod features;
mod levels;
mod serial;
mod support;

use super::*;
use dfx_collector::abi::swimlane::Level;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::*;

fn cfg(blockdim: u32, aicpu_threads: u32) -> LaunchConfig {
    LaunchConfig { blockdim, aicpu_threads, ..LaunchConfig::default() }
}

/// A random program that uses everything.
fn random_sketch(seed: u64, tasks: u32, blockdim: u32) -> Sketch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut sketch = Sketch::new();
    let mut depth = 0;
    for id in 0..tasks {
        if rng.random_ratio(1, 8) && depth < 5 {
            sketch.scope(rng.random());
            depth += 1;
        } else if depth > 0 && rng.random_ratio(1, 8) {
            sketch.end_scope();
            depth -= 1;
        }
        let mut deps: Vec<u32> =
            (0..rng.random_range(0..4)).map(|_| rng.random_range(0..id.max(1))).collect();
        deps.retain(|&dep| dep < id);
        deps.sort_unstable();
        deps.dedup();
        let shapes = [AIC_TASK, AIV_TASK, AIV1_TASK, MIX_TASK, MIX2_TASK, NO_KERNEL];
        let shape = shapes[rng.random_range(0..shapes.len())];
        let submit = sketch.task(shape, &deps);
        match rng.random_range(0..12) {
            0 => submit.block_num = rng.random_range(2..9),
            1 => {
                submit.block_num = rng.random_range(1..=blockdim);
                submit.sync_start = true;
            }
            2 => submit.predicate = false,
            3 if shape != NO_KERNEL => submit.async_after = Some(Duration::from_micros(300)),
            4 | 5 => submit.early_dispatch = true,
            6 if shape == NO_KERNEL => submit.alloc = true,
            7 if shape == NO_KERNEL => {
                // Far from the ids of ring 1, with which its nodes' would collide.
                submit.task_id = crate::program::TaskIdRule::Fixed(u64::from(100_000 + id));
                submit.nodes = vec![
                    node(AIC_TASK, &[]),
                    node(AIV_TASK, &[]),
                    node(MIX_TASK, &[0, 1]),
                    node(NO_KERNEL, &[2]),
                    node(AIV1_TASK, &[3, 0]),
                ];
            }
            _ => {}
        }
    }
    sketch
}

#[test]
fn every_block_and_active_subtask_gives_one_row_on_any_number_of_schedulers() {
    for (blockdim, threads) in [(1, 2), (2, 2), (2, 3), (5, 5), (3, 5)] {
        let sketch = random_sketch(u64::from(blockdim * 10 + threads), 300, blockdim);
        for level in [0, 1, 2, 3, 4] {
            let level = Level::from_raw(level).expect("a level");
            sketch.run(&cfg(blockdim, threads), level).assert_whole();
        }
    }
}

#[test]
fn small_programs_lose_no_wakeup_in_many_runs() {
    for round in 0..50 {
        let sketch = random_sketch(1000 + round, 24, 2);
        let run = sketch.run(&cfg(2, 2 + round as u32 % 3), Level::OrchPhases);
        run.assert_whole();
        let slow = run.outcome.device_ns > 2_000_000_000;
        assert!(!slow, "round {round}: {} ms for 24 tasks", run.outcome.device_ns / 1_000_000);
    }
}

#[test]
fn tokens_wrap_in_the_middle_of_a_run() {
    let mut sketch = Sketch::new();
    for _ in 0..40 {
        sketch.task(AIV_TASK, &[]);
    }
    let run = sketch.run(&LaunchConfig { first_token: EXIT_TOKEN - 3, ..cfg(1, 2) }, Level::AicpuTiming);
    run.assert_whole();
    assert!(run.notes.core_rows.iter().any(|row| row.token == EXIT_TOKEN - 1));
    assert!(run.notes.core_rows.iter().any(|row| row.token == 1));
    assert!(run.notes.core_rows.iter().all(|row| (1..EXIT_TOKEN).contains(&row.token)));
}

#[test]
fn a_task_with_five_thousand_predecessors_starts_after_all_of_them() {
    let mut sketch = Sketch::new();
    for _ in 0..5_000 {
        sketch.task(AIV_TASK, &[]);
    }
    let all: Vec<u32> = (0..5_000).collect();
    sketch.task(AIC_TASK, &all);
    let run = sketch.run(&cfg(2, 3), Level::AicoreTiming);
    run.assert_whole();
    assert_eq!(run.outcome.edges.len(), 5_000);
}

#[test]
fn the_orchestrator_waits_for_room_in_a_small_window_in_every_ring() {
    let mut sketch = Sketch::new();
    for depth in 0..6 {
        for _ in 0..60 {
            sketch.task(if depth % 2 == 0 { AIV_TASK } else { NO_KERNEL }, &[]);
        }
        sketch.scope(false);
    }
    for window in [1, 2, 7] {
        let run = sketch.run(&LaunchConfig { ring_window: window, ..cfg(2, 3) }, Level::SchedPhases);
        run.assert_whole();
        let rings: Vec<u64> = (0..6).map(|depth| run.task_id(depth * 60) >> 32).collect();
        assert_eq!(rings, [0, 1, 2, 3, 3, 3]);
    }
}

#[test]
fn what_cannot_run_is_refused_before_anything_starts() {
    let refuse = |cfg: &LaunchConfig, make: &dyn Fn(&mut Sketch)| {
        let mut sketch = Sketch::new();
        make(&mut sketch);
        let program = Arc::new(sketch.program);
        let memory = ProgramMemory::new(&program, Arc::new(crate::memory::HeapAlloc::default()));
        match Launch::new(cfg, program, Arc::new(memory.expect("no buffers"))) {
            Ok(_) => panic!("not refused"),
            Err(error) => error.to_string(),
        }
    };
    let plain = |sketch: &mut Sketch| {
        sketch.task(AIV_TASK, &[]);
    };
    let wide = |sketch: &mut Sketch| {
        let submit = sketch.task(AIV_TASK, &[]);
        (submit.block_num, submit.sync_start) = (5, true);
    };
    assert!(refuse(&cfg(2, 1), &plain).contains("at least 2"));
    assert!(refuse(&cfg(0, 2), &plain).contains("--blockdim"));
    assert!(refuse(&LaunchConfig { first_token: 0, ..cfg(1, 2) }, &plain).contains("first token"));
    let message = refuse(&cfg(2, 2), &wide);
    assert!(message.contains("submit 0") && message.contains("places for 4"), "{message}");
    assert!(refuse(&cfg(1, 2), &|s| _ = s.task(AIV_TASK, &[0])).contains("not before it"));
    assert!(
        refuse(&cfg(1, 2), &|s| s.task(NO_KERNEL, &[]).nodes = vec![node(AIV_TASK, &[0])]).contains("node 0")
    );
    assert!(
        refuse(&cfg(1, 2), &|s| s.task(AIV_TASK, &[]).kernels[1] = Some(KernelId(9))).contains("kernel 9")
    );
    assert!(refuse(&cfg(1, 2), &|s| s.task(AIV_TASK, &[]).block_num = 0).contains("block_num"));
}

#[test]
#[ignore = "a measurement: run it alone, in release"]
fn floods_and_chains_are_quick() {
    for (name, tasks, chained) in [("flood", 65_536, false), ("chain", 1_000, true), ("chain", 20_000, true)]
    {
        let mut sketch = Sketch::new();
        sketch.program.kernels[0].run = Arc::new(|_| {});
        for id in 0..tasks {
            let dep = [u32::wrapping_sub(id, 1)];
            sketch.task(AIV_TASK, if chained && id > 0 { &dep } else { &[] });
        }
        for (blockdim, threads) in [(2, 2), (2, 3), (2, 4), (24, 4)] {
            for level in [Level::Disabled, Level::OrchPhases] {
                let (cfg, program) = (cfg(blockdim, threads), Arc::new(sketch.program.clone()));
                let memory = ProgramMemory::new(&program, Arc::new(crate::memory::HeapAlloc::default()));
                let exec = Arc::new(crate::exec::threads::ThreadsExec::with_hz(50_000_000));
                let begun = std::time::Instant::now();
                let memory = Arc::new(memory.expect("no buffers"));
                let outcome = launch(&cfg, program, memory, &Notebook::new(level), exec).expect("launched");
                assert_eq!(outcome.status, LaunchStatus::Completed);
                println!(
                    "{name}:{tasks} {blockdim} blocks, {threads} threads, {level:?}: {:?}",
                    begun.elapsed()
                );
            }
        }
    }
}
