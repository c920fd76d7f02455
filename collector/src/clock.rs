//! Where time stamps come from.

/// A platform's counter, and the way a waiting producer gives way.
///
/// Ticks are those of the platform (50 MHz on a2a3, 1 GHz on a5) and may wrap: a difference is a wrapping subtraction.
pub trait Clock {
    /// The counter now, in ticks.
    fn now(&self) -> u64;

    /// Called between two looks at a word that somebody else must change: a spin hint, a yield, or a step of virtual
    /// time. May return at once.
    fn relax(&self);

    /// A fault plan's chance to spoil `entry` before it is published.
    #[cfg(feature = "testpoints")]
    fn publish(&self, entry: &mut crate::lane::Entry) -> Publish {
        let _ = entry;
        Publish::Once
    }
}

/// What a fault plan makes of a publication (feature `testpoints`).
#[cfg(feature = "testpoints")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Publish {
    /// As it should be.
    Once,
    /// The entry stands twice in the queue.
    Twice,
    /// The entry comes after the next one of its queue.
    Later,
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline(always)]
    fn now(&self) -> u64 {
        (**self).now()
    }
    #[inline(always)]
    fn relax(&self) {
        (**self).relax()
    }
    #[cfg(feature = "testpoints")]
    fn publish(&self, entry: &mut crate::lane::Entry) -> Publish {
        (**self).publish(entry)
    }
}
