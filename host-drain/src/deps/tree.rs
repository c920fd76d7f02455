//! Writes of one buffer in a tree that finds those which a view may meet.
//!
//! A [`Tree`] is built once, over boxes of equal rank, by halving along the dimension in which they are spread most; each
//! node knows what bounds its entries. Entries are only ever taken out, and a node without live ones is not visited
//! again. It answers with *candidates*: the caller compares each by the rules.

use super::map::Write;
use super::view::{Probe, Range, Ranges};
use dfx_collector::abi::tensor::MAX_DIMS;

/// Entries of a leaf.
const LEAF: usize = 8;

/// A write and what it is sorted by.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) write: Write,
    /// The writer's.
    pub(super) version: i32,
    pub(super) span: Range,
    /// As many as the tree has dimensions.
    pub(super) ranges: Ranges,
}

impl Item {
    /// Whether `probe` may meet it.
    pub(super) fn may_meet(&self, probe: &Probe<'_>, same_array: bool, dims: usize) -> bool {
        may_meet(self.version, &self.span, &self.ranges[..dims], probe, same_array)
    }
}

/// Whether `probe` may meet one of the writes with these bounds, which are boxes of its array if `same_array`.
fn may_meet(version: i32, span: &Range, ranges: &[Range], probe: &Probe<'_>, same_array: bool) -> bool {
    if version < probe.region.version {
        return true;
    }
    if !span.meets(&probe.span) {
        return false;
    }
    match &probe.boxed {
        // Boxes that leave the array, as the probe knows it, cannot be told apart from it.
        Some(own) if same_array && ranges[0].last < probe.outer => {
            own.iter().zip(ranges).all(|(own, range)| own.meets(range))
        }
        _ => true,
    }
}

struct Node {
    /// The lowest.
    version: i32,
    /// Entries that are not taken out.
    live: u32,
    /// A leaf's first entry.
    first: u32,
    /// The second child; the first is the next node. 0 for a leaf.
    second: u32,
    span: Range,
}

/// See the [module](self).
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// By node: what bounds its boxes, `dims` each.
    ranges: Vec<Range>,
    /// By leaf, live ones first.
    entries: Vec<Entry>,
    /// By entry: its box, `dims` each.
    entry_ranges: Vec<Range>,
    dims: usize,
}

/// An [`Item`] without its box.
struct Entry {
    write: Write,
    version: i32,
    span: Range,
}

/// What to do with a candidate.
pub(super) enum Verdict {
    Keep,
    TakeOut,
}

impl Tree {
    /// A tree of `items`, at least one, whose boxes have `dims` dimensions.
    pub(super) fn new(items: &[Item], dims: usize) -> Self {
        let nodes = (items.len() / LEAF + 1).next_power_of_two() * 2;
        let mut tree = Tree {
            nodes: Vec::with_capacity(nodes),
            ranges: Vec::with_capacity(nodes * dims),
            entries: Vec::with_capacity(items.len()),
            entry_ranges: Vec::with_capacity(items.len() * dims),
            dims,
        };
        let mut keys: Vec<(u64, u32)> = (0..items.len() as u32).map(|item| (0, item)).collect();
        tree.build(items, &mut keys, [Range { first: 0, last: u64::MAX }; MAX_DIMS]);
        tree
    }

    /// Adds the tree of those of `items` that `keys` names; `cell` bounds their middles, perhaps loosely.
    fn build(&mut self, items: &[Item], keys: &mut [(u64, u32)], mut cell: Ranges) {
        let (dims, number, first) = (self.dims, self.nodes.len(), self.entries.len() as u32);
        let live = keys.len() as u32;
        self.nodes.push(Node { version: i32::MAX, live, first, second: 0, span: Range::EMPTY });
        self.ranges.extend([Range::EMPTY; MAX_DIMS].iter().take(dims));
        if keys.len() <= LEAF {
            for &(_, item) in &*keys {
                let Item { write, version, span, ranges } = items[item as usize];
                self.entries.push(Entry { write, version, span });
                self.entry_ranges.extend_from_slice(&ranges[..dims]);
                self.widen(number, version, &span, &ranges[..dims]);
            }
            return;
        }
        let axis = split_axis(items, keys, &mut cell[..dims]);
        let half = keys.len() / 2;
        let (_, &mut (middle, _), _) = keys.select_nth_unstable_by_key(half, |(key, _)| *key);
        let (low, high) = keys.split_at_mut(half);
        let (mut low_cell, mut high_cell) = (cell, cell);
        (low_cell[axis].last, high_cell[axis].first) = (middle, middle);
        self.build(items, low, low_cell);
        let second = self.nodes.len();
        self.nodes[number].second = second as u32;
        self.build(items, high, high_cell);
        for child in [number + 1, second] {
            let Node { version, span, .. } = self.nodes[child];
            let mut ranges = [Range::EMPTY; MAX_DIMS];
            ranges[..dims].copy_from_slice(self.ranges_of(child));
            self.widen(number, version, &span, &ranges[..dims]);
        }
    }

    fn widen(&mut self, number: usize, version: i32, span: &Range, ranges: &[Range]) {
        let node = &mut self.nodes[number];
        node.version = node.version.min(version);
        node.span = node.span.union(span);
        for (own, range) in self.ranges[number * self.dims..].iter_mut().zip(ranges) {
            *own = own.union(range);
        }
    }

    fn ranges_of(&self, number: usize) -> &[Range] {
        &self.ranges[number * self.dims..][..self.dims]
    }

    /// Entries that are not taken out.
    pub(super) fn live(&self) -> usize {
        self.nodes[0].live as usize
    }

    /// Whether most entries are taken out.
    pub(super) fn is_sparse(&self) -> bool {
        self.live() * 2 < self.entries.len()
    }

    /// Shows `judge` every live entry that `probe` may meet.
    pub(super) fn visit(
        &mut self,
        probe: &Probe<'_>,
        same_array: bool,
        judge: &mut impl FnMut(&Write) -> Verdict,
    ) {
        self.visit_node(0, probe, same_array, judge);
    }

    /// Returns how many entries were taken out.
    fn visit_node(
        &mut self,
        number: usize,
        probe: &Probe<'_>,
        same_array: bool,
        judge: &mut impl FnMut(&Write) -> Verdict,
    ) -> u32 {
        let Node { version, live, first, second, ref span } = self.nodes[number];
        if live == 0 || !may_meet(version, span, self.ranges_of(number), probe, same_array) {
            return 0;
        }
        let gone = if second != 0 {
            self.visit_node(number + 1, probe, same_array, judge)
                + self.visit_node(second as usize, probe, same_array, judge)
        } else {
            let (first, mut last) = (first as usize, (first + live) as usize);
            let mut at = first;
            while at < last {
                let Entry { write, version, span } = &self.entries[at];
                let ranges = &self.entry_ranges[at * self.dims..][..self.dims];
                if may_meet(*version, span, ranges, probe, same_array)
                    && matches!(judge(write), Verdict::TakeOut)
                {
                    last -= 1;
                    self.swap(at, last);
                } else {
                    at += 1;
                }
            }
            live - (last - first) as u32
        };
        self.nodes[number].live -= gone;
        gone
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        for dim in 0..self.dims {
            self.entry_ranges.swap(a * self.dims + dim, b * self.dims + dim);
        }
    }

    /// The live entries, in no order.
    pub(super) fn live_items(&self) -> impl Iterator<Item = Item> {
        let leaves = self.nodes.iter().filter(|node| node.second == 0);
        leaves.flat_map(|leaf| leaf.first as usize..(leaf.first + leaf.live) as usize).map(|at| {
            let Entry { write, version, span } = self.entries[at];
            let mut ranges = [Range::EMPTY; MAX_DIMS];
            ranges[..self.dims].copy_from_slice(&self.entry_ranges[at * self.dims..][..self.dims]);
            Item { write, version, span, ranges }
        })
    }
}

/// Picks the dimension in which the middles are spread most, tightens `cell` there, and leaves the middles in `keys`.
fn split_axis(items: &[Item], keys: &mut [(u64, u32)], cell: &mut [Range]) -> usize {
    let widest = |cell: &[Range]| (0..cell.len()).max_by_key(|&axis| cell[axis].last - cell[axis].first);
    // Each round makes one dimension exact, and ends if it was already.
    loop {
        let axis = widest(cell).unwrap_or(0);
        let mut exact = Range::EMPTY;
        for (key, item) in &mut *keys {
            let Range { first, last } = items[*item as usize].ranges[axis];
            *key = first / 2 + last / 2;
            exact = Range { first: exact.first.min(*key), last: exact.last.max(*key) };
        }
        cell[axis] = exact;
        if widest(cell) == Some(axis) {
            return axis;
        }
    }
}
