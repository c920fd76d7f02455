//! `args_dump/args_dump.json`: what is in `args.bin`, and what should have been. Streamed row by row; what is sorted are
//! keys, not records.

use super::records::{Held, Store, mark};
use super::scalar;
use dfx_collector::abi::args_dump::{Kind, Level, NO_FUNC_ID, Role, Stage};
use dfx_collector::abi::tensor::DataType;
use std::io::{self, Write};

/// The artifact's name in the output directory.
pub const FILE_NAME: &str = "args_dump/args_dump.json";

/// Where a record stands in the manifest, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    task_id: u64,
    /// Stage, argument index, role: 8, 32 and 8 bits. Then the thread's number.
    rest: u64,
    /// Its rank in the producer's order, at first; then its place in the store.
    at: u32,
}

impl Key {
    fn of(held: &Held, thread: usize, at: u32) -> Key {
        let rest = u64::from(held.stage) << 56 | u64::from(held.arg_index) << 24 | u64::from(held.role) << 16;
        Key { task_id: held.task_id, rest: rest | thread as u64 & 0xFFFF, at }
    }

    fn thread(self) -> usize {
        (self.rest & 0xFFFF) as usize
    }
}

/// The numbers in front of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    pub(crate) level: Level,
    /// Records that the device had no room for, or that were lost on the way.
    pub(crate) dropped: u64,
    /// Whether there is an `args.bin`.
    pub(crate) bin: bool,
}

/// `value` as 16 hex digits behind `0x`.
fn hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b"0x");
    out.extend((0..16).rev().map(|digit| b"0123456789abcdef"[(value >> (4 * digit)) as usize & 15]));
}

fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn list<T: itoa::Integer + Copy>(out: &mut Vec<u8>, values: impl Iterator<Item = T>) {
    out.push(b'[');
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        number(out, value);
    }
    out.push(b']');
}

fn flag(out: &mut Vec<u8>, on: bool) {
    out.extend_from_slice(if on { b"true" } else { b"false" });
}

const fn role(raw: u8) -> &'static str {
    match Role::from_raw(raw) {
        Some(Role::Input) => "input",
        Some(Role::Output) => "output",
        Some(Role::Inout) => "inout",
        None => "unknown",
    }
}

const fn stage(raw: u8) -> &'static str {
    match Stage::from_raw(raw) {
        Some(Stage::BeforeDispatch) => "before_dispatch",
        Some(Stage::AfterCompletion) => "after_completion",
        None => "unknown",
    }
}

const fn kind(raw: u8) -> &'static str {
    match Kind::from_raw(raw) {
        Some(Kind::Tensor) => "tensor",
        Some(Kind::Scalar) => "scalar",
        None => "unknown",
    }
}

fn row(out: &mut Vec<u8>, held: &Held) {
    let word = |out: &mut Vec<u8>, key: &str, value: &str| {
        out.extend_from_slice(key.as_bytes());
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    };
    let dims = held.ndims();
    out.extend_from_slice(b"    {\"task_id\": \"");
    hex(out, held.task_id);
    out.extend_from_slice(b"\", \"func_id\": ");
    let ids = held.func_ids[..held.funcs()].iter();
    list(out, ids.map(|&id| if id == NO_FUNC_ID { -1 } else { i32::from(id) }));
    out.extend_from_slice(b", \"arg_index\": ");
    number(out, held.arg_index);
    word(out, ", \"role\": ", role(held.role));
    word(out, ", \"stage\": ", stage(held.stage));
    word(out, ", \"kind\": ", kind(held.kind));
    word(out, ", \"dtype\": ", DataType::name_of(held.dtype));
    if held.kind == Kind::Scalar as u8 {
        out.extend_from_slice(b", \"value\": ");
        scalar::append(out, held.dtype, held.value);
    }
    out.extend_from_slice(b", \"is_contiguous\": ");
    flag(out, held.is(mark::CONTIGUOUS));
    out.extend_from_slice(b", \"shape\": ");
    list(out, held.shapes[..dims].iter().copied());
    out.extend_from_slice(b", \"strides\": ");
    list(out, held.strides[..dims].iter().copied());
    out.extend_from_slice(b", \"start_offset\": ");
    number(out, held.start_offset);
    out.extend_from_slice(b", \"numel\": ");
    // More elements than a u64 counts are no tensor's: corrupt, but no reason to stop.
    number(out, held.shapes[..dims].iter().fold(1_u64, |numel, &n| numel.wrapping_mul(u64::from(n))));
    if held.is(mark::AMBIGUOUS) {
        out.extend_from_slice(b", \"arg_index_ambiguous\": true");
    }
    out.extend_from_slice(b", \"bin_offset\": ");
    number(out, held.bin_offset);
    out.extend_from_slice(b", \"bin_size\": ");
    number(out, held.bin_size);
    out.extend_from_slice(b", \"truncated\": ");
    flag(out, held.is(mark::TRUNCATED));
    out.extend_from_slice(b", \"overwritten\": ");
    flag(out, held.is(mark::OVERWRITTEN));
    out.push(b'}');
}

/// The records of all threads in the manifest's order; of equal ones, first the lower thread's, then the producer's order.
fn sorted(stores: &[Store]) -> Vec<Key> {
    let mut keys = Vec::with_capacity(stores.iter().map(|store| store.len() as usize).sum());
    let mut places: Vec<Option<Vec<u32>>> = Vec::new();
    for (thread, store) in stores.iter().enumerate() {
        let in_place = store.in_order().eq(0..store.len());
        let order = (!in_place).then(|| store.in_order().collect::<Vec<u32>>());
        keys.extend((0..store.len()).map(|rank| {
            let place = order.as_ref().map_or(rank, |order| order[rank as usize]);
            Key::of(store.get(place), thread, rank)
        }));
        places.push(order);
    }
    keys.sort_unstable();
    for key in &mut keys {
        if let Some(order) = &places[key.thread()] {
            key.at = order[key.at as usize];
        }
    }
    keys
}

/// Writes the manifest of `stores` to `out`.
pub(crate) fn write(out: &mut impl Write, head: Head, stores: &[Store]) -> io::Result<()> {
    let all = || stores.iter().flat_map(Store::iter);
    let count = |what: &dyn Fn(&Held) -> bool| all().filter(|held| what(held)).count();
    let roles = |role: Role| count(&|held| held.role == role as u8);
    let total = all().count();
    write!(
        out,
        "{{\n  \"run_dir\": \"args_dump\",\n  \"bin_format\": {{\n    \"type\": \"logical_contiguous\",\n    \
         \"byte_order\": \"little_endian\"\n  }},\n  \"dump_args_level\": {},\n  \"total_args\": {total},\n  \
         \"before_dispatch\": {},\n  \"after_completion\": {},\n  \"input_args\": {},\n  \"output_args\": {},\n  \
         \"inout_args\": {},\n  \"truncated_args\": {},\n  \"dropped_records\": {},\n  \"dropped_overwrite\": {},\n  \
         \"bin_file\": {},\n  \"args\": [",
        head.level as u32,
        count(&|held| held.stage == Stage::BeforeDispatch as u8),
        count(&|held| held.stage == Stage::AfterCompletion as u8),
        roles(Role::Input),
        roles(Role::Output),
        roles(Role::Inout),
        count(&|held| held.is(mark::TRUNCATED)),
        head.dropped,
        count(&|held| held.is(mark::OVERWRITTEN)),
        if head.bin { "\"args.bin\"" } else { "null" },
    )?;
    let mut line = Vec::with_capacity(1024);
    for (i, key) in sorted(stores).iter().enumerate() {
        line.clear();
        line.extend_from_slice(if i == 0 { b"\n" } else { b",\n" });
        row(&mut line, stores[key.thread()].get(key.at));
        out.write_all(&line)?;
    }
    out.write_all(b"\n  ]\n}\n")
}
