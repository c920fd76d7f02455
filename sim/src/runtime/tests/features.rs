//! Each way of running a task.

use super::support::*;
use super::*;
use dfx_collector::abi::swimlane::SchedPhaseKind;

fn paced(millis: u64) -> Sketch {
    let mut sketch = Sketch::new();
    sketch.program.pace = true;
    sketch.program.kernels[0].duration = Duration::from_millis(millis);
    sketch
}

#[test]
fn every_kind_of_phase_occurs_in_a_program_that_uses_everything() {
    let mut sketch = paced(4);
    sketch.task(AIV_TASK, &[]);
    sketch.task(AIV_TASK, &[0]).early_dispatch = true;
    sketch.task(NO_KERNEL, &[1]);
    sketch.task(AIC_TASK, &[2]).predicate = false;
    sketch.task(AIC_TASK, &[3]).async_after = Some(Duration::from_millis(2));
    let together = sketch.task(AIV_TASK, &[4]);
    (together.block_num, together.sync_start) = (3, true);
    sketch.task(NO_KERNEL, &[5]).nodes = vec![node(AIC_TASK, &[]), node(AIV_TASK, &[0])];
    sketch.task(MIX_TASK, &[6]).block_num = 2;
    sketch.task(AIV_TASK, &[7]);
    for threads in [2, 3, 5] {
        let run = sketch.run(&cfg(2, threads), Level::OrchPhases);
        run.assert_whole();
        for kind in SchedPhaseKind::ALL {
            assert!(!run.phases(kind).is_empty(), "no {kind:?} with {threads} threads");
        }
        assert_markers_and_order(&run);
    }
}

fn assert_markers_and_order(run: &Run) {
    let id = |submit| run.task_id(submit);
    let skips = run.phases(SchedPhaseKind::PredicatedSkip);
    assert!(matches!(skips[..], [Phase::Skip { task_id, .. }] if task_id == id(3)));
    let dummies = run.phases(SchedPhaseKind::DummyTask);
    assert!(matches!(dummies[..], [Phase::Dummy { task_id, .. }] if task_id == id(2)));
    let graphs = run.phases(SchedPhaseKind::GraphPrepare);
    assert!(matches!(graphs[..], [Phase::Graph { task_id, nodes: 2, .. }] if task_id == id(6)));
    let rows = run.rows_by_task();
    for node in 0..2 {
        assert_eq!(rows[&(1 << 32 | id(6) << 10 | node)].len(), 1);
    }
    for lane in run.notes.phases.values() {
        for pair in lane.windows(2) {
            if let [Phase::Step(a), Phase::Step(b)] = pair {
                assert!(a.loop_iter <= b.loop_iter);
                match a.kind {
                    SchedPhaseKind::Resolve => {
                        assert_eq!((b.kind, b.loop_iter), (SchedPhaseKind::Complete, a.loop_iter));
                        assert!(b.start <= a.start && a.end <= b.end);
                    }
                    SchedPhaseKind::DrainPublish => assert_eq!(b.kind, SchedPhaseKind::Drain),
                    _ => {}
                }
            }
        }
        let pops: u32 = lane.iter().map(|phase| if let Phase::Step(p) = phase { p.pop_hit } else { 0 }).sum();
        let dispatched: u32 = lane
            .iter()
            .map(|phase| match phase {
                Phase::Step(p) if p.kind == SchedPhaseKind::Dispatch => p.tasks,
                _ => 0,
            })
            .sum();
        assert!(pops <= dispatched, "a hit is at least one register write");
    }
}

#[test]
fn register_writes_and_finishes_are_all_in_the_phase_records() {
    let sketch = random_sketch(5, 200, 2);
    let run = sketch.run(&cfg(2, 4), Level::SchedPhases);
    run.assert_whole();
    let count = |kinds: &[SchedPhaseKind]| {
        let all = run.notes.phases.values().flatten();
        let tasks = all.filter_map(|phase| match phase {
            Phase::Step(p) if kinds.contains(&p.kind) => Some(u64::from(p.tasks)),
            _ => None,
        });
        tasks.sum::<u64>()
    };
    use SchedPhaseKind::{Complete, Dispatch, Drain, EarlyDispatch};
    assert_eq!(count(&[Complete]), run.outcome.core_rows);
    assert_eq!(count(&[Dispatch, EarlyDispatch, Drain]), run.outcome.core_rows);
}

#[test]
fn a_second_task_is_pending_while_the_first_runs() {
    let mut sketch = paced(40);
    for _ in 0..3 {
        sketch.task(AIC_TASK, &[]);
    }
    let run = sketch.run(&cfg(1, 2), Level::AicpuTiming);
    run.assert_whole();
    let mut cores = run.notes.core_rows.clone();
    let mut rows = run.notes.aicpu_rows.clone();
    cores.sort_by_key(|row| row.token);
    rows.sort_by_key(|row| row.token);
    // A core acknowledges between its receive and its start.
    assert!(
        cores[0].receive <= rows[1].dispatch && rows[1].dispatch < cores[0].end,
        "not written behind the first"
    );
    assert!(rows[2].dispatch >= cores[1].receive, "the third was written before the second was acknowledged");
}

#[test]
fn tasks_go_to_idle_cores_before_second_places() {
    let mut sketch = paced(30);
    for _ in 0..4 {
        sketch.task(AIC_TASK, &[]);
    }
    let run = sketch.run(&cfg(4, 3), Level::AicoreTiming);
    run.assert_whole();
    let mut cores: Vec<u32> = run.notes.core_rows.iter().map(|row| row.core).collect();
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2, 3]);
}

#[test]
fn an_early_task_waits_on_its_core_and_starts_after_its_producers() {
    let mut sketch = paced(20);
    sketch.task(AIC_TASK, &[]);
    sketch.task(AIC_TASK, &[]);
    let early = sketch.task(AIV_TASK, &[0, 1]);
    (early.early_dispatch, early.block_num) = (true, 6);
    sketch.task(AIV_TASK, &[2]);
    for threads in [2, 3] {
        let run = sketch.run(&cfg(2, threads), Level::SchedPhases);
        run.assert_whole();
        let rows = run.rows_by_task();
        let producers_end = [0, 1].iter().flat_map(|&s| &rows[&run.task_id(s)]).map(|row| row.end).max();
        let early = &rows[&run.task_id(2)];
        let ahead = early.iter().filter(|row| Some(row.receive) < producers_end).count();
        assert!(ahead >= 4, "{ahead} of 6 blocks were on their cores early");
        assert!(early.iter().all(|row| Some(row.start) >= producers_end));
    }
}

#[test]
fn a_mix_task_has_its_whole_block_for_itself() {
    let mut sketch = paced(1);
    for round in 0..60 {
        sketch.task([AIC_TASK, AIV_TASK, MIX2_TASK, AIV_TASK, MIX_TASK][round % 5], &[]);
    }
    let run = sketch.run(&cfg(2, 3), Level::AicoreTiming);
    run.assert_whole();
    let block_of = |core: u32| if core < 2 { core } else { (core - 2) / 2 };
    for (submit, def) in run.program.submits().enumerate().filter(|(_, def)| def.shape() == Shape::Mix) {
        let rows = &run.rows_by_task()[&run.task_id(submit as u32)];
        let block = block_of(rows[0].core);
        assert!(rows.iter().all(|row| block_of(row.core) == block));
        assert_eq!(rows.len(), def.kernels.iter().flatten().count());
        let from = rows.iter().map(|row| row.receive).min().expect("rows");
        let to = rows.iter().map(|row| row.end).max().expect("rows");
        let alien = run.notes.core_rows.iter().find(|row| {
            row.task_id != rows[0].task_id && block_of(row.core) == block && row.start < to && row.end > from
        });
        assert_eq!(alien, None, "another task ran on the block");
    }
}

#[test]
fn blocks_of_a_sync_start_task_run_at_the_same_time_across_schedulers() {
    let mut sketch = paced(40);
    for _ in 0..5 {
        sketch.task(AIV_TASK, &[]).duration = Some(Duration::from_millis(3));
    }
    for (shape, blocks) in [(AIV_TASK, 8), (MIX_TASK, 4), (AIC_TASK, 3)] {
        let together = sketch.task(shape, &[]);
        (together.block_num, together.sync_start) = (blocks, true);
        sketch.task(AIV_TASK, &[]).duration = Some(Duration::from_millis(1));
    }
    for threads in [2, 5] {
        let run = sketch.run(&cfg(4, threads), Level::SchedPhases);
        run.assert_whole();
        for submit in [5, 7, 9] {
            let rows = &run.rows_by_task()[&run.task_id(submit)];
            let last_start = rows.iter().map(|row| row.start).max();
            let first_end = rows.iter().map(|row| row.end).min();
            assert!(last_start < first_end, "submit {submit} with {threads} threads");
        }
    }
}

#[test]
fn blocks_of_an_spmd_task_spread_over_all_schedulers_cores() {
    let mut sketch = paced(5);
    sketch.task(AIV_TASK, &[]).block_num = 24;
    let run = sketch.run(&cfg(4, 5), Level::AicoreTiming);
    run.assert_whole();
    let cores: std::collections::HashSet<u32> = run.notes.core_rows.iter().map(|row| row.core).collect();
    assert_eq!(cores.len(), 8);
}

#[test]
fn a_task_with_an_event_completes_that_much_later() {
    let mut sketch = Sketch::new();
    sketch.task(AIV_TASK, &[]).async_after = Some(Duration::from_millis(15));
    sketch.task(AIV_TASK, &[0]);
    let run = sketch.run(&cfg(1, 2), Level::SchedPhases);
    run.assert_whole();
    let rows = run.rows_by_task();
    let gap = rows[&run.task_id(1)][0].start - rows[&run.task_id(0)][0].end;
    assert!((15_000_000..1_000_000_000).contains(&gap), "{gap} ns");
}

#[test]
fn captured_task_ids_are_kept() {
    let mut sketch = Sketch::new();
    sketch.task(AIV_TASK, &[]).task_id = crate::program::TaskIdRule::Fixed(2 << 32 | 77);
    sketch.task(AIV_TASK, &[0]);
    let run = sketch.run(&cfg(1, 2), Level::OrchPhases);
    run.assert_whole();
    assert_eq!((run.task_id(0), run.task_id(1)), (2 << 32 | 77, 0));
}
