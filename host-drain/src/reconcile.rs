//! After the run: what was collected against what the device counted.

use crate::collect::{Collector, Delivery};
use crate::config::{Board, DfxConfig};
use crate::deps::DeviceCount;
use crate::features;
use crate::lanes::LaneId;
use crate::region::Region;
use crate::report::{DumpReport, Feature, Half, Reason, StreamKind, StreamReport};
use crate::service::Service;
use crate::transport::TransportError;
use dfx_collector::abi::peer::Peer;
use dfx_collector::abi::swimlane::Level;
use std::collections::BTreeMap;

/// A session's accounts, closed.
#[derive(Debug, Default)]
pub struct Closed {
    /// One account per lane that has something to say.
    pub streams: Vec<StreamReport>,
    /// Odd records by kind.
    pub anomalies: BTreeMap<String, u64>,
    /// What no lane's account shows.
    pub reasons: Vec<Reason>,
    /// Which thread owned which core, where the device said so.
    pub core_to_thread: Option<Vec<i8>>,
    /// Orchestrator lanes, as the device says.
    pub orch_lanes: u32,
    /// Whose device half it was.
    pub device: Option<Half>,
    /// Whether there is a graph to be written.
    pub graph: Graph,
    /// What the device counted of it.
    pub captured: DeviceCount,
    /// The dumped payload, if arguments were dumped.
    pub dump: Option<DumpReport>,
}

/// What became of the captured graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Graph {
    /// dep_gen was off.
    #[default]
    None,
    /// Every submit and dependency is there.
    Whole,
    /// Something is missing or broken: it must not pass as a graph.
    Refused,
}

/// A lane's own words at rest.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    total: u32,
    dropped: u32,
    mismatched: u32,
    stalls: u32,
    stall_ticks: u64,
    max_stall_ticks: u64,
}

/// Reads a lane's words; those of our device half only if it is `ours`.
fn totals(service: &Service, lane: usize, ours: bool) -> Result<Totals, TransportError> {
    let transport = service.transport();
    let lane = &service.table.lanes[lane];
    let u32_at = |offset: usize| transport.load_u32(lane.state.offset(offset as u64));
    let u32_of = |offset: Option<usize>| offset.map_or(Ok(0), u32_at);
    let u64_of = |offset: Option<usize>| {
        offset.map_or(Ok(0), |offset| transport.load_u64(lane.state.offset(offset as u64)))
    };
    // Only our device half keeps the account of waits.
    let stall = lane.layout.stall.filter(|_| ours);
    Ok(Totals {
        total: u32_at(lane.layout.total)?,
        dropped: u32_at(lane.layout.dropped)?,
        mismatched: u32_of(lane.spares.mismatched)?,
        stalls: u32_of(stall.map(|stall| stall.count))?,
        stall_ticks: u64_of(stall.map(|stall| stall.ticks))?,
        max_stall_ticks: u64_of(stall.map(|stall| stall.max_ticks))?,
    })
}

/// Takes what was never published and closes every account. The device must be at rest; `abnormal` says that it came to
/// rest without having published everything.
pub fn close(
    service: &mut Service,
    collector: &mut Collector,
    board: &Board,
    config: &DfxConfig,
    abnormal: bool,
) -> Closed {
    let mut closed = Closed::default();
    let mut rest: Vec<Delivery> = Vec::new();
    let unpublished = service.finish(abnormal, collector.records(), &mut |delivery| rest.push(delivery));
    rest.into_iter().for_each(|delivery| collector.take(delivery));

    let ours = device_is_ours(service);
    closed.device = Some(if ours { Half::Ours } else { Half::Reference });
    let mut unread = BTreeMap::<Feature, u64>::new();
    for index in 0..service.table.lanes.len() {
        let id = LaneId(index as u32);
        let totals = totals(service, index, ours);
        let taken = collector.taken(id);
        let lane = service.table.lane(id);
        let totals = totals.unwrap_or_else(|_| {
            *unread.entry(lane.feature).or_default() += 1;
            Totals::default()
        });
        let account = &mut lane.account;
        account.collected = taken.collected;
        account.recovered = taken.recovered;
        account.mismatched = u64::from(totals.mismatched);
        account.stalls = u64::from(totals.stalls);
        account.stall_ticks = totals.stall_ticks;
        account.max_stall_ticks = totals.max_stall_ticks;
        account.corrupt += taken.corrupt;
        if ours || lane.kind != StreamKind::Arg {
            // A buffer that was never published is not in the total either, or not all of it.
            let at_least = abnormal || taken.recovered > 0;
            account.close(u64::from(totals.total), u64::from(totals.dropped), at_least);
        } else {
            // The pinned ABI keeps no total of dumped arguments.
            account.dropped = u64::from(totals.dropped);
        }
        let report = account.report(lane.feature, lane.kind, lane.index, board.geometry().clock_hz);
        let nothing =
            StreamReport { produced: Some(0), ..StreamReport::new(lane.feature, lane.kind, lane.index) };
        if report != nothing {
            closed.streams.push(report);
        }
    }
    for (feature, lanes) in unread {
        closed.reasons.push(Reason {
            code: "totals_unread".into(),
            feature: Some(feature),
            lane: None,
            count: lanes,
            message: format!(
                "the totals of {lanes} lanes could not be read from the device: what is missing of them cannot be told; \
                 the way to the device fails (see transport_retries in anomalies and the log, -v): see to the device and \
                 its driver, then run again"
            ),
        });
    }
    note_unflushed(service, &unpublished, abnormal, &mut closed);
    note_strays(service, &mut closed);
    note_anomalies(service, collector, config, &mut closed);
    let transport = service.transport();
    if let Some(region) = service.region(Feature::ChipSwimlane) {
        features::swimlane::close(&*transport, region, config, board, &mut closed);
    }
    if let Some(region) = service.region(Feature::DepGen) {
        let overflow = features::dep_gen::overflow_total(&*transport, region, board);
        if opened(service, region) {
            judge_graph(service, collector, overflow, &mut closed);
        } else {
            refuse_unopened(&mut closed);
        }
        let truncated = features::dep_gen::truncated_total(&*transport, region, board).unwrap_or(0);
        if ours && truncated > 0 {
            closed.graph = Graph::Refused;
            closed.reasons.push(Reason {
                code: "graph_truncated".into(),
                feature: Some(Feature::DepGen),
                lane: Some(0),
                count: u64::from(truncated),
                message: format!(
                    "no deps.json is written: {truncated} submits had more tensor arguments or explicit dependencies than a \
                     record or a buffer holds; name fewer per submit, for example through a task in between"
                ),
            });
        }
    }
    if let Some(region) = service.region(Feature::DumpArgs) {
        features::args_dump::close(&*transport, region, config, board, &mut closed);
        let counted = (0..board.aicpu_threads).map(|thread| {
            features::args_dump::counted(&*transport, region, board, thread).ok().filter(|_| ours)
        });
        let counted: Vec<_> = counted.collect();
        if let Some(dump) = collector.dump() {
            dump.finish();
            let outcome = dump.outcome(&counted, abnormal);
            closed.dump = Some(outcome.report);
            closed.reasons.extend(outcome.reasons);
        }
    }
    closed
}

/// Whether what was captured is a whole graph; if not, why.
fn judge_graph(
    service: &Service,
    collector: &Collector,
    overflow: Result<u32, TransportError>,
    closed: &mut Closed,
) {
    let account =
        service.table.lanes.iter().find(|lane| lane.kind == StreamKind::Submit).map(|lane| &lane.account);
    let (produced, dropped) =
        account.map_or((0, 0), |account| (account.produced.unwrap_or(0), account.dropped));
    closed.captured = DeviceCount { submits: produced, overflow: overflow.map_or(0, u64::from), dropped };
    closed.graph = Graph::Whole;
    if let Err(refusal) = collector.submits().finish(closed.captured) {
        closed.graph = Graph::Refused;
        closed.reasons.push(Reason {
            code: "graph_refused".into(),
            feature: Some(Feature::DepGen),
            lane: Some(0),
            count: 1,
            message: format!("no deps.json is written: {refusal}"),
        });
    }
}

/// There is no graph of a program that nobody watched: an empty one would say that it submitted nothing.
fn refuse_unopened(closed: &mut Closed) {
    closed.graph = Graph::Refused;
    closed.reasons.push(Reason {
        code: "region_not_opened".into(),
        feature: Some(Feature::DepGen),
        lane: Some(0),
        count: 1,
        message: "no deps.json is written: dep_gen was on, but no device half ever initialised on its region; where the \
                  runtime's device captures no submits (one whose host orchestrates), leave dep_gen off"
            .into(),
    });
}

/// The device half that the peer word of `region` names.
fn device_of(service: &Service, region: &Region) -> Result<Peer, TransportError> {
    let word = service.transport().load_u32(region.base.offset(region.queue.peer as u64));
    word.map(Peer::device)
}

/// Whether a device half has initialised on `region`: ours leaves its word, and either takes a first buffer for a lane.
/// What cannot be read is taken for opened: its lanes' accounts say what is wrong.
fn opened(service: &Service, region: &Region) -> bool {
    if !matches!(device_of(service, region), Ok(Peer::Reference)) {
        return true;
    }
    let transport = service.transport();
    let mut lanes = service.table.lanes.iter().filter(|lane| lane.feature == region.feature);
    lanes.any(|lane| {
        let head = transport.load_u32(lane.state.offset(lane.layout.free_head as u64));
        let current = transport.load_u64(lane.state.offset(lane.layout.current_ptr as u64));
        (head, current) != (Ok(0), Ok(0))
    })
}

/// Whether the peer word of every region that was opened says that the device half is ours.
fn device_is_ours(service: &Service) -> bool {
    service.regions().all(|region| match device_of(service, region) {
        Ok(Peer::Ours(_)) => true,
        Ok(Peer::Reference) => !opened(service, region),
        Err(_) => false,
    })
}

/// Lanes that a device which ended well left un-flushed.
fn note_unflushed(service: &mut Service, unpublished: &[LaneId], abnormal: bool, closed: &mut Closed) {
    let mut lanes = BTreeMap::<Feature, u64>::new();
    for &id in unpublished.iter().filter(|_| !abnormal) {
        *lanes.entry(service.table.lane(id).feature).or_default() += 1;
    }
    for (feature, lanes) in lanes {
        closed.reasons.push(Reason {
            code: "not_flushed".into(),
            feature: Some(feature),
            lane: None,
            count: lanes,
            message: format!(
                "{lanes} lanes were never flushed by the device, though it ended well: their records were recovered; the \
                 runtime must call the flush hooks at its end"
            ),
        });
    }
}

/// What the drain met that belongs to no lane.
fn note_strays(service: &Service, closed: &mut Closed) {
    let mut retries = 0;
    for (feature, strays) in service.strays() {
        retries += strays.transport_errors;
        if strays.corrupt() > 0 {
            closed.reasons.push(Reason {
                code: "corrupt".into(),
                feature: Some(feature),
                lane: None,
                count: strays.corrupt(),
                message: format!(
                    "{} values in the ready queues could not be ({} tails, {} lanes, {} pointers) and were passed over: \
                     something else writes to the shared memory, or the device half is of another revision",
                    strays.corrupt(),
                    strays.bad_tails,
                    strays.unknown_lanes,
                    strays.foreign_pointers
                ),
            });
        }
    }
    let withheld = service.table.lanes.iter().map(|lane| lane.account.buffers_withheld).sum();
    let duplicates = service.table.lanes.iter().map(|lane| lane.account.duplicate).sum();
    for (name, count) in [
        ("transport_retries", retries),
        ("freezes", service.freezes()),
        ("buffers_withheld", withheld),
        ("duplicate_ready_entries", duplicates),
    ] {
        closed.note(name, count);
    }
}

impl Closed {
    /// Counts something odd.
    pub(crate) fn note(&mut self, name: &str, count: u64) {
        if count > 0 {
            *self.anomalies.entry(name.to_owned()).or_default() += count;
        }
    }
}

/// Odd records: kept, and counted by kind.
fn note_anomalies(service: &Service, collector: &Collector, config: &DfxConfig, closed: &mut Closed) {
    for (name, &count) in collector.anomalies() {
        closed.note(name, count);
    }
    if service.region(Feature::ChipSwimlane).is_some() && config.chip_swimlane >= Level::AicpuTiming {
        let (without_task, without_core) = collector.unpaired();
        closed.note("core_row_without_aicpu_row", without_task);
        closed.note("aicpu_row_without_core_row", without_core);
    }
}
