use super::*;
use proptest::prelude::*;

const fn row(dispatch: u64, finish: u64, token: u32) -> TaskRow {
    TaskRow { dispatch, finish, token }
}

const ZERO: TaskRow = row(0, 0, 0);

const fn tail(kept: usize, lost: usize) -> Tail {
    Tail { kept, lost }
}

/// Rows of times `first`, `first` + 10 and so on.
fn rows(first: u64, count: usize) -> Vec<TaskRow> {
    (0..count).map(|i| row(first + 10 * i as u64, first + 10 * i as u64 + 5, i as u32)).collect()
}

fn new_buffer<R>(_slot: usize) -> Before<R> {
    Before::Nothing
}

#[test]
fn a_new_buffer_has_what_is_not_zero() {
    for there in 0..=GROUP {
        let mut group = rows(10, there);
        group.resize(GROUP, ZERO);
        assert_eq!(Tail::of(&group, 0, new_buffer), tail(there, 0));
    }
    // Token 0 at the very first tick is no less a record.
    assert_eq!(Tail::of(&[row(0, 1, 0)], 0, new_buffer), tail(1, 0));
}

#[test]
fn a_record_without_its_end_is_lost() {
    let begun = [row(40, 0, 0), row(40, 0, 7), row(0, 0, 7)];
    for begun in begun {
        let mut group = rows(10, 2);
        group.extend([begun, ZERO, ZERO]);
        assert_eq!(Tail::of(&group, 0, new_buffer), tail(2, 1), "{begun:?}");
    }
    // In a buffer that was used before.
    let old = rows(10, 16);
    let mut now = rows(1_000, 16);
    now[10] = row(2_000, old[10].finish, old[10].token);
    now[11..].copy_from_slice(&old[11..]);
    assert_eq!(Tail::of(&now, 8, |slot| Before::Row(old[slot])), tail(2, 1));
}

#[test]
fn what_the_host_took_from_a_slot_before_is_not_taken_again() {
    let old = rows(10, 16);
    let held = |slot: usize| Before::Row(old[slot]);
    for there in 0..=GROUP {
        let mut now = rows(1_000, 8 + there);
        now.extend_from_slice(&old[8 + there..]);
        assert_eq!(Tail::of(&now, 8, held), tail(there, 0));
        // The same with nothing shown.
        let mut now = rows(1_000, there);
        now.extend_from_slice(&old[there..8]);
        assert_eq!(Tail::of(&now, 0, held), tail(there, 0));
    }
    // A whole buffer within one tick: an end that is the old one's says nothing, and is not believed.
    let mut now = old.clone();
    now[8] = row(old[8].dispatch, old[8].finish, 1_000);
    assert_eq!(Tail::of(&now, 8, held), tail(0, 1));
}

#[test]
fn a_record_behind_one_that_is_not_there_is_lost_not_taken() {
    let mut now = rows(10, 2);
    now.extend([ZERO, row(90, 95, 4), ZERO]);
    assert_eq!(Tail::of(&now, 0, new_buffer), tail(2, 2));
}

#[test]
fn nothing_is_taken_where_nobody_knows_what_was_there() {
    let group = rows(1_000, 8);
    assert_eq!(Tail::of(&group, 0, |_| Before::Unknown), tail(0, 0));
    let first_two = |slot| if slot < 2 { Before::Nothing } else { Before::Unknown };
    assert_eq!(Tail::of(&group, 0, first_two), tail(2, 0));
    // No slots at all, or fewer than the count.
    assert_eq!(Tail::of(&group, 8, new_buffer), tail(0, 0));
    assert_eq!(Tail::of(&group[..3], 8, new_buffer), tail(0, 0));
    assert_eq!(Tail::of(&[] as &[TaskRow], 0, new_buffer), tail(0, 0));
}

#[test]
fn what_is_known_of_a_slot_is_what_the_last_use_left_there() {
    let mut former = Former::default();
    let of = |former, held, slot| before::<u32>(former, held)(slot);
    assert_eq!(of(former, Some(&[7]), 0), Before::Nothing);
    former.taken(3, 10);
    assert_eq!(of(former, Some(&[7; 10]), 9), Before::Row(7));
    assert_eq!(of(former, Some(&[7; 10]), 10), Before::Nothing);
    assert_eq!(of(former, Some(&[7; 4]), 9), Before::Unknown, "fewer than were taken");
    assert_eq!(of(former, None, 0), Before::Unknown, "no buffer of that number, or two");
    // A shorter use leaves the rest of the longer one.
    former.taken(4, 2);
    assert_eq!((former.seq, of(former, Some(&[8; 2]), 1)), (4, Before::Row(8)));
    assert_eq!(of(former, Some(&[8; 2]), 2), Before::Unknown);
    assert_eq!(of(former, Some(&[8; 2]), 10), Before::Nothing);
    former.missed();
    assert_eq!(of(former, Some(&[8; 2]), 0), Before::Unknown);
    former.taken(6, 10);
    assert_eq!(of(former, Some(&[9; 10]), 3), Before::Row(9));
    assert_eq!(of(former, Some(&[9; 10]), 10), Before::Unknown);
}

/// One lane's producer, field by field, and what its host takes; stopped after any store.
#[derive(Debug)]
struct Lane {
    buffers: Vec<Vec<TaskRow>>,
    formers: Vec<Former>,
    uses: Vec<Vec<TaskRow>>,
}

const CAPACITY: usize = 16;

impl Lane {
    /// Writes records that end `steps` after one another until `stores` stores were made. Returns what the active buffer
    /// shows of them: itself, the count, the whole ones, and whether one was begun.
    fn run(&mut self, steps: &[u64], stores: usize) -> (usize, usize, Vec<TaskRow>, bool) {
        let (mut now, mut left) = (100, stores);
        let (mut active, mut count, mut written) = (0, 0, Vec::new());
        for (token, step) in steps.iter().enumerate() {
            let slot = written.len();
            now += step;
            let record = row(now - step / 2, now, token as u32);
            let place = &mut self.buffers[active][slot];
            let stored = left.min(3);
            left -= stored;
            if stored > 0 {
                place.dispatch = record.dispatch;
            }
            if stored > 1 {
                place.token = record.token;
            }
            if stored < 3 {
                return (active, count, written, stored > 0);
            }
            place.finish = record.finish;
            written.push(record);
            if left == 0 {
                return (active, count, written, false);
            }
            left -= 1;
            if written.len().is_multiple_of(GROUP) {
                count = written.len();
            }
            if written.len() == CAPACITY {
                self.formers[active].taken(self.uses.len() as u32, CAPACITY as u32);
                self.uses.push(std::mem::take(&mut written));
                (active, count) = ((active + 1) % self.buffers.len(), 0);
            }
        }
        (active, count, written, false)
    }
}

proptest! {
    /// Wherever the device is stopped, in a new buffer or a used one: what is taken is what was written, whole, each once;
    /// the one record that was begun is lost if anything of it shows.
    #[test]
    fn what_is_taken_is_what_was_written(
        steps in prop::collection::vec(prop_oneof![Just(0), Just(1), 2..9_u64], 90),
        stores in 0..400_usize,
        buffers in 1..4_usize,
    ) {
        let memory = vec![ZERO; CAPACITY];
        let mut lane =
            Lane { buffers: vec![memory; buffers], formers: vec![Former::default(); buffers], uses: Vec::new() };
        let (active, count, written, begun) = lane.run(&steps, stores);
        let former = lane.formers[active];
        let held = lane.uses.get(former.seq as usize).map(Vec::as_slice);
        let until = ((count / GROUP + 1) * GROUP).min(CAPACITY);
        let found = Tail::of(&lane.buffers[active][..until], count, before(former, held));
        let taken = &lane.buffers[active][..count + found.kept];
        prop_assert!(written.starts_with(taken), "{taken:?} of {written:?}");
        // A buffer's worth of records within one tick is not told from the one before.
        let ticks: u64 = steps.chunks(4).map(|chunk| chunk.iter().sum::<u64>()).min().unwrap_or(0);
        if ticks > 0 {
            prop_assert_eq!(taken.len(), written.len());
            prop_assert!(found.lost <= usize::from(begun));
        } else {
            prop_assert!(taken.len() + found.lost >= written.len());
        }
    }
}

#[test]
fn phases_and_submits_go_by_their_ends_too() {
    let phase = |start, end| SchedRow { start, end, kind: 99, ..SchedRow::default() };
    let all =
        [phase(100, 110), phase(100, 120), phase(105, 105), phase(40, 50), phase(7, 0), SchedRow::default()];
    assert_eq!(
        Tail::of(&all, 1, new_buffer),
        tail(3, 1),
        "a phase around others, a marker, one not finished"
    );
    let submit = |start_time, end_time| OrchPhaseRecord { start_time, end_time, ..Default::default() };
    let begun = [submit(10, 11), submit(11, 0), OrchPhaseRecord::default()];
    assert_eq!(Tail::of(&begun, 0, new_buffer), tail(1, 1));
}
