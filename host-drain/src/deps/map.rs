//! The tensor map: which earlier writes of a buffer still count, found without looking at all of them.
//!
//! Few writes of a buffer are a list. Many are sorted into groups of boxes of the same array, and a pool of what is no
//! box; in each group a handful of [`Tree`]s, each larger than the next, holds what is not fresh. A look-up then costs
//! about as much as it finds, whether the writes are tiles in one, two or more dimensions.

use super::submits::Submits;
use super::tree::{Item, Tree, Verdict};
use super::view::{ArrayKey, Overlap, Probe, Range};
use dfx_collector::abi::tensor::MAX_DIMS;

/// Writes from which on a list is sorted into groups.
const MANY: usize = 32;
/// Writes down to which groups become a list again.
const FEW: usize = 8;
/// Writes of a group that are in no tree yet.
const FRESH: usize = 32;
/// Groups of a buffer; boxes of further arrays go to the pool.
const GROUPS: usize = 16;

/// A registered write.
#[derive(Clone, Copy)]
pub(super) struct Write {
    /// Counts writes: the newest has the highest.
    order: u32,
    /// The argument that writes.
    pub(super) arg: u32,
    /// The task that writes, by its place in the order of submits.
    pub(super) producer: u32,
}

/// A write that a look-up met.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) write: Write,
    pub(super) overlap: Overlap,
}

/// The live writes of all buffers.
pub(super) struct TensorMap<'a> {
    submits: &'a Submits,
    buffers: Vec<Bucket>,
    registered: u32,
}

/// The live writes of one buffer.
enum Bucket {
    /// Newest last.
    Few(Vec<Write>),
    Many(Box<Groups>),
}

impl<'a> TensorMap<'a> {
    /// No writes yet.
    pub(super) fn new(submits: &'a Submits) -> Self {
        let buffers = (0..submits.buffer_count()).map(|_| Bucket::Few(Vec::new())).collect();
        TensorMap { submits, buffers, registered: 0 }
    }

    /// Puts the writes that argument `arg` meets into `hits`, newest first. If it `updates` what it reads, those that it
    /// covers count no longer.
    pub(super) fn look_up(&mut self, arg: u32, updates: bool, hits: &mut Vec<Hit>) {
        hits.clear();
        let submits = self.submits;
        let arg = submits.arg(arg);
        let bucket = &mut self.buffers[submits.buffer_of(arg) as usize];
        if matches!(bucket, Bucket::Few(writes) if writes.is_empty()) {
            return;
        }
        let probe = Probe::new(submits.region_of(arg));
        let mut judge = |write: &Write| {
            let overlap = probe.overlap(&submits.region_of(submits.arg(write.arg)));
            hits.extend(overlap.map(|overlap| Hit { write: *write, overlap }));
            match overlap {
                Some(Overlap::Covered) if updates => Verdict::TakeOut,
                _ => Verdict::Keep,
            }
        };
        match bucket {
            Bucket::Few(writes) => {
                writes.retain(|write| matches!(judge(write), Verdict::Keep));
                hits.reverse();
            }
            Bucket::Many(groups) => {
                groups.visit(&probe, &mut judge);
                hits.sort_unstable_by_key(|hit| std::cmp::Reverse(hit.write.order));
                if groups.live() <= FEW {
                    let mut writes: Vec<Write> = groups.0.iter().flat_map(Group::live_writes).collect();
                    writes.sort_unstable_by_key(|write| write.order);
                    *bucket = Bucket::Few(writes);
                }
            }
        }
    }

    /// Registers what argument `arg` of the submit `producer` writes.
    pub(super) fn register(&mut self, arg: u32, producer: u32) {
        let submits = self.submits;
        let write = Write { order: self.registered, arg, producer };
        self.registered += 1;
        let bucket = &mut self.buffers[submits.buffer_of(submits.arg(arg)) as usize];
        match bucket {
            Bucket::Few(writes) if writes.len() < MANY => writes.push(write),
            Bucket::Few(writes) => {
                let mut groups = Box::new(Groups(Vec::new()));
                writes.iter().chain([&write]).for_each(|write| groups.insert(*write, submits));
                *bucket = Bucket::Many(groups);
            }
            Bucket::Many(groups) => groups.insert(write, submits),
        }
    }
}

/// Many writes of one buffer; the pool is the group without an array.
struct Groups(Vec<Group>);

struct Group {
    array: Option<ArrayKey>,
    /// In no tree yet.
    fresh: Vec<Item>,
    /// The larger, the earlier (until entries are taken out).
    trees: Vec<Tree>,
}

impl Groups {
    fn live(&self) -> usize {
        let live = |group: &Group| group.fresh.len() + group.trees.iter().map(Tree::live).sum::<usize>();
        self.0.iter().map(live).sum()
    }

    fn insert(&mut self, write: Write, submits: &Submits) {
        let region = submits.region_of(submits.arg(write.arg));
        let array = region.boxed().and(region.layout.array());
        let array = array.filter(|_| self.0.len() < GROUPS || self.position(array).is_some());
        let number = self.position(array).unwrap_or_else(|| {
            self.0.push(Group { array, fresh: Vec::new(), trees: Vec::new() });
            self.0.len() - 1
        });
        self.0[number].insert(write, submits);
    }

    fn position(&self, array: Option<ArrayKey>) -> Option<usize> {
        self.0.iter().position(|group| group.array == array)
    }

    fn visit(&mut self, probe: &Probe<'_>, judge: &mut impl FnMut(&Write) -> Verdict) {
        let own = probe.region.layout.array();
        for group in &mut self.0 {
            let same_array = own.is_some() && group.array == own;
            let dims = dims(group.array);
            group.fresh.retain(|item| {
                !item.may_meet(probe, same_array, dims) || matches!(judge(&item.write), Verdict::Keep)
            });
            let mut sparse = false;
            for tree in &mut group.trees {
                tree.visit(probe, same_array, judge);
                sparse |= tree.is_sparse();
            }
            if sparse {
                group.thin_out();
            }
        }
    }
}

impl Group {
    fn insert(&mut self, write: Write, submits: &Submits) {
        let array = self.array;
        self.fresh.push(item(write, array, submits));
        if self.fresh.len() < FRESH {
            return;
        }
        let mut items = std::mem::take(&mut self.fresh);
        while let Some(tree) = self.trees.pop_if(|tree| tree.live() <= items.len()) {
            items.extend(tree.live_items());
        }
        self.trees.push(Tree::new(&items, dims(array)));
    }

    /// Rebuilds the trees of which most is gone.
    fn thin_out(&mut self) {
        let dims = dims(self.array);
        self.trees.retain(|tree| tree.live() > 0);
        for tree in self.trees.iter_mut().filter(|tree| tree.is_sparse()) {
            let items: Vec<Item> = tree.live_items().collect();
            *tree = Tree::new(&items, dims);
        }
    }

    fn live_writes(&self) -> impl Iterator<Item = Write> {
        self.fresh
            .iter()
            .map(|item| item.write)
            .chain(self.trees.iter().flat_map(|tree| tree.live_items().map(|item| item.write)))
    }
}

/// `write` as an entry of the group of `array`.
fn item(write: Write, array: Option<ArrayKey>, submits: &Submits) -> Item {
    let region = submits.region_of(submits.arg(write.arg));
    let span = region.span();
    let boxed = array.and_then(|_| region.boxed());
    let ranges = boxed.unwrap_or_else(|| {
        // What is no box is sorted by its span.
        let mut ranges = [Range::EMPTY; MAX_DIMS];
        ranges[0] = span;
        ranges
    });
    Item { write, version: region.version, span, ranges }
}

/// The dimensions by which the group of `array` is sorted.
fn dims(array: Option<ArrayKey>) -> usize {
    array.map_or(1, |array| array.ndims.into())
}
