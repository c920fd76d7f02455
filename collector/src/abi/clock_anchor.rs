//! Clock anchors: moments that host and device both stamped, by which a trace puts the two clocks together.

/// `kClockAnchorSamplesPerPosition`: samples taken at a position.
pub const SAMPLES_PER_POSITION: u64 = 3;
/// `PLATFORM_ACL_EVENT_TIMESTAMP_FREQ_HZ`: the clock of a board's event stamps, in Hz.
pub const EVENT_HZ: u64 = 1_000_000;
/// `PLATFORM_ACL_EVENT_TIMESTAMP_UNIT`: what artifacts call that clock.
pub const EVENT_UNIT: &str = "device_uptime_us";

/// When a sample is taken (`ClockAnchorPosition`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Position {
    /// Before the host begins to build the graph.
    HostOrchestrationBegin = 0,
    /// After the device has finished.
    DeviceExecutionComplete = 1,
}

impl Position {
    /// The position with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Position> {
        Some(match raw {
            0 => Position::HostOrchestrationBegin,
            1 => Position::DeviceExecutionComplete,
            _ => return None,
        })
    }
}

/// Where taking a sample failed (`ClockAnchorErrorStage`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u32)]
pub enum ErrorStage {
    /// It did not.
    #[default]
    None = 0,
    /// Making the stream.
    CreateStream = 1,
    /// Making the event.
    CreateEvent = 2,
    /// Putting the event on the stream.
    RecordEvent = 3,
    /// Waiting for the event.
    SynchronizeEvent = 4,
    /// Asking for its stamp.
    GetTimestamp = 5,
}

impl ErrorStage {
    /// The stage with number `raw`, if there is one.
    pub const fn from_raw(raw: u32) -> Option<ErrorStage> {
        Some(match raw {
            0 => ErrorStage::None,
            1 => ErrorStage::CreateStream,
            2 => ErrorStage::CreateEvent,
            3 => ErrorStage::RecordEvent,
            4 => ErrorStage::SynchronizeEvent,
            5 => ErrorStage::GetTimestamp,
            _ => return None,
        })
    }
}
