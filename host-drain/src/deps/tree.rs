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
    pub(super) bounds: Bounds,
}

/// What bounds some writes.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The lowest.
    pub(super) version: i32,
    pub(super) span: Range,
    pub(super) ranges: Ranges,
}

impl Bounds {
    const NONE: Bounds =
        Bounds { version: i32::MAX, span: Range::EMPTY, ranges: [Range::EMPTY; MAX_DIMS] };

    fn union(&self, other: &Bounds, dims: usize) -> Bounds {
        let mut ranges = self.ranges;
        for (range, other) in ranges.iter_mut().zip(&other.ranges).take(dims) {
            *range = range.union(other);
        }
        Bounds { version: self.version.min(other.version), span: self.span.union(&other.span), ranges }
    }

    /// Whether `probe` may meet one of the writes, which are boxes of its array if `same_array`.
    fn may_meet(&self, probe: &Probe<'_>, same_array: bool, dims: usize) -> bool {
        if self.version < probe.region.version {
            return true;
        }
        if !self.span.meets(&probe.span) {
            return false;
        }
        match &probe.boxed {
            Some(own) if same_array && self.ranges[0].last < probe.outer => {
                own.iter().zip(&self.ranges).take(dims).all(|(own, range)| own.meets(range))
            }
            _ => true,
        }
    }
}

struct Node {
    bounds: Bounds,
    /// Entries that are not taken out.
    live: u32,
    /// A leaf's first entry.
    first: u32,
    /// The second child; the first is the next node. 0 for a leaf.
    second: u32,
}

/// See the [module](self).
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// By leaf, live ones first.
    writes: Vec<Write>,
    dims: usize,
}

/// What to do with a candidate.
pub(super) enum Verdict {
    Keep,
    TakeOut,
}

impl Tree {
    /// A tree of `items`, at least one, whose boxes have `dims` dimensions.
    pub(super) fn new(items: &mut [Item], dims: usize) -> Self {
        let mut tree = Tree { nodes: Vec::new(), writes: Vec::with_capacity(items.len()), dims };
        tree.nodes.reserve(items.len() / LEAF * 3);
        tree.build(items);
        tree.nodes.shrink_to_fit();
        tree
    }

    fn build(&mut self, items: &mut [Item]) {
        let dims = self.dims;
        let bounds = items.iter().fold(Bounds::NONE, |sum, item| sum.union(&item.bounds, dims));
        let number = self.nodes.len();
        let first = self.writes.len() as u32;
        self.nodes.push(Node { bounds, live: items.len() as u32, first, second: 0 });
        if items.len() <= LEAF {
            self.writes.extend(items.iter().map(|item| item.write));
            return;
        }
        let axis = (0..dims).max_by_key(|&axis| spread(items, axis)).unwrap_or(0);
        let half = items.len() / 2;
        items.select_nth_unstable_by_key(half, |item| centre(item, axis));
        let (low, high) = items.split_at_mut(half);
        self.build(low);
        self.nodes[number].second = self.nodes.len() as u32;
        self.build(high);
    }

    /// Entries that are not taken out.
    pub(super) fn live(&self) -> usize {
        self.nodes[0].live as usize
    }

    /// Whether most entries are taken out.
    pub(super) fn is_sparse(&self) -> bool {
        self.live() * 2 < self.writes.len()
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
        let Node { ref bounds, live, first, second } = self.nodes[number];
        if live == 0 || !bounds.may_meet(probe, same_array, self.dims) {
            return 0;
        }
        let gone = if second != 0 {
            self.visit_node(number + 1, probe, same_array, judge)
                + self.visit_node(second as usize, probe, same_array, judge)
        } else {
            let (first, mut last) = (first as usize, (first + live) as usize);
            let mut at = first;
            while at < last {
                match judge(&self.writes[at]) {
                    Verdict::Keep => at += 1,
                    Verdict::TakeOut => {
                        last -= 1;
                        self.writes.swap(at, last);
                    }
                }
            }
            live - (last - first) as u32
        };
        self.nodes[number].live -= gone;
        gone
    }

    /// The live entries, in no order.
    pub(super) fn live_writes(&self) -> impl Iterator<Item = Write> {
        let leaves = self.nodes.iter().filter(|node| node.second == 0);
        leaves.flat_map(|leaf| self.writes[leaf.first as usize..(leaf.first + leaf.live) as usize].iter().copied())
    }
}

/// Twice the middle of `item` along `axis`.
fn centre(item: &Item, axis: usize) -> u128 {
    let Range { first, last } = item.bounds.ranges[axis];
    u128::from(first) + u128::from(last)
}

fn spread(items: &[Item], axis: usize) -> u128 {
    let (low, high) = items.iter().map(|item| centre(item, axis)).fold((u128::MAX, 0), |(low, high), centre| {
        (low.min(centre), high.max(centre))
    });
    high - low
}
