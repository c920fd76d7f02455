//! The device library as a runtime gets it: `ffi/device/archive.sh`'s archive, linked with a stand-in for the runtime
//! (`tests/ffi/runtime_stub.c`) into a shared library, and loaded. Each [`Library`] is a copy of its own, with its own state.

use dfx_collector::abi::Platform;
use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::task::CoreCallable;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A loaded copy. It stays loaded, as a runtime's does; its state is that of a process.
#[derive(Debug)]
pub struct Library {
    /// Which platform it was built for.
    pub platform: Platform,
    /// What it exports on both platforms.
    pub call: Exports,
    /// What it exports on one.
    pub pmu: PmuRecord,
    depth: *const AtomicI32,
    /// The runtime's stand-in.
    pub stub: Stub,
}

// SAFETY: the pointer is to an atomic of a library that stays loaded.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// The PMU's recording function.
#[derive(Clone, Copy, Debug)]
pub enum PmuRecord {
    /// AICPU reads the counters.
    A2a3(PmuA2a3),
    /// The core has left them in its ring.
    A5(PmuA5),
}

/// The one variable among the names.
pub const DEPTH: &str = "scope_stats_depth";

macro_rules! symbols {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $symbol:literal: fn($($arg:ty),*) $(-> $out:ty)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)] // each is documented where it is implemented
        pub struct $name {
            $(pub $field: unsafe extern "C" fn($($arg),*) $(-> $out)?,)*
        }

        impl $name {
            /// The names, as the linker knows them.
            pub const SYMBOLS: &'static [&'static str] = &[$($symbol),*];

            unsafe fn load(of: impl Fn(&str) -> *mut c_void) -> Self {
                // SAFETY: the signatures are those of the symbols (the caller's contract).
                unsafe {
                    $name { $($field: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $out)?>(of($symbol)),)* }
                }
            }
        }
    };
}

symbols! {
    /// The drop-in's functions, by the names that the reference's sources have (without the prefix of the feature).
    Exports {
        set_swimlane_base = "set_platform_chip_swimlane_base": fn(u64),
        swimlane_base = "get_platform_chip_swimlane_base": fn() -> u64,
        set_rotation_table = "set_platform_chip_swimlane_aicore_rotation_table": fn(u64),
        rotation_table = "get_platform_chip_swimlane_aicore_rotation_table": fn() -> u64,
        set_swimlane_enabled = "set_chip_swimlane_enabled": fn(bool),
        is_swimlane_enabled = "is_chip_swimlane_enabled": fn() -> bool,
        swimlane_level = "_Z23get_chip_swimlane_levelv": fn() -> u32,
        swimlane_init = "_Z24chip_swimlane_aicpu_initi": fn(i32),
        init_phase = "_Z30chip_swimlane_aicpu_init_phaseiii": fn(i32, i32, i32),
        on_dispatch = "_Z38chip_swimlane_aicpu_on_aicore_dispatchiij": fn(i32, i32, u32),
        on_ack = "_Z33chip_swimlane_aicpu_on_aicore_ackiij": fn(i32, i32, u32),
        complete_task = "_Z33chip_swimlane_aicpu_complete_taskiijmm": fn(i32, i32, u32, u64, u64) -> i32,
        swimlane_flush = "_Z25chip_swimlane_aicpu_flushiPKii": fn(i32, *const i32, i32),
        sched_phase = "_Z38chip_swimlane_aicpu_record_sched_phasei26ChipSwimlaneSchedPhaseKindmmjjjjPKsS1_":
            fn(i32, u32, u64, u64, u32, u32, u32, u32, *const i16, *const i16),
        dummy_task = "_Z37chip_swimlane_aicpu_record_dummy_taskimjm": fn(i32, u64, u32, u64),
        predicated_skip = "_Z42chip_swimlane_aicpu_record_predicated_skipimjm": fn(i32, u64, u32, u64),
        graph_prepare = "_Z40chip_swimlane_aicpu_record_graph_prepareimmjmj": fn(i32, u64, u64, u32, u64, u32),
        swimlane_orch_thread = "_Z39chip_swimlane_aicpu_set_orch_thread_idxi": fn(i32),
        orch_phase = "_Z37chip_swimlane_aicpu_record_orch_phasemmmj": fn(u64, u64, u64, u32),
        flush_sched_phases = "_Z44chip_swimlane_aicpu_flush_sched_phase_bufferi": fn(i32),
        flush_orch_phases = "_Z43chip_swimlane_aicpu_flush_orch_phase_bufferi": fn(i32),
        init_assignments = "_Z41chip_swimlane_aicpu_init_core_assignmentsi": fn(i32),
        write_assignments = "_Z53chip_swimlane_aicpu_write_core_assignments_for_threadiPKii": fn(i32, *const i32, i32),

        set_dump_base = "set_platform_dump_base": fn(u64),
        dump_base = "get_platform_dump_base": fn() -> u64,
        set_dump_enabled = "set_dump_args_enabled": fn(bool),
        is_dump_enabled = "is_dump_args_enabled": fn() -> bool,
        is_selective = "is_dump_args_selective_mode": fn() -> bool,
        should_load_masks = "should_load_dump_args_task_masks": fn() -> bool,
        set_task_mask = "set_dump_args_task_mask": fn(u64, u64, u64),
        task_masks = "get_dump_args_task_masks": fn(u64, *mut u64, *mut u64),
        set_scalar_dtypes = "set_dump_args_task_scalar_dtypes": fn(u64, u32, *const u8),
        scalar_dtypes = "get_dump_args_task_scalar_dtypes": fn(u64, *mut u32, *mut u8) -> bool,
        role_from_direction = "_Z32get_dump_arg_role_from_direction12ArgDirectionP12ArgsDumpRole": fn(i32, *mut u8) -> bool,
        tensor_args = "_Z26count_callable_tensor_argsRK8CallableIvLi32ELi0EE": fn(&CoreCallable) -> i32,
        should_dump_at = "_Z24should_dump_arg_at_stage12ArgsDumpRole13ArgsDumpStage": fn(u8, u8) -> bool,
        should_dump_task = "_Z16should_dump_taskm": fn(u64) -> bool,
        should_dump_arg = "_Z15should_dump_argmi": fn(u64, i32) -> bool,
        has_arg_flag = "_Z17has_dump_arg_flagmi": fn(u64, i32) -> bool,
        layout_mismatch = "_Z33try_log_dump_args_layout_mismatchv": fn() -> bool,
        dump_init = "_Z14dump_args_initi": fn(i32),
        dump_record = "_Z15dump_arg_recordiRK12ArgsDumpInfo": fn(i32, &Info) -> i32,
        dump_flush = "_Z15dump_args_flushi": fn(i32),

        set_dep_gen_base = "set_platform_dep_gen_base": fn(u64),
        dep_gen_base = "get_platform_dep_gen_base": fn() -> u64,
        set_dep_gen_enabled = "set_dep_gen_enabled": fn(bool),
        is_dep_gen_enabled = "is_dep_gen_enabled": fn() -> bool,
        dep_gen_orch_thread = "_Z33dep_gen_aicpu_set_orch_thread_idxi": fn(i32),
        dep_gen_init = "_Z18dep_gen_aicpu_initv": fn(),
        record_submit = "_Z27dep_gen_aicpu_record_submitmbbiPKPKvPKhiPKmiPKi":
            fn(u64, bool, bool, i32, *const *const c_void, *const u8, i32, *const u64, i32, *const i32),
        dep_gen_flush = "_Z19dep_gen_aicpu_flushv": fn(),
        dep_gen_finalize = "_Z22dep_gen_aicpu_finalizev": fn(),

        set_scope_enabled = "set_scope_stats_enabled": fn(bool),
        is_scope_enabled = "is_scope_stats_enabled": fn() -> bool,
        set_scope_base = "set_platform_scope_stats_base": fn(u64),
        scope_orch_thread = "scope_stats_aicpu_set_orch_thread_idx": fn(i32),
        pending_site = "scope_stats_set_pending_site": fn(*const c_char, i32),
        scope_begin = "scope_stats_begin": fn(i32, i32, i32, u64, u64, i32, i32, i32),
        scope_end = "scope_stats_end": fn(i32, i32, i32, u64, u64, i32, i32, i32),
        on_fatal = "scope_stats_on_fatal": fn(),
        ring_capacity = "scope_stats_set_ring_capacity": fn(i32, i32, u64, i32),
        tensormap_capacity = "scope_stats_set_tensormap_capacity": fn(i32),
        note_heap_wrap = "scope_stats_note_heap_wrap": fn(i32),
        scope_flush = "scope_stats_aicpu_flush_buffers": fn(),

        set_pmu_base = "set_platform_pmu_base": fn(u64),
        pmu_base = "get_platform_pmu_base": fn() -> u64,
        set_pmu_enabled = "set_pmu_enabled": fn(bool),
        is_pmu_enabled = "is_pmu_enabled": fn() -> bool,
        pmu_init = "_Z14pmu_aicpu_initPKji": fn(*const u32, i32),
        pmu_flush = "_Z23pmu_aicpu_flush_buffersiPKii": fn(i32, *const i32, i32),
        pmu_finalize = "_Z18pmu_aicpu_finalizePKii": fn(*const i32, i32),
    }
}

symbols! {
    /// The PMU's recording function on a2a3.
    PmuA2a3 { record = "_Z21pmu_aicpu_record_taskiimj8CoreType": fn(i32, i32, u64, u32, i32), }
}

symbols! {
    /// The PMU's recording function on a5.
    PmuA5 { record = "_Z25pmu_aicpu_complete_recordiijmj8CoreType": fn(i32, i32, u32, u64, u32, i32), }
}

symbols! {
    /// The stand-in's knobs.
    Stub {
        set_step = "stub_set_step": fn(u64),
        errors = "stub_errors": fn() -> u32,
        warnings = "stub_warnings": fn() -> u32,
        last = "stub_last": fn() -> *const c_char,
        set_core = "stub_set_core": fn(u32, bool),
        set_register = "stub_set_register": fn(u32, u8, u32),
        register = "stub_register": fn(u32, u8) -> u32,
    }
}

impl Library {
    /// A fresh copy.
    ///
    /// # Panics
    /// When it cannot be built or loaded.
    pub fn load(platform: Platform) -> Library {
        // A library is known by its file: another file is another library. The mapping outlives the file.
        let copy =
            tempfile::Builder::new().suffix(".so").tempfile().expect("a temporary file").into_temp_path();
        std::fs::copy(shared(platform), &copy).expect("the library is copied");
        let name = CString::new(copy.as_os_str().as_encoded_bytes()).expect("no NUL in a path");
        // SAFETY: loading runs no initialiser of ours; the handle is never closed.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{}: {}", copy.display(), dl_error());
        let of = |symbol: &str| {
            let name = CString::new(symbol).expect("no NUL in a name");
            // SAFETY: the handle is open.
            let at = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!at.is_null(), "{symbol}: {}", dl_error());
            at
        };
        let depth = of(DEPTH).cast::<AtomicI32>().cast_const();
        // SAFETY: the signatures are those of the sources; each PMU function is there on its platform.
        unsafe {
            let pmu = match platform {
                Platform::A2a3 => PmuRecord::A2a3(PmuA2a3::load(of)),
                Platform::A5 => PmuRecord::A5(PmuA5::load(of)),
            };
            Library { platform, call: Exports::load(of), pmu, depth, stub: Stub::load(of) }
        }
    }

    /// All names that [`load`](Self::load) looks up on `platform`.
    pub fn symbols(platform: Platform) -> Vec<&'static str> {
        let pmu = match platform {
            Platform::A2a3 => PmuA2a3::SYMBOLS,
            Platform::A5 => PmuA5::SYMBOLS,
        };
        [Exports::SYMBOLS, pmu, &[DEPTH]].concat()
    }

    /// The variable `scope_stats_depth`.
    pub fn scope_depth(&self) -> i32 {
        // SAFETY: the library stays loaded.
        unsafe { &*self.depth }.load(Ordering::Relaxed)
    }

    /// The last line that was logged.
    pub fn logged(&self) -> String {
        // SAFETY: the stand-in's text ends, and nobody logs meanwhile.
        unsafe { CStr::from_ptr((self.stub.last)()) }.to_string_lossy().into_owned()
    }
}

fn dl_error() -> String {
    // SAFETY: it gives a string or null.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return "no error".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
}

const fn name_of(platform: Platform) -> &'static str {
    match platform {
        Platform::A2a3 => "a2a3",
        Platform::A5 => "a5",
    }
}

fn run(what: &mut Command) {
    let done = what.output().unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert!(done.status.success(), "{what:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Where the tests build: in cargo's target directory, which has the running test in `PROFILE/deps`.
fn build_dir() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(3).expect("tests run from the target directory").join("tmp/device-library")
}

/// The archive for `platform`, as `ffi/device/archive.sh` makes it.
///
/// # Panics
/// When it cannot be made.
pub fn archive(platform: Platform) -> PathBuf {
    static BUILT: [OnceLock<()>; 2] = [const { OnceLock::new() }; 2];
    let to = build_dir().join(format!("libdfx_device_{}.a", name_of(platform)));
    BUILT[platform as usize].get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi/device/archive.sh");
        // Tests of other binaries may be at it, too: the archive gets its name when it is whole.
        let dir = tempfile::tempdir().expect("a temporary directory");
        let made = dir.path().join("made.a");
        run(Command::new("bash").arg(script).arg(name_of(platform)).arg(&made));
        std::fs::create_dir_all(build_dir()).expect("a directory");
        put(&made, &to);
    });
    to
}

/// Moves a file to where others may be reading one.
fn put(from: &Path, to: &Path) {
    let beside = to.with_extension(format!("{}.new", std::process::id()));
    std::fs::copy(from, &beside).and_then(|_| std::fs::rename(&beside, to)).expect("a file can be put there");
}

/// The shared library for `platform`: the whole archive and the stand-in.
fn shared(platform: Platform) -> PathBuf {
    static LINKED: [Mutex<Option<PathBuf>>; 2] = [const { Mutex::new(None) }; 2];
    let mut linked = LINKED[platform as usize].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &*linked {
        return path.clone();
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let made = dir.path().join("made.so");
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("ffi/runtime_stub.c");
    let mut cc = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-Wl,-z,defs"]);
    if platform == Platform::A2a3 {
        cc.arg("-DPLATFORM_A2A3");
    }
    cc.arg(stub)
        .arg("-Wl,--whole-archive")
        .arg(archive(platform))
        .args(["-Wl,--no-whole-archive", "-o"])
        .arg(&made);
    run(&mut cc);
    let to = build_dir().join(format!("{}.so", name_of(platform)));
    put(&made, &to);
    *linked = Some(to.clone());
    to
}
