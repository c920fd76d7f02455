//! The records that are held until the manifest is written: 104 bytes each, in the order of their thread.

use dfx_collector::abi::args_dump::{
    FLAG_ARG_INDEX_AMBIGUOUS, FLAG_REFERENCE, FLAG_SHED, Kind, MAX_FUNC_IDS, Record, Role, Stage,
};
use dfx_collector::abi::tensor::{DataType, MAX_DIMS};

/// Records that are allocated at once.
const CHUNK: usize = 512;

/// What a [`Held`] is besides its numbers.
pub(crate) mod mark {
    /// The elements lay without holes.
    pub(crate) const CONTIGUOUS: u8 = 1;
    /// The payload is shorter than the tensor.
    pub(crate) const TRUNCATED: u8 = 2;
    /// The payload was overwritten before it was saved.
    pub(crate) const OVERWRITTEN: u8 = 4;
    /// The index does not name one argument alone.
    pub(crate) const AMBIGUOUS: u8 = 8;
    /// It has a payload of its own in the arena.
    pub(crate) const CARRIES: u8 = 16;
    /// Its payload is an earlier record's.
    pub(crate) const REFERS: u8 = 32;
    /// Its payload was given up by the device.
    pub(crate) const SHED: u8 = 64;
    /// Its payload is a part of a run, whatever became of it since.
    pub(crate) const IN_RUN: u8 = 128;
}

/// One captured argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) task_id: u64,
    /// A scalar's value; of a tensor, where its payload is in the arena's count of bytes.
    pub(crate) value: u64,
    /// The payload in bytes, as the device said.
    pub(crate) payload: u64,
    /// Where its bytes are in the file.
    pub(crate) bin_offset: u64,
    /// How many of them are there.
    pub(crate) bin_size: u64,
    pub(crate) start_offset: u64,
    pub(crate) shapes: [u32; MAX_DIMS],
    pub(crate) strides: [u32; MAX_DIMS],
    pub(crate) arg_index: u32,
    pub(crate) func_ids: [u16; MAX_FUNC_IDS],
    /// Dimensions, and kernels: see [`counts`](Self::counts).
    pub(crate) counts: u8,
    pub(crate) role: u8,
    pub(crate) stage: u8,
    pub(crate) kind: u8,
    pub(crate) dtype: u8,
    pub(crate) marks: u8,
}

/// What is wrong with a record as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flaws {
    /// A field that cannot be: it was clamped.
    pub(crate) corrupt: bool,
    /// A number that no type has.
    pub(crate) unknown_dtype: bool,
}

impl Held {
    /// `record` without what cannot be: counts within their arrays, a payload only where there can be one.
    pub(crate) fn of(record: &Record) -> (Held, Flaws) {
        let kind = Kind::from_raw(record.kind);
        let flaws = Flaws {
            corrupt: kind.is_none()
                || Role::from_raw(record.role).is_none()
                || Stage::from_raw(record.stage).is_none()
                || record.ndims as usize > MAX_DIMS
                || record.func_count as usize > MAX_FUNC_IDS,
            unknown_dtype: DataType::from_raw(record.dtype).is_none(),
        };
        let tensor = kind == Some(Kind::Tensor);
        let bit = |on: bool, mark: u8| if on { mark } else { 0 };
        let flag = |flag: u8| record.flags & flag != 0;
        let payload = if tensor && !flag(FLAG_SHED) { record.payload_size } else { 0 };
        let refers = payload > 0 && flag(FLAG_REFERENCE);
        let held = Held {
            task_id: record.task_id,
            value: if tensor { record.payload_offset } else { record.scalar_value },
            payload,
            bin_offset: 0,
            bin_size: 0,
            start_offset: record.start_offset,
            shapes: record.shapes,
            strides: record.strides,
            arg_index: record.arg_index,
            func_ids: record.func_ids,
            counts: Held::counts(record.ndims, record.func_count),
            role: record.role,
            stage: record.stage,
            kind: record.kind,
            dtype: record.dtype,
            marks: bit(record.is_contiguous != 0, mark::CONTIGUOUS)
                | bit(record.truncated != 0, mark::TRUNCATED)
                | bit(flag(FLAG_ARG_INDEX_AMBIGUOUS), mark::AMBIGUOUS)
                | bit(payload > 0 && !refers, mark::CARRIES)
                | bit(refers, mark::REFERS)
                | bit(tensor && flag(FLAG_SHED), mark::SHED | mark::TRUNCATED),
        };
        (held, flaws)
    }

    /// Both counts in one byte, none larger than its array.
    pub(crate) fn counts(ndims: u8, funcs: u8) -> u8 {
        ndims.min(MAX_DIMS as u8) << 4 | funcs.min(MAX_FUNC_IDS as u8)
    }

    pub(crate) fn ndims(&self) -> usize {
        usize::from(self.counts >> 4).min(MAX_DIMS)
    }

    pub(crate) fn funcs(&self) -> usize {
        usize::from(self.counts & 15).min(MAX_FUNC_IDS)
    }

    pub(crate) fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether its payload is, or was, a part of a run, and covers byte `at` of its arena.
    pub(crate) fn covers(&self, at: u64) -> bool {
        self.is(mark::IN_RUN) && self.value <= at && self.value + self.payload > at
    }

    /// Whether it has a payload of its own of which a part is in `from..end` of its arena.
    pub(crate) fn lies_in(&self, from: u64, end: u64) -> bool {
        self.is(mark::CARRIES) && self.value < end && self.value + self.payload > from
    }

    /// Its payload is in the file at `place`, the first `bytes` of it.
    pub(crate) fn save(&mut self, place: u64, bytes: u64) {
        if bytes == 0 {
            return self.bereave(mark::TRUNCATED);
        }
        (self.bin_offset, self.bin_size) = (place, bytes);
        if bytes < self.payload {
            self.marks |= mark::TRUNCATED;
        }
    }

    /// Takes its payload away: it will not be in the file.
    pub(crate) fn bereave(&mut self, mark: u8) {
        (self.bin_offset, self.bin_size) = (0, 0);
        self.marks = self.marks & !(mark::CARRIES | mark::REFERS) | mark;
    }
}

/// The records of buffers with consecutive numbers, in their thread's store.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u32,
    last: u32,
    start: u32,
    count: u32,
}

/// One thread's records.
#[derive(Debug, Default)]
pub(crate) struct Store {
    chunks: Vec<Vec<Held>>,
    spans: Vec<Span>,
    len: u32,
}

impl Store {
    /// Keeps one more record of buffer `seq`. Returns its place.
    pub(crate) fn push(&mut self, seq: u32, held: Held) -> u32 {
        if self.len.is_multiple_of(CHUNK as u32) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(held);
        }
        match self.spans.last_mut() {
            // Buffers that come in order are one span: only where the order breaks does it matter.
            Some(span) if span.last == seq || span.last.checked_add(1) == Some(seq) => {
                (span.last, span.count) = (seq, span.count + 1);
            }
            _ => self.spans.push(Span { first: seq, last: seq, start: self.len, count: 1 }),
        }
        self.len += 1;
        self.len - 1
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn get(&self, place: u32) -> &Held {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Held {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> + '_ {
        self.chunks.iter().flatten()
    }

    /// Places in the order in which the producer wrote the records.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        let mut spans = self.spans.clone();
        spans.sort_by_key(|span| span.first);
        spans.into_iter().flat_map(|span| span.start..span.start + span.count)
    }

    /// Gives every reference the place in the file of the record that it names. Returns how many named none, and the bytes
    /// that they lack.
    pub(crate) fn resolve(&mut self) -> (u64, u64) {
        if !self.iter().any(|held| held.is(mark::REFERS)) {
            return (0, 0);
        }
        // Offsets ascend in the order of the producer; sorted all the same, for a producer that cannot be trusted.
        let mut carriers: Vec<u32> =
            self.in_order().filter(|&place| self.get(place).is(mark::CARRIES)).collect();
        carriers.sort_by_key(|&place| self.get(place).value);
        let (mut lost, mut bytes) = (0, 0);
        for place in 0..self.len {
            let held = *self.get(place);
            if !held.is(mark::REFERS) {
                continue;
            }
            let found = carriers.binary_search_by_key(&held.value, |&place| self.get(place).value);
            let whole = found
                .ok()
                .map(|at| *self.get(carriers[at]))
                .filter(|named| named.payload == held.payload && named.bin_size == named.payload);
            let held = self.get_mut(place);
            match whole {
                Some(named) => (held.bin_offset, held.bin_size) = (named.bin_offset, named.bin_size),
                None => {
                    held.bereave(mark::TRUNCATED);
                    lost += 1;
                    bytes += held.payload;
                }
            }
        }
        (lost, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_record_takes_104_bytes_and_24_more_while_the_manifest_is_sorted() {
        assert_eq!(size_of::<Held>(), 104);
        assert!(size_of::<Held>() + size_of::<super::super::manifest::Key>() <= 128);
    }

    #[test]
    fn records_come_in_the_order_of_their_buffers_whatever_the_order_of_delivery() {
        let mut store = Store::default();
        for seq in [0_u32, 1, 4, 2, 3, 5] {
            for index in 0..3 {
                store.push(seq, Held { arg_index: 10 * seq + index, ..Held::default() });
            }
        }
        let order: Vec<u32> = store.in_order().map(|place| store.get(place).arg_index).collect();
        let expected: Vec<u32> = (0..6).flat_map(|seq| (0..3).map(move |index| 10 * seq + index)).collect();
        assert_eq!(order, expected);
        assert!(store.spans.len() < 6, "buffers in order are one span: {:?}", store.spans);
    }

    #[test]
    fn what_cannot_be_is_clamped_and_said() {
        let good = Record { ndims: 5, func_count: 3, ..Record::default() };
        assert_eq!(Held::of(&good).1, Flaws::default());
        for bad in [
            Record { ndims: 6, ..good },
            Record { kind: 2, ..good },
            Record { role: 3, ..good },
            Record { stage: 2, ..good },
            Record { func_count: 200, ..good },
        ] {
            let (held, flaws) = Held::of(&bad);
            assert!(flaws.corrupt && held.ndims() <= 5 && held.funcs() <= 3, "{bad:?}");
        }
        let (held, flaws) =
            Held::of(&Record { dtype: 200, kind: 1, payload_size: 9, scalar_value: 5, ..good });
        assert!(flaws.unknown_dtype && !flaws.corrupt);
        assert_eq!((held.payload, held.value, held.marks), (0, 5, 0), "a scalar has no payload");
    }
}
