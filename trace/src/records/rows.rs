//! The rows of the artifact and how each is read.

use dfx_host_drain::export::swimlane::{SchedPhaseKind, kind_has_pops, kind_has_task, kind_name};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// A row of `aicore_tasks`: the core's own record of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreRow {
    /// The task id, or whatever the payload carried.
    pub task: u64,
    /// When the kernel started, in ticks.
    pub start: u64,
    /// When the kernel ended, in ticks.
    pub end: u64,
    /// The core.
    pub core: u32,
    /// The token, the per-core dispatch number.
    pub token: u32,
    /// Ticks between seeing the token and starting the kernel; 0 in rows of five columns, an older form.
    pub receive_to_start: u32,
}

/// A row of `aicpu_tasks`: AICPU's record of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskRow {
    /// When the task was written to the core, in ticks.
    pub dispatch: u64,
    /// When AICPU saw it complete, in ticks.
    pub finish: u64,
    /// The core.
    pub core: u32,
    /// The token, the per-core dispatch number.
    pub token: u32,
}

/// A scheduler phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedRow {
    /// In ticks.
    pub start: u64,
    /// In ticks.
    pub end: u64,
    /// Which turn of the scheduler's loop.
    pub loop_iter: u32,
    /// `None` for a word that is no kind's.
    pub kind: Option<SchedPhaseKind>,
    /// Tasks handled.
    pub tasks_processed: u32,
    /// `Dispatch`: pop hits and misses. The kinds that name a task: its id's low and high half. Else 0.
    pub data: [u32; 2],
    /// Ready-queue depths (AIC, AIV, MIX) at the start, in tasks.
    pub shared_at_start: [i16; 3],
    /// Ready-queue depths (AIC, AIV, MIX) at the end, in tasks.
    pub shared_at_end: [i16; 3],
}

impl SchedRow {
    /// Pop hits and misses, if it is a dispatch.
    #[must_use]
    pub fn pops(&self) -> Option<[u32; 2]> {
        self.kind.filter(|kind| kind_has_pops(*kind as u32)).map(|_| self.data)
    }

    /// The task it names, if its kind does.
    #[must_use]
    pub fn task(&self) -> Option<u64> {
        let id = u64::from(self.data[1]) << 32 | u64::from(self.data[0]);
        self.kind.filter(|kind| kind_has_task(*kind as u32)).map(|_| id)
    }
}

/// An orchestrator submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrchRow {
    /// Counts submits from 0.
    pub submit_idx: u32,
    /// The submitted task.
    pub task_id: u64,
    /// In ticks.
    #[serde(rename = "start_cycles")]
    pub start: u64,
    /// In ticks.
    #[serde(rename = "end_cycles")]
    pub end: u64,
}

const _: () = assert!(size_of::<CoreRow>() <= 40 && size_of::<TaskRow>() <= 24);
const _: () = assert!(size_of::<SchedRow>() <= 48 && size_of::<OrchRow>() <= 32);

/// The next column of a row.
fn column<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(
    row: &mut A,
    index: usize,
    expected: &dyn de::Expected,
) -> Result<T, A::Error> {
    row.next_element()?.ok_or_else(|| de::Error::invalid_length(index, expected))
}

/// Makes sure that the row has no further column.
fn row_ends<'de, A: SeqAccess<'de>>(
    row: &mut A,
    columns: usize,
    expected: &dyn de::Expected,
) -> Result<(), A::Error> {
    match row.next_element::<de::IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(de::Error::invalid_length(columns + 1, expected)),
    }
}

impl<'de> Deserialize<'de> for CoreRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Row;
        impl<'de> Visitor<'de> for Row {
            type Value = CoreRow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a row [core_id, task_token_raw, reg_task_id, start, end, receive_to_start] of integers",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<CoreRow, A::Error> {
                let core = column(&mut row, 0, &self)?;
                let task = column(&mut row, 1, &self)?;
                let token = column(&mut row, 2, &self)?;
                let start = column(&mut row, 3, &self)?;
                let end = column(&mut row, 4, &self)?;
                let receive_to_start = match row.next_element()? {
                    None => 0,
                    Some(ticks) => {
                        row_ends(&mut row, 6, &self)?;
                        ticks
                    }
                };
                Ok(CoreRow { task, start, end, core, token, receive_to_start })
            }
        }
        deserializer.deserialize_seq(Row)
    }
}

impl<'de> Deserialize<'de> for TaskRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Row;
        impl<'de> Visitor<'de> for Row {
            type Value = TaskRow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row [core_id, reg_task_id, dispatch, finish] of integers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<TaskRow, A::Error> {
                let core = column(&mut row, 0, &self)?;
                let token = column(&mut row, 1, &self)?;
                let dispatch = column(&mut row, 2, &self)?;
                let finish = column(&mut row, 3, &self)?;
                row_ends(&mut row, 4, &self)?;
                Ok(TaskRow { dispatch, finish, core, token })
            }
        }
        deserializer.deserialize_seq(Row)
    }
}

/// The word for a kind; any other word is no kind.
struct KindName(Option<SchedPhaseKind>);

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = KindName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a scheduler phase")
            }

            fn visit_str<E>(self, name: &str) -> Result<KindName, E> {
                Ok(KindName(SchedPhaseKind::ALL.into_iter().find(|kind| kind_name(*kind as u32) == name)))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// A scheduler phase as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedJson {
    kind: KindName,
    start_cycles: u64,
    end_cycles: u64,
    loop_iter: u32,
    tasks_processed: u32,
    #[serde(default, deserialize_with = "super::present")]
    pop_hit: Option<u32>,
    #[serde(default, deserialize_with = "super::present")]
    pop_miss: Option<u32>,
    #[serde(default, deserialize_with = "super::present")]
    task_id: Option<u64>,
    shared_at_start: [i16; 3],
    shared_at_end: [i16; 3],
}

impl<'de> Deserialize<'de> for SchedRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = SchedJson::deserialize(deserializer)?;
        let kind = json.kind.0;
        let number = kind.map_or(u32::MAX, |kind| kind as u32);
        let data = match (json.pop_hit, json.pop_miss, json.task_id) {
            (Some(hit), Some(miss), None) if kind_has_pops(number) => [hit, miss],
            (None, None, Some(id)) if kind_has_task(number) => [id as u32, (id >> 32) as u32],
            (None, None, None) if !kind_has_pops(number) && !kind_has_task(number) => [0; 2],
            _ => {
                let expected = match number {
                    _ if kind_has_pops(number) => "pop_hit and pop_miss, and no task_id",
                    _ if kind_has_task(number) => "task_id, and no pop_hit and pop_miss",
                    _ => "no pop_hit, pop_miss and task_id",
                };
                let name = kind_name(number);
                return Err(de::Error::custom(format_args!(
                    "a {name} phase with the wrong keys, expected {expected}"
                )));
            }
        };
        Ok(SchedRow {
            start: json.start_cycles,
            end: json.end_cycles,
            loop_iter: json.loop_iter,
            kind,
            tasks_processed: json.tasks_processed,
            data,
            shared_at_start: json.shared_at_start,
            shared_at_end: json.shared_at_end,
        })
    }
}
