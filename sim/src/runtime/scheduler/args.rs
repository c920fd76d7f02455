//! The args dump's part of a scheduler: inputs of tasks that have become ready, and what runs when a hang is declared.

use super::super::dump::Dumper;
use super::super::lock;
use super::super::record::AicpuRecorder;
use super::Scheduler;
use dfx_collector::abi::args_dump::{Level, Stage};

impl<A: AicpuRecorder> Scheduler<'_, A> {
    pub(super) fn dumps(&self) -> bool {
        self.dump != Level::Off
    }

    /// Dumps the inputs of one ready task, and lets it run. One: in between, cores want to be looked at.
    pub(super) fn dump_inputs(&mut self) -> bool {
        if !self.dumps() {
            return false;
        }
        let Some(unit) = self.shared.undumped.pop() else { return false };
        self.dump_args(unit, Stage::BeforeDispatch);
        self.shared.start(self.exec, unit, Some(self.number));
        true
    }

    /// Dumps what is due of the submit that is unit `unit` at `stage`. Returns how many records that gave.
    pub(super) fn dump_args(&mut self, unit: u32, stage: Stage) -> u32 {
        let Scheduler { shared, exec, me, dump: level, .. } = *self;
        Dumper { shared, exec, me, recorder: &mut self.recorder, level }.task(unit, stage)
    }

    /// After a hang: the outputs of the tasks that stand on these cores, as they are, once per task.
    ///
    /// A kernel that has not ended may be writing them: the bytes are whatever is there, as on the hardware.
    pub(super) fn dump_running(&mut self) {
        if !self.dumps() {
            return;
        }
        for unit in self.cores.running_units() {
            // Behind its doorbell nothing has run.
            let early = self.shared.early.tasks.get(&unit);
            if early.is_some_and(|task| !lock(&task.door).open) {
                continue;
            }
            let submit = self.shared.plan.unit(unit).submit;
            // A task stands on several cores, perhaps of several schedulers: whoever comes first dumps it.
            let mut dumped = lock(&self.shared.control.dumped_running);
            let first = !dumped.contains_key(&submit);
            dumped.entry(submit).or_insert(false);
            drop(dumped);
            if first && self.dump_args(submit, Stage::AfterCompletion) > 0 {
                lock(&self.shared.control.dumped_running).insert(submit, true);
            }
        }
    }
}
