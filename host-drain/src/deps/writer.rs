//! `deps.json`: one line, streamed. Tasks come first, then the tensors that they name, then the edges as the replay
//! finds them, so that neither edges nor text are ever held as a whole.

use super::replay::{Edge, Source};
use super::submits::{Submits, View};
use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use dfx_collector::abi::tensor::{DataType, TensorArgType};
use std::io::{self, Write};
use std::path::Path;

/// The artifact's name in the output directory.
pub const FILE_NAME: &str = "deps.json";

/// Text gathered before it is handed on.
const BLOCK: usize = 64 * 1024;

/// Which of the runtime's two writers is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Edges have `flags`: the graph was captured on the device.
    Device,
    /// Edges have no `flags`: the graph was built on the host.
    HostGraph,
}

/// What a `deps.json` has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DepsCounts {
    /// Rows of `tasks`.
    pub tasks: u64,
    /// Rows of `tensors`.
    pub tensors: u64,
    /// Rows of `edges`.
    pub edges: u64,
}

/// Replays `submits` into the artifact at `path`. `room` bounds its bytes, for fault plans.
pub fn write_file(
    path: &Path,
    submits: &Submits,
    variant: Variant,
    room: Option<u64>,
) -> Result<(ArtifactInfo, DepsCounts), ArtifactError> {
    let mut file = ArtifactFile::create(path)?;
    if let Some(bytes) = room {
        file.inject_full_after(bytes);
    }
    let counts = write(&mut file, submits, variant).map_err(|error| ArtifactError::from_io(path, error))?;
    Ok((file.commit()?, counts))
}

/// Replays `submits` into `out`, in blocks.
pub fn write(out: impl Write, submits: &Submits, variant: Variant) -> io::Result<DepsCounts> {
    let mut text = Text { out, block: Vec::with_capacity(2 * BLOCK), itoa: itoa::Buffer::new() };
    let mut counts = DepsCounts::default();
    text.push("{\"tasks\":[");
    counts.tasks = text.tasks(submits)?;
    text.push("],\"tensors\":[");
    counts.tensors = text.tensors(submits)?;
    text.push("],\"edges\":[");
    submits.replay(|edge| {
        text.separate(counts.edges);
        text.edge(&edge, variant);
        counts.edges += 1;
        text.hand_on_if(BLOCK)
    })?;
    text.push("]}\n");
    text.hand_on_if(0)?;
    Ok(counts)
}

struct Text<W> {
    out: W,
    block: Vec<u8>,
    itoa: itoa::Buffer,
}

impl<W: Write> Text<W> {
    fn tasks(&mut self, submits: &Submits) -> io::Result<u64> {
        let mut rows = 0;
        for submit in submits.in_order() {
            self.separate(rows);
            self.push("{\"task_id\":\"");
            self.number(submit.task_id);
            self.push(if submit.manual { "\",\"scope\":\"manual\"" } else { "\",\"scope\":\"auto\"" });
            self.push(",\"early_dispatch\":");
            self.push(if submit.early_dispatch { "true" } else { "false" });
            self.push(",\"kernel_ids\":");
            self.list(&submit.kernel_id);
            self.push(",\"block_num\":");
            self.number(submit.block_num);
            self.push(",\"args\":[");
            for (slot, number) in (0u64..).zip(submits.args_of(submit)) {
                let arg = submits.arg(number);
                self.separate(slot);
                self.push("{\"idx\":");
                self.number(slot);
                self.push(",\"type\":\"");
                self.push(arg_type_name(arg.arg_type));
                self.push("\"");
                if arg.arg_type != TensorArgType::Output {
                    let view = submits.view_of(arg);
                    self.tensor_id(&view);
                    self.push(",\"dtype\":\"");
                    self.push(DataType::name_of(view.dtype));
                    self.push("\",\"shape\":");
                    self.list(view.shape);
                    self.push(",\"start_offset\":\"");
                    self.number(view.start_offset);
                    self.push("\",\"strides\":");
                    self.list(view.strides);
                }
                self.push("}");
            }
            self.push("]}");
            rows += 1;
            self.hand_on_if(BLOCK)?;
        }
        Ok(rows)
    }

    /// Each tensor where it is named first.
    fn tensors(&mut self, submits: &Submits) -> io::Result<u64> {
        let mut rows = 0;
        let mut written = vec![false; submits.identity_count()];
        let args = submits.in_order().flat_map(|submit| submits.args_of(submit)).map(|n| submits.arg(n));
        for arg in args.filter(|arg| arg.arg_type != TensorArgType::Output) {
            if std::mem::replace(&mut written[arg.identity as usize], true) {
                continue;
            }
            let view = submits.view_of(arg);
            self.separate(rows);
            self.push("{\"tensor_id\":\"");
            self.number(view.tensor_id);
            self.push("\",\"buffer_addr\":\"");
            self.number(view.buffer_addr);
            self.push("\",\"version\":");
            self.number(view.version);
            self.push(",\"dtype\":\"");
            self.push(DataType::name_of(view.dtype));
            self.push("\",\"buffer_numel\":\"");
            self.number(view.buffer_numel);
            self.push("\"}");
            rows += 1;
            self.hand_on_if(BLOCK)?;
        }
        Ok(rows)
    }

    fn edge(&mut self, edge: &Edge<'_>, variant: Variant) {
        self.push("{\"pred\":\"");
        self.number(edge.pred);
        self.push("\",\"succ\":\"");
        self.number(edge.succ);
        self.push("\",\"arg\":");
        match edge.source {
            Source::Explicit => self.push("-1"),
            Source::Creator { arg, .. } | Source::TensorMap { arg, .. } => self.number(arg),
        }
        self.push(",\"source\":\"");
        self.push(edge.source.name());
        self.push("\"");
        if variant == Variant::Device {
            let retains = edge.source.retains();
            self.push(if retains { ",\"flags\":[\"wait\",\"retain\"]" } else { ",\"flags\":[\"wait\"]" });
        }
        if let Source::TensorMap { overlap, .. } = edge.source {
            self.push(",\"overlap\":\"");
            self.push(overlap.name());
            self.push("\"");
        }
        if let Source::Creator { consumer, .. } | Source::TensorMap { consumer, .. } = &edge.source {
            self.tensor_id(consumer);
            self.push(",\"consumer_dtype\":\"");
            self.push(DataType::name_of(consumer.dtype));
            self.push("\",\"consumer_shape\":");
            self.list(consumer.shape);
            self.push(",\"consumer_start_offset\":\"");
            self.number(consumer.start_offset);
            self.push("\",\"consumer_strides\":");
            self.list(consumer.strides);
        }
        if let Source::TensorMap { producer, .. } = &edge.source {
            self.push(",\"producer_shape\":");
            self.list(producer.shape);
            self.push(",\"producer_start_offset\":\"");
            self.number(producer.start_offset);
            self.push("\",\"producer_strides\":");
            self.list(producer.strides);
        }
        self.push("}");
    }

    fn tensor_id(&mut self, view: &View<'_>) {
        self.push(",\"tensor_id\":\"");
        self.number(view.tensor_id);
        self.push("\"");
    }

    fn list<N: itoa::Integer + Copy>(&mut self, numbers: &[N]) {
        self.push("[");
        for (i, &number) in (0..).zip(numbers) {
            self.separate(i);
            self.number(number);
        }
        self.push("]");
    }

    /// A comma, unless it is the first element that follows.
    fn separate(&mut self, before: u64) {
        if before != 0 {
            self.push(",");
        }
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.block.extend_from_slice(self.itoa.format(number).as_bytes());
    }

    fn push(&mut self, text: &str) {
        self.block.extend_from_slice(text.as_bytes());
    }

    /// Hands the text on if there are `bytes` or more.
    fn hand_on_if(&mut self, bytes: usize) -> io::Result<()> {
        if self.block.len() >= bytes {
            self.out.write_all(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }
}

/// The word for an argument's use.
fn arg_type_name(arg_type: TensorArgType) -> &'static str {
    match arg_type {
        TensorArgType::Input => "INPUT",
        TensorArgType::Output => "OUTPUT",
        TensorArgType::Inout => "INOUT",
        TensorArgType::OutputExisting => "OUTPUT_EXISTING",
        // The readers know no word for it.
        TensorArgType::NoDep => "UNKNOWN",
    }
}
