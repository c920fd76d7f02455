//! What a run orchestrated on the host adds to `chip_swimlane_records.json`: the host's own submits and uploads, and
//! the anchors that relate its clock to the device's counter.
//!
//! All times are nanoseconds of the host's monotonic clock unless they say otherwise.

use std::fmt::Write as _;

/// One submit, made on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostSubmit {
    /// Counts submits from 0.
    pub submit_idx: u32,
    /// The submitted task.
    pub task_id: u64,
    /// In ns.
    pub start_ns: u64,
    /// In ns.
    pub end_ns: u64,
}

/// What was uploaded to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadPhase {
    /// The whole graph.
    GraphUpload,
    /// The shared-memory region.
    SharedMemory,
    /// The arena.
    Arena,
}

impl UploadPhase {
    /// The word for it in the artifact.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            UploadPhase::GraphUpload => "graph_upload",
            UploadPhase::SharedMemory => "sm_h2d",
            UploadPhase::Arena => "arena_h2d",
        }
    }

    /// The phase called `name` in an artifact.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [UploadPhase::GraphUpload, UploadPhase::SharedMemory, UploadPhase::Arena]
            .into_iter()
            .find(|p| p.name() == name)
    }
}

/// One upload from host to device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostUpload {
    /// What was uploaded.
    pub phase: UploadPhase,
    /// In ns.
    pub start_ns: u64,
    /// In ns.
    pub end_ns: u64,
    /// Bytes, where the phase counts them.
    pub detail: u64,
}

/// The account of the host's own recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCapture {
    /// Tasks submitted.
    pub expected_records: u64,
    /// Submits recorded.
    pub recorded_records: u64,
    /// Records that the pool took, all kinds.
    pub pool_records: u64,
    /// Records that the pool had no room for.
    pub dropped_records: u64,
}

impl HostCapture {
    /// Status and, when it is not complete, why.
    #[must_use]
    pub const fn status(&self) -> (&'static str, Option<&'static str>) {
        if self.dropped_records > 0 {
            ("dropped", Some("pool_overflow"))
        } else if self.recorded_records != self.expected_records {
            ("incomplete", Some("record_count_mismatch"))
        } else {
            ("complete", None)
        }
    }
}

/// A reading of both clocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnchorSample {
    /// `pre_host_orchestration` or `post_device_execution`.
    pub position: String,
    /// Counts the samples of a position from 0.
    pub sample_idx: u32,
    /// Host time before the device's clock was read, in ns.
    pub host_before_ns: u64,
    /// The device's time stamp in its own unit; `None` if there is none.
    pub raw_device_timestamp: Option<u64>,
    /// The same in ticks of the counter.
    pub device_cycles: Option<u64>,
    /// Host time after it, in ns.
    pub host_after_ns: u64,
    /// Where the reading failed, and with which code.
    pub error: Option<(String, i64)>,
}

impl AnchorSample {
    /// How long the reading took, in ns.
    #[must_use]
    pub const fn rtt_ns(&self) -> u64 {
        self.host_after_ns.saturating_sub(self.host_before_ns)
    }

    /// How far the device's time may be off the middle of the reading, in ns.
    #[must_use]
    pub const fn uncertainty_ns(&self) -> u64 {
        self.rtt_ns().div_ceil(2)
    }
}

/// What relates the host's clock to the device's counter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClockAnchors {
    /// Who read the device's clock: `sim_syscnt`, `acl_event` or `unavailable`.
    pub provider: String,
    /// Unit of [`AnchorSample::raw_device_timestamp`].
    pub raw_device_timestamp_unit: String,
    /// Samples asked for at each position.
    pub samples_per_position: u32,
    /// The readings, in the order in which they were made.
    pub samples: Vec<AnchorSample>,
}

/// All that a host-orchestrated run adds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostOrchestration {
    /// The account of the host's recording; `None` if no host record was handed over.
    pub capture: Option<HostCapture>,
    /// If a clock session was started.
    pub anchors: Option<ClockAnchors>,
    /// The submits, in order.
    pub submits: Vec<HostSubmit>,
    /// The uploads, in order.
    pub uploads: Vec<HostUpload>,
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `value` as a JSON number, or `null`.
fn or_null(value: Option<u64>) -> String {
    value.map_or_else(|| "null".into(), |v| v.to_string())
}

impl HostOrchestration {
    /// The earliest start over submits and uploads, in ns; 0 if there is none.
    #[must_use]
    pub fn origin_ns(&self) -> u64 {
        let submits = self.submits.iter().map(|s| s.start_ns);
        submits.chain(self.uploads.iter().map(|u| u.start_ns)).min().unwrap_or(0)
    }

    /// The lines that stand between `core_types` and `core_to_thread`, each after its comma.
    pub(super) fn metadata(&self) -> String {
        let mut text = String::new();
        if let Some(capture) = &self.capture {
            let (status, error) = capture.status();
            let error = error.map_or_else(|| "null".into(), quoted);
            // Writing to a string cannot fail, here and below.
            let _ = write!(
                text,
                ",\n    \"orchestrator_source\": \"host\",\n    \"orchestrator_clock_domain\": \"host_monotonic_ns\",\
                 \n    \"device_clock_domain\": \"device_syscnt_cycles\",\
                 \n    \"host_timestamp_resolution_ns\": 1,\n    \"host_timestamp_quantization_ns\": 0,\
                 \n    \"host_orchestration_origin_ns\": {},\
                 \n    \"timeline_relation\": \"host_orchestration_precedes_device\",\
                 \n    \"host_capture\": {{\"status\": \"{status}\", \"expected_records\": {}, \
                 \"recorded_records\": {}, \"pool_records\": {}, \"dropped_records\": {}, \"error\": {error}}}",
                self.origin_ns(),
                capture.expected_records,
                capture.recorded_records,
                capture.pool_records,
                capture.dropped_records,
            );
        }
        if let Some(anchors) = &self.anchors {
            anchors.write(&mut text);
        }
        text
    }

    /// The keys that stand after the device's phases, each after its comma.
    pub(super) fn phases(&self) -> String {
        let mut text = String::new();
        for (i, submit) in self.submits.iter().enumerate() {
            let _ = write!(
                text,
                "{}\n      {{\"submit_idx\": {}, \"task_id\": {}, \"start_host_ns\": {}, \"end_host_ns\": {}}}",
                if i == 0 { ",\n  \"host_orchestrator_phases\": [[" } else { "," },
                submit.submit_idx,
                submit.task_id,
                submit.start_ns,
                submit.end_ns,
            );
        }
        if !self.submits.is_empty() {
            text.push_str("\n    ]]");
        }
        for (i, upload) in self.uploads.iter().enumerate() {
            let _ = write!(
                text,
                "{}\n      {{\"phase\": \"{}\", \"start_host_ns\": {}, \"end_host_ns\": {}, \"detail\": {}}}",
                if i == 0 { ",\n  \"host_device_uploads\": [" } else { "," },
                upload.phase.name(),
                upload.start_ns,
                upload.end_ns,
                upload.detail,
            );
        }
        if !self.uploads.is_empty() {
            text.push_str("\n    ]");
        }
        text
    }
}

impl ClockAnchors {
    fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            ",\n    \"clock_anchors\": {{\n      \"schema_version\": 1,\n      \"provider\": {},\
             \n      \"device_timestamp_unit\": \"syscnt_cycles\",\n      \"raw_device_timestamp_unit\": {},\
             \n      \"samples_per_position\": {},\n      \"samples\": [",
            quoted(&self.provider),
            quoted(&self.raw_device_timestamp_unit),
            self.samples_per_position,
        );
        for (i, sample) in self.samples.iter().enumerate() {
            let error = sample.error.as_ref().map_or_else(
                || "null".into(),
                |(stage, code)| format!("{{\"stage\": {}, \"code\": {code}}}", quoted(stage)),
            );
            let _ = write!(
                text,
                "{}\n        {{\"position\": {}, \"sample_idx\": {}, \"host_before_ns\": {}, \
                 \"raw_device_timestamp\": {}, \"device_cycles\": {}, \"host_after_ns\": {}, \"rtt_ns\": {}, \
                 \"uncertainty_ns\": {}, \"error\": {error}}}",
                if i == 0 { "" } else { "," },
                quoted(&sample.position),
                sample.sample_idx,
                sample.host_before_ns,
                or_null(sample.raw_device_timestamp),
                or_null(sample.device_cycles),
                sample.host_after_ns,
                sample.rtt_ns(),
                sample.uncertainty_ns(),
            );
        }
        text.push_str(if self.samples.is_empty() { "]\n    }" } else { "\n      ]\n    }" });
    }
}
