//! One launch: a session of our host half around a runtime that calls the device library.

use super::memory::Memory;
use super::runtime::{Device, Tensors, arm};
use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump::Level as DumpLevel;
use dfx_collector::abi::pmu::EventType;
use dfx_collector::abi::swimlane::Level;
use dfx_host_drain::report::{StreamKind, StreamReport};
use dfx_host_drain::{
    Board, DeviceEnd, DfxConfig, Drive, DumpBudget, PoolSizes, Session, SessionSpec, TransportKind,
};
use dfx_tests::device_library::Library;
use std::sync::Arc;

/// What a launch does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) cores: u32,
    pub(crate) schedulers: u32,
    pub(crate) tasks: u32,
    pub(crate) swimlane: u32,
    pub(crate) dump: u32,
    pub(crate) dep_gen: bool,
    pub(crate) pmu: bool,
    pub(crate) scopes: bool,
    /// Whether the threads publish what they hold at the end.
    pub(crate) flush: bool,
    /// How the runtime says that it ended.
    pub(crate) end: DeviceEnd,
}

impl Plan {
    /// Everything, at the highest level.
    pub(crate) const ALL: Plan = Plan {
        cores: 3,
        schedulers: 2,
        tasks: 1_000,
        swimlane: 4,
        dump: 2,
        dep_gen: true,
        pmu: true,
        scopes: true,
        flush: true,
        end: DeviceEnd::Completed,
    };

    /// As after a hang: nothing is flushed, and the host recovers it.
    pub(crate) const UNFLUSHED: Plan = Plan { flush: false, end: DeviceEnd::Abnormal, ..Plan::ALL };

    /// The orchestrator's thread.
    pub(crate) fn orchestrator(&self) -> i32 {
        self.schedulers as i32
    }

    pub(crate) fn thread_of(&self, core: u32) -> i32 {
        (core % self.schedulers) as i32
    }

    pub(crate) fn cores_of(&self, thread: i32) -> Vec<i32> {
        (0..self.cores as i32).filter(|core| self.thread_of(*core as u32) == thread).collect()
    }
}

/// A scope for every so many tasks.
pub(crate) const TASKS_PER_SCOPE: u32 = 5;
/// A task in so many is dumped.
pub(crate) const TASKS_PER_DUMP: u32 = 10;

/// What is left of a launch.
pub(crate) struct Launch {
    what: String,
    platform: Platform,
    plan: Plan,
    streams: Vec<StreamReport>,
    reasons: Vec<String>,
    dir: tempfile::TempDir,
}

/// The memory and the session, before and after the device.
pub(crate) struct Host {
    pub(crate) memory: Arc<Memory>,
    pub(crate) session: Session,
    pub(crate) dir: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new(platform: Platform, plan: &Plan) -> Host {
        let memory = Arc::new(Memory::default());
        let config = DfxConfig {
            chip_swimlane: Level::from_raw(plan.swimlane).expect("a level"),
            dump_args: DumpLevel::from_raw(plan.dump).expect("a level"),
            dep_gen: plan.dep_gen,
            pmu: plan.pmu.then_some(EventType::PipeUtilization),
            scope_stats: plan.scopes,
            dump_budget: DumpBudget::Unlimited,
            dump_arena_bytes: 1 << 16,
            pools: PoolSizes::all(2),
            ..DfxConfig::default()
        };
        let core_is_aic = (0..plan.cores).map(|core| core % 3 == 0).collect();
        let board = Board { platform, core_is_aic, aicpu_threads: plan.schedulers + 1 };
        let transport = match platform {
            Platform::A2a3 => TransportKind::Svm,
            Platform::A5 => TransportKind::Copy,
        };
        let spec = SessionSpec { config, board, memory: memory.clone(), transport };
        let mut session = Session::configure(spec).expect("a session");
        let dir = tempfile::tempdir().expect("a directory");
        session.set_output(dir.path()).expect("just configured");
        Host { memory, session, dir }
    }

    fn end(mut self, library: &Library, plan: &Plan) -> Launch {
        self.session.stop(plan.end).expect("it ran");
        self.session.reconcile().expect("it stopped");
        self.session.export(self.dir.path()).expect("artifacts");
        let launch = Launch {
            what: format!("{:?} {plan:?}", library.platform),
            platform: library.platform,
            plan: *plan,
            streams: self.session.streams().to_vec(),
            reasons: self.session.reasons().iter().map(|reason| reason.message.clone()).collect(),
            dir: self.dir,
        };
        self.session.release();
        assert_eq!(self.memory.out(), (0, 0), "given back");
        assert_eq!(self.memory.outside(), 0, "only the session's own");
        launch
    }
}

impl Launch {
    /// Runs `plan` from configuration to artifacts.
    pub(crate) fn run(library: &Library, plan: &Plan) -> Launch {
        Launch::run_with(library, plan, |_| ())
    }

    /// [`run`](Self::run), with something besides after each task.
    pub(crate) fn run_with(library: &Library, plan: &Plan, mut besides: impl FnMut(u32)) -> Launch {
        let mut host = Host::new(library.platform, plan);
        let regions = arm(library, plan, &host.session);
        host.session.start(Drive::Stepped).expect("configured");
        let stepper = host.session.stepper();
        // SAFETY: one thread plays all; the regions live until the session is released.
        unsafe {
            let mut device = Device::new(library, plan, &regions);
            device.init();
            for task in 0..plan.tasks {
                device.task(task);
                besides(task);
                if task % 16 == 15 {
                    stepper.step().expect("the host lives");
                }
            }
            device.finish();
        }
        host.end(library, plan)
    }

    /// Every record that was made is in the host's account and in the artifacts, and no other.
    pub(crate) fn assert_whole(&self) {
        let (what, plan) = (&self.what, &self.plan);
        for stream in &self.streams {
            assert!(stream.conserved(), "{what}: {stream:?}");
            assert_eq!(stream.produced, Some(stream.collected), "{what}: {stream:?}");
            assert_eq!(
                (stream.duplicate, stream.corrupt, stream.mismatched),
                (0, 0, 0),
                "{what}: {stream:?}"
            );
            if plan.flush {
                assert_eq!(stream.recovered, 0, "{what}: {stream:?}");
            }
        }
        // A runtime that calls no flush and says that all went well is told so.
        let told = |reason: &String| {
            plan.end == DeviceEnd::Completed && !plan.flush && reason.contains("never flushed")
        };
        assert!(self.reasons.iter().all(told), "{what}: {:?}", self.reasons);

        let tasks = u64::from(plan.tasks);
        let at = |level| u64::from(plan.swimlane >= level);
        let scopes = u64::from(plan.tasks.div_ceil(TASKS_PER_SCOPE));
        let dumped = u64::from(plan.tasks.div_ceil(TASKS_PER_DUMP));
        let per_dump = match plan.dump {
            0 => 0,
            // The first argument is marked, of every other dumped task.
            1 => 0,
            _ => 2,
        };
        let expected = [
            (StreamKind::AicoreTask, tasks * at(1)),
            (StreamKind::AicpuTask, tasks * at(2)),
            (StreamKind::SchedPhase, tasks * 4 * at(3)),
            (StreamKind::OrchPhase, tasks * at(4)),
            (StreamKind::Submit, tasks * u64::from(plan.dep_gen)),
            (StreamKind::PmuRow, tasks * u64::from(plan.pmu)),
            (StreamKind::ScopeSample, 2 * scopes * u64::from(plan.scopes)),
            (StreamKind::Arg, if plan.dump == 1 { dumped.div_ceil(2) } else { per_dump * dumped }),
        ];
        for (kind, records) in expected {
            let lanes = self.streams.iter().filter(|stream| stream.kind == kind);
            let sum: u64 = lanes.map(|stream| stream.collected).sum();
            assert_eq!(sum, records, "{what}: {}", kind.name());
        }
        self.assert_artifacts();
    }

    fn read(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {}: {error}", self.what, path.display()))
    }

    fn assert_artifacts(&self) {
        let (what, plan) = (&self.what, &self.plan);
        if plan.swimlane > 0 {
            let records = dfx_tests::rows::Records::read(&self.dir.path().join("chip_swimlane_records.json"));
            let mut ids: Vec<u64> = records.aicore_tasks.iter().map(|row| row.task).collect();
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..u64::from(plan.tasks)), "{what}: each task once");
            if plan.swimlane >= 2 {
                let mut pairs: Vec<u32> =
                    records.aicpu_tasks.iter().map(|row| row.token * plan.cores + row.core).collect();
                pairs.sort_unstable();
                assert!(pairs.into_iter().eq(0..plan.tasks), "{what}: each dispatch once");
            }
            if plan.swimlane >= 4 {
                let submits = records.submits();
                let ids = submits.iter().map(|row| row.task_id);
                assert!(ids.eq(0..u64::from(plan.tasks)), "{what}: each submit once, in order");
            }
            if plan.swimlane >= 3 {
                let owners = records.metadata.core_to_thread.expect("assignments");
                let expected: Vec<i32> = (0..plan.cores).map(|core| plan.thread_of(core)).collect();
                assert_eq!(owners, expected, "{what}");
            }
        }
        if plan.dep_gen {
            let deps: serde_json::Value = serde_json::from_str(&self.read("deps.json")).expect("JSON");
            let edges = deps["edges"].as_array().expect("edges");
            let explicit = edges.iter().filter(|edge| edge["source"] == "explicit").count();
            assert_eq!(explicit as u32, plan.tasks - 1, "{what}: a chain");
        }
        if plan.pmu {
            let csv = self.read("pmu.csv");
            let mut rows = csv.lines().skip(1);
            assert_eq!(rows.clone().count() as u32, plan.tasks, "{what}");
            let counters = match self.platform {
                Platform::A2a3 => 8,
                Platform::A5 => 10,
            };
            assert!(rows.all(|row| row.split(',').count() >= counters), "{what}");
        }
        if plan.scopes {
            let samples = self.read("scope_stats/scope_stats.jsonl");
            let first = samples.lines().nth(1).expect("a sample");
            assert!(first.contains("orch.cpp"), "{what}: the site's name without its folders: {first}");
        }
        if plan.dump > 0 {
            self.assert_dump();
        }
    }

    fn assert_dump(&self) {
        let manifest: serde_json::Value =
            serde_json::from_str(&self.read("args_dump/args_dump.json")).expect("JSON");
        let rows = manifest["args"].as_array().unwrap_or_else(|| panic!("{}: {manifest:.300}", self.what));
        assert!(!rows.is_empty(), "{}", self.what);
        let bin = std::fs::read(self.dir.path().join("args_dump/args.bin")).expect("payload");
        for row in rows.iter().filter(|row| row["kind"] == "tensor") {
            let number = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}")) as usize;
            let bytes = &bin[number("bin_offset")..][..number("bin_size")];
            assert_eq!(bytes, Tensors::row_major(), "{}: {row}", self.what);
        }
    }
}
