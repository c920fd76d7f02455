//! Which records are meant.

use super::dtype::Dtype;
use super::record::{Record, Role, Stage};
use std::str::FromStr;

/// What a record must be; what is empty is not asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Of one of these tasks.
    pub tasks: Vec<TaskSelector>,
    /// Captured at this stage.
    pub stage: Option<Stage>,
    /// Used so.
    pub role: Option<Role>,
    /// At this position of its task's arguments.
    pub index: Option<u32>,
    /// Of this type.
    pub dtype: Option<Dtype>,
    /// Of a task that runs this kernel.
    pub func: Option<i32>,
}

/// A task by its id: `0x200000007`, `8589934599`, `r2t7` or, in ring 0, `t7`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TaskSelector(pub u64);

impl FromStr for TaskSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let decimal = |text: &str| text.parse::<u64>().ok().filter(|_| digits(text));
        let id = if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            let valid = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
            u64::from_str_radix(hex, 16).ok().filter(|_| valid)
        } else if let Some(local) = text.strip_prefix('t') {
            decimal(local).filter(|&local| u32::try_from(local).is_ok())
        } else if let Some((ring, local)) = text.strip_prefix('r').and_then(|rest| rest.split_once('t')) {
            let ring = decimal(ring).filter(|&ring| ring <= 0xff);
            let local = decimal(local).filter(|&local| u32::try_from(local).is_ok());
            ring.zip(local).map(|(ring, local)| ring << 32 | local)
        } else {
            decimal(text)
        };
        let forms = "0x and hexadecimal, a decimal number, r<ring>t<local>, or t<local> for ring 0";
        id.map(TaskSelector).ok_or_else(|| format!("`{text}` is no task id; expected {forms}"))
    }
}

impl Filter {
    /// Whether `record` is meant.
    #[must_use]
    pub fn passes(&self, record: &Record) -> bool {
        (self.tasks.is_empty() || self.tasks.contains(&TaskSelector(record.task_id)))
            && self.stage.is_none_or(|stage| stage == record.stage)
            && self.role.is_none_or(|role| role == record.role)
            && self.index.is_none_or(|index| index == record.arg_index)
            && self.dtype.is_none_or(|dtype| dtype == record.dtype)
            && self.func.is_none_or(|func| record.func_ids().contains(&func))
    }
}
