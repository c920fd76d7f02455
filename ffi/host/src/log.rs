//! What the library has to tell while it works, to a caller's function.

use crate::status::{Failure, dfx_status_e, guard};
use std::ffi::{CString, c_char, c_void};
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// How much the log tells; each level has those before it.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_log_level_e {
    /// Nothing.
    DFX_LOG_OFF = 0,
    /// What was given up.
    DFX_LOG_ERROR = 1,
    /// What is lost or odd, and goes on (the default).
    DFX_LOG_WARN = 2,
    /// What is done.
    DFX_LOG_INFO = 3,
    /// What is tried again.
    DFX_LOG_DEBUG = 4,
    /// Everything.
    DFX_LOG_TRACE = 5,
}

/// Takes one message, in UTF-8 and without a line end, valid during the call. Called by any thread, several at a time. It
/// must not throw, and must not call a function of this library on the session that the message is of: a session's own
/// threads tell, too. `level` is a `dfx_log_level_e`.
pub type dfx_log_f =
    Option<unsafe extern "C" fn(ctx: *mut c_void, level: u32, target: *const c_char, message: *const c_char)>;

#[derive(Clone, Copy)]
struct Sink {
    log: unsafe extern "C" fn(*mut c_void, u32, *const c_char, *const c_char),
    ctx: *mut c_void,
}

// SAFETY: the caller promises that the function may be called by any thread with this `ctx` (`dfx_log_f`).
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Option<Sink>> = RwLock::new(None);
static LEVEL: AtomicU32 = AtomicU32::new(dfx_log_level_e::DFX_LOG_WARN as u32);
static INSTALLED: OnceLock<bool> = OnceLock::new();

fn number(level: &Level) -> u32 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The level that a word stands for.
pub(crate) fn level_of(word: &str) -> Option<u32> {
    ["off", "error", "warn", "info", "debug", "trace"].iter().position(|w| *w == word).map(|at| at as u32)
}

/// Sets how much is told. The first call makes the library tell at all: to standard error, unless the caller has a sink.
pub(crate) fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
    // A Rust program that links this crate may have a subscriber of its own: it keeps it.
    if !*INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Bridge).is_ok()) {
        tracing::debug!("the program's own subscriber takes the log");
    }
    tracing::callsite::rebuild_interest_cache();
}

/// From the library's events to the caller's function.
struct Bridge;

impl Subscriber for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        number(metadata.level()) <= LEVEL.load(Ordering::Relaxed)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = number(event.metadata().level());
        // Copied out: the function may set another sink.
        let sink = *SINK.read().unwrap_or_else(PoisonError::into_inner);
        match sink {
            // A message that cannot be written is not worth a worker's life, which a panic would cost.
            None => drop(writeln!(io::stderr(), "dfx: {}", line.text())),
            Some(Sink { log, ctx }) => {
                let target = CString::new(event.metadata().target()).unwrap_or_default();
                let message = CString::new(line.text().replace('\0', "\u{fffd}")).unwrap_or_default();
                // SAFETY: the caller's function, as `dfx_log_f` describes it; both strings outlive the call.
                unsafe { log(ctx, level, target.as_ptr(), message.as_ptr()) }
            }
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A message and its fields on one line.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(&self) -> String {
        format!("{}{}", self.message, self.fields)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Sends the log of all sessions to `log` from now on, up to `level` (a `dfx_log_level_e`); null sends it to standard
/// error. Without this call, and without `DFX_LOG` in the environment of `dfx_config_from_env`, nothing is told. Any
/// thread, any time; a message that is under way may still reach the function before: keep its `ctx` until every session
/// that was there is destroyed.
///
/// Errors: `DFX_E_INVALID`.
///
/// # Safety
/// `log` is null or a function as `dfx_log_f` describes it, for as long as it is the sink.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_log_set(log: dfx_log_f, ctx: *mut c_void, level: u32) -> dfx_status_e {
    guard(|| {
        if level > dfx_log_level_e::DFX_LOG_TRACE as u32 {
            return Err(Failure::invalid("level", level, "a dfx_log_level_e, 0 to 5"));
        }
        *SINK.write().unwrap_or_else(PoisonError::into_inner) = log.map(|log| Sink { log, ctx });
        set_level(level);
        Ok(())
    })
}
