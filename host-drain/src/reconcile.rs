//! After the run: what was collected against what the device counted.

use crate::collect::{Collector, Delivery};
use crate::config::{Board, DfxConfig};
use crate::lanes::LaneId;
use crate::report::{Feature, Half, Reason, StreamKind, StreamReport};
use crate::service::Service;
use crate::transport::TransportError;
use dfx_collector::abi::peer::Peer;
use dfx_collector::abi::swimlane::{ActiveHead, Level};
use std::collections::BTreeMap;
use std::mem::offset_of;

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
}

/// A lane's own words at rest.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    total: u32,
    dropped: u32,
    stalls: u32,
    stall_ticks: u64,
    max_stall_ticks: u64,
}

fn totals(service: &Service, lane: usize) -> Result<Totals, TransportError> {
    let transport = service.transport();
    let lane = &service.table.lanes[lane];
    let word = |offset: usize| lane.state.offset(offset as u64);
    Ok(Totals {
        total: transport.load_u32(word(lane.layout.total))?,
        dropped: transport.load_u32(word(lane.layout.dropped))?,
        stalls: transport.load_u32(word(offset_of!(ActiveHead, stalls)))?,
        stall_ticks: transport.load_u64(word(offset_of!(ActiveHead, stall_ticks)))?,
        max_stall_ticks: transport.load_u64(word(offset_of!(ActiveHead, max_stall_ticks)))?,
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
    let unpublished = service.finish(abnormal, &mut |delivery| rest.push(delivery));
    rest.into_iter().for_each(|delivery| collector.take(delivery));

    let transport = service.transport();
    let region = *service.region();
    let peer = transport.load_u32(region.base.offset(region.layout.queue.peer as u64));
    let ours = matches!(peer.map(Peer::device), Ok(Peer::Ours(_)));
    closed.device = Some(if ours { Half::Ours } else { Half::Reference });
    let nanos = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(board.geometry().clock_hz)) as u64;

    let mut unread = 0;
    for index in 0..service.table.lanes.len() {
        let id = LaneId(index as u32);
        let totals = totals(service, index).unwrap_or_else(|_| {
            unread += 1;
            Totals::default()
        });
        let taken = collector.taken(id);
        let lane = service.table.lane(id);
        let account = &mut lane.account;
        account.collected = taken.collected;
        account.recovered = taken.recovered;
        account.close(u64::from(totals.total), u64::from(totals.dropped), abnormal);
        if ours {
            account.stalls = u64::from(totals.stalls);
            account.stall_ticks = totals.stall_ticks;
            account.max_stall_ticks = totals.max_stall_ticks;
        }
        let report = StreamReport {
            produced: account.produced,
            collected: account.collected,
            dropped: account.dropped,
            lost: account.lost,
            recovered: account.recovered,
            duplicate: account.duplicate,
            corrupt: account.corrupt,
            buffers: account.buffers,
            rotations: account.rotations,
            stalls: account.stalls,
            stall_ns: nanos(account.stall_ticks),
            max_stall_ns: nanos(account.max_stall_ticks),
            ..StreamReport::new(Feature::ChipSwimlane, lane.kind, lane.index)
        };
        if (StreamReport { produced: Some(0), ..StreamReport::new(report.feature, report.kind, report.lane) }) != report {
            closed.streams.push(report);
        }
    }
    if unread > 0 {
        closed.reasons.push(reason("totals_unread", unread, format!(
            "the totals of {unread} lanes could not be read from the device: what is missing of them cannot be told"
        )));
    }
    if !unpublished.is_empty() && !abnormal {
        closed.reasons.push(reason("not_flushed", unpublished.len() as u64, format!(
            "{} lanes were never flushed by the device, though it ended well: their records were recovered; the runtime \
             must call the flush hooks at its end", unpublished.len()
        )));
    }
    if let Ok(level) = transport.load_u32(region.base.offset(region.layout.level as u64))
        && level != config.chip_swimlane as u32
    {
        closed.reasons.push(reason("level_mismatch", 1, format!(
            "the region's header says level {level}, but {} was asked for: the device recorded at a level that the host \
             was not prepared for; initialise the device after the host, once per launch", config.chip_swimlane as u32
        )));
    }
    note_strays(service, &mut closed);
    note_anomalies(service, collector, config, &mut closed);
    read_assignments(service, board, config, &mut closed);
    closed
}

fn reason(code: &str, count: u64, message: String) -> Reason {
    Reason { code: code.into(), feature: Some(Feature::ChipSwimlane), lane: None, count, message }
}

/// What the drain met that belongs to no lane.
fn note_strays(service: &Service, closed: &mut Closed) {
    let strays = service.strays();
    if strays.corrupt() > 0 {
        closed.reasons.push(reason("corrupt", strays.corrupt(), format!(
            "{} values in the ready queues could not be ({} tails, {} lanes, {} pointers) and were passed over: something \
             else writes to the shared memory, or the device half is of another revision",
            strays.corrupt(), strays.bad_tails, strays.unknown_lanes, strays.foreign_pointers
        )));
    }
    for (name, count) in [("transport_retries", strays.transport_errors), ("freezes", service.freezes())] {
        if count > 0 {
            closed.anomalies.insert(name.into(), count);
        }
    }
    let withheld: u64 = service.table.lanes.iter().map(|lane| lane.account.buffers_withheld).sum();
    if withheld > 0 {
        closed.anomalies.insert("buffers_withheld".into(), withheld);
    }
}

/// Odd records: kept, and counted by kind.
fn note_anomalies(service: &Service, collector: &Collector, config: &DfxConfig, closed: &mut Closed) {
    closed.anomalies.extend(collector.anomalies().iter().map(|(&name, &count)| (name.to_owned(), count)));
    let duplicates: u64 = service.table.lanes.iter().map(|lane| lane.account.duplicate).sum();
    if duplicates > 0 {
        closed.anomalies.insert("duplicate_ready_entries".into(), duplicates);
    }
    if config.chip_swimlane >= Level::AicpuTiming {
        let (without_task, without_core) = collector.unpaired();
        for (name, count) in [("core_row_without_aicpu_row", without_task), ("aicpu_row_without_core_row", without_core)] {
            if count > 0 {
                closed.anomalies.insert(name.into(), count);
            }
        }
    }
}

/// Which thread owned which core: published by the device from level 3 on.
fn read_assignments(service: &Service, board: &Board, config: &DfxConfig, closed: &mut Closed) {
    if config.chip_swimlane < Level::SchedPhases {
        return;
    }
    let transport = service.transport();
    let region = service.region();
    let word = |offset: usize| transport.load_u32(region.base.offset(offset as u64));
    let Ok(cores) = word(region.layout.num_phase_cores) else { return };
    closed.orch_lanes = word(region.layout.num_orch_threads).unwrap_or(0);
    if cores == 0 {
        return;
    }
    if cores > board.geometry().max_cores {
        closed.reasons.push(reason("corrupt", 1, format!(
            "the device says that {cores} cores have a thread, but the platform has {}: core_to_thread is left out",
            board.geometry().max_cores
        )));
        return;
    }
    let mut raw = vec![0; cores as usize];
    if transport.fetch(region.base.offset(region.layout.core_to_thread as u64), &mut raw).is_ok() {
        closed.core_to_thread = Some(raw.into_iter().map(|byte| byte as i8).collect());
    }
}

/// Records of `kind` over all lanes, as `count` picks them.
pub fn sum(streams: &[StreamReport], kind: StreamKind, count: impl Fn(&StreamReport) -> u64) -> u64 {
    streams.iter().filter(|stream| stream.kind == kind).map(count).sum()
}
