//! The quick way through a large artifact.
//!
//! `serde_json` parses a slice several times faster than a reader, but the text of a large run does not belong into
//! memory. So the text passes through a window: each row of the four big arrays is parsed as a slice where it lies,
//! and everything else, with a `0` in place of each row, is kept and parsed at the end as one small document, the
//! *skeleton*. Both are parsed by `serde_json`; the only thing that is done by hand is to see where rows begin, by
//! counting brackets.
//!
//! Promise: what this way accepts, the plain way accepts with the same result. What it does not accept for any reason
//! (an error, a row longer than the window's reserve) it reports as `None`; the plain way then has the last word.

use super::{CoreRow, File, OrchRow, Records, SchedRow, TaskRow};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use std::io::Read;

/// Bytes of text held at once.
const WINDOW_BYTES: usize = 1024 * 1024;
/// Bytes that must lie ahead when a row begins, unless the text ends before.
const RESERVE_BYTES: usize = 16 * 1024;

/// Stands for a row in the skeleton.
struct Hole;

impl<'de> Deserialize<'de> for Hole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            0 => Ok(Hole),
            _ => Err(Error::custom("not a hole")),
        }
    }
}

/// Text on its way.
struct Window<R> {
    reader: R,
    text: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Window<R> {
    /// Makes sure that the reserve lies ahead, or all that is left.
    #[inline]
    fn fill(&mut self) -> Option<()> {
        if self.text.len() - self.at >= RESERVE_BYTES || self.ended { Some(()) } else { self.refill() }
    }

    #[cold]
    fn refill(&mut self) -> Option<()> {
        self.text.drain(..self.at);
        self.at = 0;
        let room = (WINDOW_BYTES - self.text.len()) as u64;
        self.ended = (&mut self.reader).take(room).read_to_end(&mut self.text).ok()? < room as usize;
        Some(())
    }

    /// Parses the value that begins here and steps behind it.
    #[inline]
    fn value<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_slice(&self.text[self.at..]).into_iter();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }
}

/// Which array of rows the walk is in.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Core,
    Task,
    Sched,
    Orch,
    Other,
}

impl Section {
    fn of(key: &[u8]) -> Section {
        match key {
            b"aicore_tasks" => Section::Core,
            b"aicpu_tasks" => Section::Task,
            b"aicpu_scheduler_phases" => Section::Sched,
            b"aicpu_orchestrator_phases" => Section::Orch,
            _ => Section::Other,
        }
    }

    /// The brackets open around a row, and the one that begins it.
    const fn row(self) -> (usize, u8) {
        match self {
            Section::Core | Section::Task => (2, b'['),
            Section::Sched | Section::Orch => (3, b'{'),
            Section::Other => (usize::MAX, b'{'),
        }
    }
}

/// Walks through the text and sorts it into rows and skeleton.
struct Walk<R> {
    window: Window<R>,
    skeleton: Vec<u8>,
    /// Brackets open here.
    depth: usize,
    section: Section,
    core: Vec<CoreRow>,
    task: Vec<TaskRow>,
    sched: Vec<Vec<SchedRow>>,
    orch: Vec<Vec<OrchRow>>,
}

/// Reads records the quick way; `None` sends the caller the plain way.
pub(super) fn read(reader: impl Read) -> Option<Records> {
    let window = Window { reader, text: Vec::with_capacity(WINDOW_BYTES), at: 0, ended: false };
    let mut walk = Walk {
        window,
        skeleton: Vec::new(),
        depth: 0,
        section: Section::Other,
        core: Vec::new(),
        task: Vec::new(),
        sched: Vec::new(),
        orch: Vec::new(),
    };
    walk.run()?;
    walk.finish()
}

impl<R: Read> Walk<R> {
    fn run(&mut self) -> Option<()> {
        loop {
            self.window.fill()?;
            let Some(&byte) = self.window.text.get(self.window.at) else { return Some(()) };
            if (self.depth, byte) == self.section.row() {
                self.row()?;
                self.skeleton.push(b'0');
                continue;
            }
            match byte {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => self.open(byte),
                b']' | b'}' => self.depth = self.depth.checked_sub(1)?,
                _ => {}
            }
            // Space between rows would make most of the skeleton; behind a number it would mean something.
            let spare = matches!(self.skeleton.last(), Some(b',' | b':' | b'[' | b'{' | b']' | b'}'));
            if !(spare && matches!(byte, b' ' | b'\n')) {
                self.skeleton.push(byte);
            }
            self.window.at += 1;
        }
    }

    #[inline]
    fn row(&mut self) -> Option<()> {
        match self.section {
            Section::Core => self.core.push(self.window.value()?),
            Section::Task => self.task.push(self.window.value()?),
            Section::Sched => self.sched.last_mut()?.push(self.window.value()?),
            Section::Orch => self.orch.last_mut()?.push(self.window.value()?),
            Section::Other => return None,
        }
        Some(())
    }

    fn open(&mut self, byte: u8) {
        if byte == b'[' && self.depth == 2 {
            match self.section {
                Section::Sched => self.sched.push(Vec::new()),
                Section::Orch => self.orch.push(Vec::new()),
                _ => {}
            }
        }
        self.depth += 1;
    }

    /// Copies a string; one at depth 1 names the section that follows.
    fn string(&mut self) -> Option<()> {
        let text = &self.window.text[self.window.at..];
        let mut end = 1;
        while *text.get(end)? != b'"' {
            end += if text[end] == b'\\' { 2 } else { 1 };
        }
        self.skeleton.extend_from_slice(&text[..=end]);
        if self.depth == 1 {
            self.section = Section::of(&text[1..end]);
        }
        self.window.at += end + 1;
        Some(())
    }

    fn finish(self) -> Option<Records> {
        let holes: File<Hole, Hole, Hole, Hole> = serde_json::from_slice(&self.skeleton).ok()?;
        let lens = |rows: &Option<Vec<Vec<Hole>>>| rows.iter().flatten().map(Vec::len).collect::<Vec<_>>();
        let fits = holes.core_rows.len() == self.core.len()
            && holes.task_rows.len() == self.task.len()
            && lens(&holes.sched) == self.sched.iter().map(Vec::len).collect::<Vec<_>>()
            && lens(&holes.orch) == self.orch.iter().map(Vec::len).collect::<Vec<_>>();
        fits.then_some(Records {
            level: holes.level,
            metadata: holes.metadata,
            core_rows: self.core,
            task_rows: self.task,
            sched: holes.sched.map(|_| self.sched),
            orch: holes.orch.map(|_| self.orch),
            host_submits: holes.host_submits,
            host_uploads: holes.host_uploads,
        })
    }
}
