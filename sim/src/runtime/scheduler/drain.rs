//! `drain`: starts all blocks of a task together, across schedulers.
//!
//! While a task gathers, nobody dispatches anything else. Each scheduler offers the places that have run empty on its
//! cores (`drain_prepare`); the offer that makes them enough settles who writes what; each then writes its blocks
//! (`drain_publish`), and when the last has, the schedulers go on. Running tasks never wait for one that has not been
//! dispatched, so the gathering always ends.

use super::super::record::AicpuRecorder;
use super::super::shared::queue_of;
use super::Scheduler;
use dfx_collector::abi::swimlane::SchedPhaseKind;

impl<A: AicpuRecorder> Scheduler<'_, A> {
    pub(super) fn drain(&mut self) -> bool {
        let shared = self.shared;
        if !shared.drain.used() {
            return false;
        }
        let was_active = shared.drain.active();
        // Before the looks below: what changes after them is seen by `has_work`.
        let seen = shared.drain.generation();
        let Some(unit) = shared.drain.current(shared.schedulers()) else { return false };
        if !was_active {
            shared.wake_idle(self.exec, Some(self.number));
        }
        self.cores.save_none();
        let need = shared.plan.unit(unit).blocks;
        let queue = queue_of(shared.plan.unit(unit).shape);
        self.places.clear();
        self.places.extend(self.cores.idle(queue));
        let places = self.places.len() as u32;
        let offered = self.offered.filter(|offer| offer.0 == unit).map_or(0, |offer| offer.1);
        let began = (places > offered).then(|| self.begin());
        let turn = shared.drain.offer(self.number, unit, places, need);
        self.offered = Some((unit, places));
        self.drain_seen = seen;
        if turn.settled {
            shared.wake_idle(self.exec, Some(self.number));
        }
        if let Some(begun) = began {
            self.end(SchedPhaseKind::DrainPrepare, begun, places - offered);
        }
        let mut whole = began;
        let mut written = 0;
        if let Some(claim) = turn.publish {
            let begun = self.begin();
            whole = whole.or(Some(begun));
            for (place, block) in (claim.first_block..claim.first_block + claim.blocks).enumerate() {
                written += self.place(unit, block, self.places[place]);
            }
            if shared.drain.published(unit) {
                shared.wake_idle(self.exec, Some(self.number));
            }
            self.end(SchedPhaseKind::DrainPublish, begun, written);
        }
        match whole {
            Some(begun) => {
                self.end(SchedPhaseKind::Drain, begun, written);
                true
            }
            None => false,
        }
    }
}
