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
}
