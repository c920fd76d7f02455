//! Runs that do not end well end all the same, soon, and say how.

use super::support::*;
use super::*;
use std::time::Instant;

const SOON: Duration = Duration::from_secs(5);

fn chain() -> Sketch {
    let mut sketch = Sketch::new();
    sketch.task(AIV_TASK, &[]);
    for id in 1..20 {
        sketch.task(AIV_TASK, &[id - 1]);
    }
    sketch
}

fn hanging_at(submit: u32) -> LaunchConfig {
    let faults = Faults { core_hang: Some(SubmitId(submit)), ..Faults::default() };
    LaunchConfig { faults, ..cfg(2, 3) }
}

fn timed(sketch: &Sketch, cfg: &LaunchConfig) -> (Run, Duration) {
    let begun = Instant::now();
    let run = sketch.run(cfg, Level::OrchPhases);
    (run, begun.elapsed())
}

#[test]
fn a_core_that_hangs_is_found_by_the_schedulers_which_save_what_they_have() {
    let timeout = Duration::from_millis(200);
    let (run, took) = timed(&chain(), &LaunchConfig { scheduler_timeout: timeout, ..hanging_at(7) });
    assert!((timeout..SOON).contains(&took), "{took:?}");
    let LaunchStatus::SchedulerHang { after, outstanding, stuck, .. } = &run.outcome.status else {
        panic!("{:?}", run.outcome.status)
    };
    assert_eq!((*after, *outstanding), (timeout, 13));
    let [task] = &stuck[..] else { panic!("{stuck:?}") };
    assert_eq!((task.submit, task.task_id, task.state), (SubmitId(7), 7, StuckState::Running));
    assert!(!run.outcome.killed);
    assert_eq!(run.outcome.completed, 7);
    assert_eq!(run.outcome.tasks.iter().filter(|task| task.completed).count(), 7);
    let cores: Vec<u32> = (0..6).collect();
    for saved in [&run.notes.synced, &run.notes.flushed] {
        let mut saved = saved.clone();
        saved.sort_unstable();
        assert_eq!(saved, cores, "each core is synced and flushed");
    }
    assert_eq!(run.notes.orch_flushes, 1);
}

#[test]
fn stars_kills_the_aicpu_where_it_stands() {
    let timeout = Duration::from_millis(150);
    let (run, took) = timed(&chain(), &LaunchConfig { op_timeout: timeout, ..hanging_at(3) });
    assert!((timeout..SOON).contains(&took), "{took:?}");
    assert_eq!(run.outcome.status, LaunchStatus::OpTimeout { after: timeout });
    assert!(run.outcome.killed);
    assert!(run.notes.flushed.is_empty() && run.notes.synced.is_empty());
}

#[test]
fn the_host_gives_up_after_the_stream_sync_timeout() {
    let timeout = Duration::from_millis(150);
    let (run, took) = timed(&chain(), &LaunchConfig { stream_sync_timeout: timeout, ..hanging_at(3) });
    assert!((timeout..SOON).contains(&took), "{took:?}");
    assert_eq!(run.outcome.status, LaunchStatus::Abandoned { after: timeout });
    assert!(run.outcome.killed);
}

#[test]
fn an_orchestrator_that_waits_for_a_hung_window_ends_too() {
    let limits =
        LaunchConfig { scheduler_timeout: Duration::from_millis(100), ring_window: 2, ..hanging_at(3) };
    let (run, took) = timed(&chain(), &limits);
    assert!(took < SOON, "{took:?}");
    assert!(matches!(run.outcome.status, LaunchStatus::SchedulerHang { .. }), "{:?}", run.outcome.status);
    assert!(run.outcome.submitted < 20);
}

#[test]
fn a_dead_scheduler_is_noticed_by_another_or_by_the_end() {
    let faults = Faults { aicpu_dies: Some(SubmitId(4)), ..Faults::default() };
    let limits =
        LaunchConfig { scheduler_timeout: Duration::from_millis(100), faults, ..LaunchConfig::default() };
    let (run, took) = timed(&chain(), &LaunchConfig { aicpu_threads: 2, ..limits.clone() });
    assert!(took < SOON && run.outcome.status == LaunchStatus::Died, "{took:?} {:?}", run.outcome.status);
    let (run, took) = timed(&chain(), &LaunchConfig { aicpu_threads: 3, ..limits });
    assert!(took < SOON, "{took:?}");
    assert!(matches!(run.outcome.status, LaunchStatus::SchedulerHang { .. }), "{:?}", run.outcome.status);
    assert_eq!(run.notes.flushed.len(), 3, "the living one saves its cores");
}

#[test]
fn a_kernel_that_panics_ends_the_run_with_its_message() {
    let mut sketch = chain();
    sketch.program.kernels[0].run = Arc::new(|ctx| assert!(ctx.scalar(0) < 5, "no fifth task"));
    let (run, took) = timed(&sketch, &cfg(2, 3));
    assert!(took < SOON, "{took:?}");
    match run.outcome.status {
        LaunchStatus::Panicked { actor: ActorId::Core(_), message } => assert!(message.contains("no fifth")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn gated_tasks_end_with_a_hung_run() {
    let mut sketch = chain();
    sketch.task(AIC_TASK, &[3]).early_dispatch = true;
    let limits = LaunchConfig { scheduler_timeout: Duration::from_millis(100), ..hanging_at(3) };
    let (run, took) = timed(&sketch, &limits);
    assert!(took < SOON, "{took:?}");
    let LaunchStatus::SchedulerHang { stuck, .. } = &run.outcome.status else {
        panic!("{:?}", run.outcome.status)
    };
    assert_eq!(stuck.len(), 2);
    assert!(stuck.iter().any(|task| task.state == StuckState::Gated && task.submit == SubmitId(20)));
}
