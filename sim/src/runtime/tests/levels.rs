//! Each level adds exactly its own counter reads and records.

use super::support::*;
use super::*;

fn sketch() -> Sketch {
    let mut sketch = Sketch::new();
    sketch.task(NO_KERNEL, &[]).alloc = true;
    for id in 1..60u32 {
        let shape = [AIC_TASK, AIV_TASK, MIX_TASK, NO_KERNEL][id as usize % 4];
        sketch.task(shape, if id % 3 == 0 { &[] } else { &[0] }).block_num = 1 + id % 2;
    }
    sketch
}

#[test]
fn a_level_reads_the_clock_for_its_own_records_only() {
    let sketch = sketch();
    let rows: u64 = sketch.program.submits().map(|submit| submit.core_rows()).sum();
    let submits = sketch.program.submits().count() as u64;
    for threads in [2, 4] {
        let reads = |level| {
            let run = sketch.run(&cfg(2, threads), level);
            run.assert_whole();
            (run.reads, run.notes)
        };
        assert_eq!(reads(Level::Disabled).0, (0, 0));
        assert_eq!(reads(Level::AicoreTiming).0, (3 * rows, 0));
        assert_eq!(reads(Level::AicpuTiming).0, (3 * rows, 2 * rows));
        let (phases, notes) = reads(Level::SchedPhases);
        let recorded = notes.phases.values().map(|lane| lane.len() as u64).sum::<u64>();
        assert_eq!(phases.0, 3 * rows);
        assert!(phases.1 > 2 * rows && phases.1 <= 2 * rows + 2 * recorded, "{phases:?}, {recorded} phases");
        let (all, notes) = reads(Level::OrchPhases);
        let recorded = notes.phases.values().map(|lane| lane.len() as u64).sum::<u64>();
        let orchestrator = 2 * submits;
        assert!(all.1 > 2 * rows + orchestrator && all.1 <= 2 * rows + orchestrator + 2 * recorded);
    }
}

#[test]
fn orchestrator_rows_are_the_submits_in_order_allocs_included() {
    let run = sketch().run(&cfg(2, 3), Level::OrchPhases);
    for (at, (start, end, task_id, submit_idx)) in run.notes.submits.iter().enumerate() {
        assert_eq!((*submit_idx, *task_id), (at as u32, run.task_id(at as u32)));
        assert!(start <= end);
    }
    assert!(run.notes.submits.windows(2).all(|pair| pair[0].1 <= pair[1].0));
}

#[test]
fn schedulers_own_the_cores_that_they_say() {
    let run = sketch().run(&cfg(5, 4), Level::SchedPhases);
    let mut all: Vec<u32> = run.notes.assigned.values().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..15));
    assert_eq!(run.notes.assigned[&0], [0, 5, 6, 3, 11, 12]);
}
