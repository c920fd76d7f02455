//! Handles: numbers that look like pointers.
//!
//! A handle is never dereferenced. It is a slot's number and the slot's generation, so that a handle which was destroyed,
//! made up, or is of the other kind is told from a good one, however long ago and on whatever thread. A generation wraps
//! after 2^32 reuses of one slot.

use crate::config::Config;
use crate::session::Opened;
use dfx_host_drain::Stepper;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// A configuration. Opaque.
pub struct dfx_config_t {
    _opaque: [u8; 0],
}

/// A session. Opaque.
pub struct dfx_session_t {
    _opaque: [u8; 0],
}

/// Names a configuration. Never dereferenced: a number that is checked at each use. Null is none.
pub type dfx_config_h = *mut dfx_config_t;
/// Names a session. Never dereferenced: a number that is checked at each use. Null is none.
pub type dfx_session_h = *mut dfx_session_t;

/// A handle that cannot be used; each has the word for what it should have been.
#[derive(Debug)]
pub(crate) enum HandleError {
    Null(&'static str),
    Unknown(&'static str),
    Busy(&'static str),
    Full(&'static str),
}

impl std::fmt::Display for HandleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandleError::Null(what) => write!(f, "the {what} handle is null"),
            HandleError::Unknown(what) => {
                write!(f, "the handle is no {what}, or that {what} has been destroyed")
            }
            HandleError::Busy(what) => {
                write!(f, "another call on this {what} is under way: calls on one {what} must not overlap")
            }
            HandleError::Full(what) => write!(f, "there are too many {what}s: destroy those that are done"),
        }
    }
}

struct Slot<T, B> {
    generation: u32,
    /// What the handle stands for, and what of it is there for calls that run beside others.
    value: Option<(Arc<Mutex<T>>, B)>,
}

/// All that one kind of handle stands for.
pub(crate) struct Registry<T, B = ()> {
    what: &'static str,
    /// Tells the kinds of handles apart; not 0, so that no handle is null.
    tag: u64,
    slots: Mutex<Vec<Slot<T, B>>>,
}

/// Slots fit into the bits between tag and generation.
const MAX_SLOTS: usize = 1 << 28;

pub(crate) static CONFIGS: Registry<Config> = Registry::new("config", 1);
pub(crate) static SESSIONS: Registry<Opened, Stepper> = Registry::new("session", 2);

impl<T, B: Clone> Registry<T, B> {
    const fn new(what: &'static str, tag: u64) -> Self {
        Registry { what, tag, slots: Mutex::new(Vec::new()) }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot<T, B>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self, generation: u32, index: usize) -> u64 {
        u64::from(generation) << 32 | (index as u64) << 2 | self.tag
    }

    /// A handle that stands for `value`, and gives `beside` to calls that do not wait for it.
    pub(crate) fn insert<H>(&self, value: T, beside: B) -> Result<*mut H, HandleError> {
        let value = Some((Arc::new(Mutex::new(value)), beside));
        let mut slots = self.slots();
        let index = match slots.iter().position(|slot| slot.value.is_none()) {
            Some(index) => index,
            None if slots.len() < MAX_SLOTS => {
                slots.push(Slot { generation: 0, value: None });
                slots.len() - 1
            }
            None => return Err(HandleError::Full(self.what)),
        };
        slots[index].value = value;
        let token = self.token(slots[index].generation, index);
        Ok(std::ptr::without_provenance_mut(token as usize))
    }

    fn find<H>(&self, handle: *mut H) -> Result<(usize, Arc<Mutex<T>>, B), HandleError> {
        if handle.is_null() {
            return Err(HandleError::Null(self.what));
        }
        let token = handle.addr() as u64;
        let index = (token as u32 >> 2) as usize;
        let slots = self.slots();
        match slots.get(index) {
            Some(Slot { generation, value: Some((value, beside)) })
                if self.token(*generation, index) == token =>
            {
                Ok((index, Arc::clone(value), beside.clone()))
            }
            _ => Err(HandleError::Unknown(self.what)),
        }
    }

    /// Uses what `handle` stands for.
    pub(crate) fn with<H, R, E: From<HandleError>>(
        &self,
        handle: *mut H,
        body: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        let (_, value, _) = self.find(handle)?;
        let mut value = match value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(HandleError::Busy(self.what).into()),
        };
        body(&mut value)
    }

    /// What goes with `handle` and needs no turn: also while a call on it is under way, which it does not disturb.
    pub(crate) fn beside<H>(&self, handle: *mut H) -> Result<B, HandleError> {
        self.find(handle).map(|(_, _, beside)| beside)
    }

    /// A copy of what `handle` stands for. It waits for a call that is under way: only for what no call holds for long, and
    /// none while it calls the caller back.
    pub(crate) fn copy<H>(&self, handle: *mut H) -> Result<T, HandleError>
    where
        T: Clone,
    {
        let (_, value, _) = self.find(handle)?;
        let held = value.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(held.clone())
    }

    /// Ends `handle`, and gives what it stood for to `end` first.
    pub(crate) fn remove<H>(&self, handle: *mut H, end: impl FnOnce(&mut T)) -> Result<(), HandleError> {
        let (index, value, _) = self.find(handle)?;
        let mut held = match value.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(HandleError::Busy(self.what)),
        };
        end(&mut held);
        drop(held);
        let mut slots = self.slots();
        // Two threads may have come this far with one handle: the first ends it.
        let Some(slot) = slots
            .get_mut(index)
            .filter(|slot| slot.value.as_ref().is_some_and(|(there, _)| Arc::ptr_eq(there, &value)))
        else {
            return Err(HandleError::Unknown(self.what));
        };
        slot.value = None;
        slot.generation = slot.generation.wrapping_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Handle = *mut dfx_config_t;

    fn get(registry: &Registry<u32>, handle: Handle) -> Result<u32, HandleError> {
        registry.with(handle, |value| Ok(*value))
    }

    #[test]
    fn a_handle_that_was_destroyed_stays_unknown_when_its_slot_is_used_again() {
        let registry = Registry::new("thing", 1);
        let first: Handle = registry.insert(1, ()).unwrap();
        registry.remove(first, |_| ()).unwrap();
        let second: Handle = registry.insert(2, ()).unwrap();
        assert_eq!(get(&registry, second).unwrap(), 2);
        assert!(matches!(get(&registry, first), Err(HandleError::Unknown(_))));
        assert!(matches!(registry.remove(first, |_| ()), Err(HandleError::Unknown(_))));
    }

    #[test]
    fn made_up_handles_and_those_of_the_other_kind_are_unknown() {
        let (one, other) = (Registry::new("one", 1), Registry::new("other", 2));
        let handle: Handle = other.insert(1, ()).unwrap();
        one.insert::<dfx_config_t>(1, ()).unwrap();
        assert!(matches!(get(&one, handle), Err(HandleError::Unknown("one"))));
        assert!(matches!(get(&one, std::ptr::null_mut()), Err(HandleError::Null("one"))));
        for made_up in [3usize, 4, 5, 0xdead_beef, usize::MAX, usize::MAX / 2] {
            let made_up = std::ptr::without_provenance_mut(made_up);
            assert!(matches!(get(&one, made_up), Err(HandleError::Unknown(_))), "{made_up:?}");
        }
    }

    #[test]
    fn a_call_within_a_call_on_the_same_handle_is_refused_and_does_not_wait() {
        let registry = Registry::new("thing", 1);
        let handle: Handle = registry.insert(1, ()).unwrap();
        registry
            .with(handle, |_| {
                assert!(matches!(get(&registry, handle), Err(HandleError::Busy(_))));
                assert!(matches!(registry.remove(handle, |_| ()), Err(HandleError::Busy(_))));
                Ok::<_, HandleError>(())
            })
            .unwrap();
        assert_eq!(get(&registry, handle).unwrap(), 1);
    }

    #[test]
    fn what_is_beside_the_lock_is_there_during_a_call_and_takes_no_turn() {
        let registry = Registry::new("thing", 1);
        let handle: Handle = registry.insert(1, "beside").unwrap();
        let held = |_: &mut u32| registry.beside(handle);
        assert_eq!(registry.with(handle, held).unwrap(), "beside");
        registry.remove(handle, |_| assert_eq!(registry.beside(handle).unwrap(), "beside")).unwrap();
        assert!(matches!(registry.beside(handle), Err(HandleError::Unknown(_))));
    }

    #[test]
    fn copies_made_at_once_by_many_threads_are_all_made() {
        let registry = Registry::new("thing", 1);
        let handle = registry.insert::<dfx_config_t>(vec![7; 1000], ()).unwrap().addr();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let handle: Handle = std::ptr::without_provenance_mut(handle);
                        assert_eq!(registry.copy(handle).unwrap(), [7; 1000]);
                    }
                });
            }
        });
    }
}
